"""Stages a function with its dependencies in a folder where it runs on its own."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import io
import json
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ratchet.source.closure import Closure, closure_of
from ratchet.source.connections import held_open, origin_of, origins_of
from ratchet.source.data_files import data_files
from ratchet.source.targets import FoundTarget
from ratchet.source.tree import Module, SourceTree
from ratchet.types import InputError

MANIFEST = "extract.json"
LEFT_OUT = "left_out.py"
_DECORATORS = frozenset({"agent", "evolve", "llm_call", "retriever", "rollout", "tool", "trace"})

_LEFT_OUT_SOURCE = '''"""Placeholders of what was not staged; using one raises."""


class LeftOut:
    """Placeholder of something that cannot be staged."""

    def __init__(self, name: str, why: str) -> None:
        self.__dict__.update(name=name, why=why)

    def _refuse(self, *args: object, **kwargs: object) -> object:
        raise RuntimeError(
            f"{self.__dict__['name']} was not staged, since it is"
            f" {self.__dict__['why']}: replace it."
        )

    __call__ = __getattr__ = __getitem__ = __iter__ = __enter__ = __setattr__ = _refuse
'''


class LeftOut(msgspec.Struct, frozen=True, order=True):
    """A name that was not staged."""

    what: str
    why: str


class StagedFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A staged function."""

    name: str
    function: str
    """Entry as MODULE:FUNCTION."""
    folder: Path
    files: tuple[str, ...]
    """Sources, relative to the folder."""
    data: tuple[str, ...]
    """Data files, relative to the folder."""
    packages: dict[str, str]
    """Version by required distribution; empty for a distribution that is not installed here."""
    left_out: tuple[LeftOut, ...]
    lines: int
    """Number of staged source lines."""
    lines_before: int
    """Number of lines of the original files."""
    command: str
    """Command that runs it, in the folder."""


class UndecoratedTree(SourceTree):
    """A source tree without Ratchet's decorators, which do nothing in a staged function."""

    def _read(self, file: Path) -> Module | None:
        module = super()._read(file)
        if module is None or "ratchet" not in module.text:
            return module
        text = _undecorated(module)
        tree = ast.parse(text)
        return msgspec.structs.replace(module, text=text, tree=tree)


def stage(
    tree: UndecoratedTree,
    target: FoundTarget,
    folder: Path,
    *,
    private: Iterable[Path] = (),
    whole_modules: bool = False,
) -> StagedFunction:
    """Write a function with its dependencies into a folder. Idempotent.

    Cases added to the folder's `cases.jsonl` are kept.

    Args:
        tree: The repository.
        target: The function.
        folder: Destination; it is created. It may only contain previously staged files.
        private: Files that are never staged.
        whole_modules: Stage needed modules whole, for when pruned ones do not load.

    Raises:
        InputError: The folder contains other files, or the function is nested in another function.
        OSError: The folder cannot be written.
    """
    module = tree.read(target.file)
    if module is None or "<locals>" in target.qualname:
        raise InputError(f"{target.module}:{target.qualname} cannot be staged.")
    closure = closure_of(tree, module, target.top, held_open, whole_modules=whole_modules)
    sources = _sources(tree, closure)
    left_out = _left_out(tree, closure)
    data: dict[str, Path] = {}
    for file, statements in closure.statements.items():
        of = tree.read(file)
        if of is None:
            continue
        for data_file in data_files(tree.root, of, statements, private):
            relative = data_file.file.relative_to(tree.root).as_posix()
            if data_file.refused:
                left_out.append(LeftOut(f"the file {relative}", data_file.refused))
            else:
                data[relative] = data_file.file
    packages, absent = _packages(closure)
    left_out += absent
    path = [f.relative_to(tree.root).as_posix() for f in tree.path]
    contents = {name: text.encode() for name, text in sources.items()}
    manifest = {
        "target": {
            "name": target.name,
            "module": target.module,
            "qualname": target.qualname,
            "path": path,
        },
        "packages": packages,
        "left_out": [[omission.what, omission.why] for omission in sorted(set(left_out))],
    }
    contents["run.py"] = (Path(__file__).with_name("staged_run.py")).read_bytes()
    contents["requirements.txt"] = _requirements(packages).encode()
    if any(closure.left_out.values()):
        contents[f"{path[0]}/{LEFT_OUT}".removeprefix("./")] = _LEFT_OUT_SOURCE.encode()
    _write(folder, contents, data, manifest, _first_case(module, target))
    lines = sum(text.count("\n") for text in sources.values())
    before = sum(m.text.count("\n") for f in closure.statements if (m := tree.read(f)))
    return StagedFunction(
        name=target.name,
        function=f"{target.module}:{target.qualname}",
        folder=folder,
        files=tuple(sorted(sources)),
        data=tuple(sorted(data)),
        packages=packages,
        left_out=tuple(sorted(set(left_out))),
        lines=lines,
        lines_before=before,
        command="python run.py --case cases.jsonl",
    )


def _sources(tree: SourceTree, closure: Closure) -> dict[str, str]:
    """Source text by path: the needed statements of each file, with the comments above them."""
    sources: dict[str, str] = {}
    for file, statements in closure.statements.items():
        module = tree.read(file)
        assert module is not None
        lines = io.StringIO(module.text).readlines()
        parts: list[str] = []
        why = closure.left_out.get(file, {})
        imported = False
        for statement in statements:
            if statement in why:
                if not imported:
                    parts.append("from left_out import LeftOut\n")
                    imported = True
                parts.append(_stand_in(statement, why[statement]))
                continue
            first = min(
                [statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))]
            )
            while (
                first > 1 and lines[first - 2].startswith("#") and "EVOLVE" not in lines[first - 2]
            ):
                first -= 1
            text = "".join(lines[first - 1 : statement.end_lineno])
            if first == statement.lineno:
                text = _from_column(text, statement, lines)
            parts.append(text if text.endswith("\n") else text + "\n")
        sources[file.relative_to(tree.root).as_posix()] = _spaced(parts)
    return sources


def _from_column(text: str, statement: ast.stmt, lines: list[str]) -> str:
    """Source text of a statement that shares its line with others."""
    line = lines[statement.lineno - 1].encode()
    last = lines[(statement.end_lineno or statement.lineno) - 1].encode()
    after = last[statement.end_col_offset :].decode().strip()
    if statement.col_offset or after.startswith(";"):
        return ast.get_source_segment("".join(lines), statement) or text
    del line
    return text


def _spaced(parts: list[str]) -> str:
    text = ""
    for part in parts:
        big = part.lstrip("#").lstrip().startswith(("def ", "async def ", "class ", "@"))
        text += ("\n\n" if big and text else "") + part
    return text


def _stand_in(statement: ast.stmt, why: str) -> str:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    return "".join(f"{name} = LeftOut({name!r}, {why!r})\n" for name in names)


def _left_out(tree: SourceTree, closure: Closure) -> list[LeftOut]:
    left_out = [
        LeftOut(f"{ast.unparse(statement).splitlines()[0][:120]} ({_shown(tree, file)})", why)
        for file, statements in closure.left_out.items()
        for statement, why in statements.items()
    ]
    left_out += [
        LeftOut(
            f"{missing.name} ({missing.file})",
            "it is not defined in the source, perhaps dynamically",
        )
        for missing in closure.missing
    ]
    return left_out


def _shown(tree: SourceTree, file: Path) -> str:
    return file.relative_to(tree.root).as_posix()


def _packages(closure: Closure) -> tuple[dict[str, str], list[LeftOut]]:
    """Version by distribution of external imports."""
    distributions: Mapping[str, list[str]] = importlib.metadata.packages_distributions()
    packages: dict[str, str] = {}
    left_out: list[LeftOut] = []
    for imported, files in sorted(closure.outside.items()):
        head = imported.partition(".")[0]
        if not head:
            where = ", ".join(sorted(files))
            left_out.append(LeftOut(f"a relative import ({where})", "it leads outside the package"))
        elif head not in sys.stdlib_module_names:
            names = distributions.get(head, [])
            for name in names[:1]:
                packages[name] = importlib.metadata.version(name)
            if not names:
                packages[head] = ""
                left_out.append(
                    LeftOut(
                        f"the package {head}", "it is neither part of this repository nor installed"
                    )
                )
    return packages, left_out


def _requirements(packages: Mapping[str, str]) -> str:
    return "".join(
        f"{name}=={version}\n" if version else f"# {name}: not installed where this was staged\n"
        for name, version in sorted(packages.items())
    )


def _undecorated(module: Module) -> str:
    origins = origins_of(module)
    lines = io.StringIO(module.text).readlines()
    for node in ast.walk(module.tree):
        for decorator in getattr(node, "decorator_list", []):
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            head, _, last = origin_of(called, origins).rpartition(".")
            if head.partition(".")[0] == "ratchet" and last in _DECORATORS:
                for number in range(decorator.lineno, (decorator.end_lineno or 0) + 1):
                    lines[number - 1] = "" if number > decorator.lineno else "\n"
    # Line numbers may have shifted: parse the text again.
    return "".join(lines)


def _first_case(module: Module, target: FoundTarget) -> str:
    """An example case: a value for each required parameter, by its annotation."""
    node: ast.AST = module.tree
    for part in target.qualname.split("."):
        node = next(
            (
                child
                for child in ast.walk(node)
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
                and child.name == part
            ),
            node,
        )
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return "{}\n"
    positional = [*node.args.posonlyargs, *node.args.args]
    needed = positional[: len(positional) - len(node.args.defaults)]
    is_static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
    if "." in target.qualname and not is_static:
        needed = needed[1:]
    only = [
        argument
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if default is None
    ]
    case = {
        "args": [_guess(a.annotation) for a in needed],
        "kwargs": {a.arg: _guess(a.annotation) for a in only},
    }
    return json.dumps(case) + "\n"


def _guess(annotation: ast.expr | None) -> object:
    name = ast.unparse(annotation).strip("'\"").partition("[")[0] if annotation else ""
    guesses: dict[str, object] = {
        "int": 1, "float": 1.0, "bool": True, "list": [], "tuple": [], "set": [], "Sequence": [],
        "Iterable": [], "dict": {}, "Mapping": {}, "None": None, "Optional": None,
    }  # fmt: skip
    return guesses.get(name.rpartition(".")[2], "text")


def _write(
    folder: Path,
    contents: Mapping[str, bytes],
    data: Mapping[str, Path],
    manifest: dict[str, object],
    first_case: str,
) -> None:
    before = _staged_before(folder)
    folder.mkdir(parents=True, exist_ok=True)
    current_files = {*contents, *data, MANIFEST}
    for name in before - current_files:
        (folder / name).unlink(missing_ok=True)
    sums: dict[str, str] = {}
    for name, content in contents.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_file() or file.read_bytes() != content:
            file.write_bytes(content)
        sums[name] = hashlib.sha256(content).hexdigest()
    for name, original in data.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(original, folder / name)
        sums[name] = hashlib.sha256(original.read_bytes()).hexdigest()
    manifest["files"] = dict(sorted(sums.items()))
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    cases = folder / "cases.jsonl"
    if not cases.exists():
        cases.write_text(first_case, encoding="utf-8")


def _staged_before(folder: Path) -> set[str]:
    """Names of the files previously staged into a folder.

    Raises:
        InputError: The folder contains other files.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return set()
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return {
            name for name in manifest["files"] if not Path(name).is_absolute() and ".." not in name
        }
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{folder} contains files that Ratchet did not put there.",
            hint="Choose another folder with --out.",
        ) from None
