"""Whether the wiring of a project still fits it. Reads; runs and imports nothing of it."""

from __future__ import annotations

import ast
import re
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from ratchet.types import InputError
from ratchet.wire.entry.javascript_file import is_javascript
from ratchet.wire.entry.javascript_marks import marked_names
from ratchet.wire.entry.package_import import PACKAGE
from ratchet.wire.facts import Place, RepositoryLook
from ratchet.wire.former.dependency import manifest_of
from ratchet.wire.former.fitting import Misfit, agent_misfits
from ratchet.wire.former.record import NAME, FormerRecord, decoded, read_record
from ratchet.wire.former.undo import FormerUndone, find_record, undone_of
from ratchet.wire.former.view import view
from ratchet.wire.looking.former_look import look
from ratchet.wire.project_files.config_file import NAME as CONFIG
from ratchet.wire.project_files.package_json import nearest_package


class Diagnosis(msgspec.Struct, frozen=True):
    """What a look at a wired project says of its wiring."""

    root: str
    """The repository."""
    project: str
    """Folder of the project, relative to it."""
    prompts: int
    """Prompts that the wiring bound."""
    misfits: tuple[Misfit, ...]
    """What no longer fits; empty if all does."""


def diagnose(folder: Path) -> Diagnosis:
    """Check the wiring of a project.

    Args:
        folder: The repository, or the folder of a project in it.

    Raises:
        InputError: Neither a record of `ratchet init` nor a `ratchet.toml` is there.
    """
    root, project, record = _wired(folder)
    undone = undone_of(root, record, force=True) if record else None
    path = PurePosixPath(project) / CONFIG
    tables, broken = _tables(root, path.as_posix())
    # What was made by hand beside our pieces is looked at where it stands.
    contents = {**undone.contents, str(PurePosixPath(project) / NAME): None} if undone else {}
    with view(root, contents) as without:
        found = look(without)
    misfits = list(broken)
    if record is not None and undone is not None:
        misfits += agent_misfits(root, record, found, undone.moved)
        misfits += _gone(record, undone)
    misfits += _unmarked(root, found)
    if record is not None and record.run == "command":
        misfits += _unmarked_scripts(root, found, record)
        misfits += _npm_dependency(root, record)
    misfits += _config_misfits(root, project, path.as_posix(), tables)
    if found.languages and _is_python(tables, record):
        misfits += _dependency(root, found, project)
    count = sum(one.way != "leave" for one in record.prompts) if record else 0
    return Diagnosis(str(root), project, count, tuple(dict.fromkeys(misfits)))


def _wired(folder: Path) -> tuple[Path, str, FormerRecord | None]:
    try:
        root, path = find_record(folder)
    except InputError:
        if not (folder / CONFIG).is_file():
            raise
        return folder.resolve(), ".", None
    record = read_record(decoded((root / path).read_bytes()), path)
    return root, record.project, record


def _tables(root: Path, path: str) -> tuple[dict[str, Any], list[Misfit]]:
    try:
        text = (root / path).read_text(encoding="utf-8-sig")
        return tomllib.loads(text), []
    except FileNotFoundError:
        return {}, [Misfit(Place(path), "It is not there.", "git checkout HEAD -- " + path)]
    except (OSError, ValueError) as error:
        return {}, [Misfit(Place(path), f"It cannot be read: {error}.", "Fix it.")]


def _is_python(tables: Mapping[str, Any], record: FormerRecord | None) -> bool:
    return "entry" in tables.get("agent", {}) or (record is not None and record.run == "python")


def _gone(record: FormerRecord, undone: FormerUndone) -> Iterator[Misfit]:
    """Pieces that stood in files which are there, and stand there no more."""
    for recorded in record.files:
        path = undone.moved.get(recorded.path, recorded.path)
        after = undone.files.get(path)
        for number in after.gone if after else ():
            inserted = recorded.pieces[number].inserted
            # An import or a bracket alone says nothing.
            named = re.search(r"prompt\(\s*[\"']([^\"']+)|ratchet\.init", inserted)
            if named is None:
                continue
            what = f"the prompt {named[1]}" if named[1] else f"`{' '.join(inserted.split())}`"
            yield Misfit(
                Place(path),
                f"What declared {what} is not there any more.",
                "ratchet init says what can be wired again.",
            )


def _unmarked(root: Path, found: RepositoryLook) -> Iterator[Misfit]:
    """Tools that act outside and are not marked: candidates would run them."""
    acting = {one.tool for one in found.side_effects if one.acts and one.tool}
    for tool in found.tools:
        if tool.name not in acting or not tool.place.path.endswith(".py"):
            continue
        data = (root / tool.place.path).read_bytes() if (root / tool.place.path).is_file() else b""
        line, marked = _marked(data, tool.name)
        if not marked:
            yield Misfit(
                Place(tool.place.path, line or tool.place.line),
                f"The tool {tool.name} has side effects and is not marked.",
                "Mark it: @ratchet.tool(side_effects=True)",
            )


def _unmarked_scripts(root: Path, found: RepositoryLook, record: FormerRecord) -> Iterator[Misfit]:
    """Tools in JavaScript that act outside and are not marked, of those that may not act."""
    acting = {one.tool for one in found.side_effects if one.acts and one.tool}
    for tool in found.tools:
        path = tool.place.path
        if tool.name not in acting or tool.name in record.may_run or not is_javascript(path):
            continue
        data = (root / path).read_bytes() if (root / path).is_file() else b""
        if tool.name not in marked_names(path, data):
            yield Misfit(
                tool.place,
                f"The tool {tool.name} has side effects and is not marked.",
                f"Mark it: tool(…, {{ sideEffects: true }}) of the npm package {PACKAGE}",
            )


def _npm_dependency(root: Path, record: FormerRecord) -> Iterator[Misfit]:
    """Manifests that lack the npm package which their files import."""
    folders = {
        nearest_package(root, one.path)
        for one in record.files
        if any(PACKAGE in piece.inserted for piece in one.pieces) and is_javascript(one.path)
    }
    for folder in sorted(str(one) for one in folders if one is not None):
        path = PurePosixPath(folder, "package.json").as_posix()
        if f'"{PACKAGE}"' not in (root / path).read_text("utf-8", "replace"):
            step = f"Install it: npm install {PACKAGE}"
            yield Misfit(Place(path), f"It does not name {PACKAGE}.", step)


def _marked(data: bytes, name: str) -> tuple[int, bool]:
    """Line of a tool's definition, and whether something around it sets `side_effects`."""
    tree = _parsed(data)
    line, marked = 0, False
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name == name:
                line = line or node.lineno
                marked |= any(_sets(one) for one in node.decorator_list)
                marked |= isinstance(node, ast.ClassDef) and _sets(node)
        elif isinstance(node, ast.Call) and _sets(node, own=True):
            marked |= any(_named(one, name) for one in (node.func, *node.args))
    return line, marked


def _sets(node: ast.AST, *, own: bool = False) -> bool:
    calls = [node] if own else ast.walk(node)
    return any(
        keyword.arg == "side_effects"
        for call in calls
        if isinstance(call, ast.Call)
        for keyword in call.keywords
    )


def _named(node: ast.AST, name: str) -> bool:
    return any(
        (isinstance(one, ast.Name) and one.id == name)
        or (isinstance(one, ast.Attribute) and one.attr == name)
        for one in ast.walk(node)
    )


def _config_misfits(
    root: Path, project: str, path: str, tables: Mapping[str, Any]
) -> Iterator[Misfit]:
    folder = root / project
    text = (root / path).read_text(errors="replace") if tables else ""

    def misfit(value: str, what: str, step: str) -> Misfit:
        return Misfit(Place(path, _line(text, value)), what, step)

    agent = _table(tables.get("agent"))
    listed = agent.get("path", ["."])
    paths = [str(one) for one in (listed if isinstance(listed, list) else [listed])]
    entry = agent.get("entry")
    if isinstance(entry, str) and (lack := _lacking(folder, paths, entry)):
        yield misfit(entry, f"The entry {entry} is not there: {lack}.", "Correct [agent] entry.")
    for one in paths:
        if not (folder / one).is_dir():
            yield misfit(one, f"The folder {one} is not there.", "Correct [agent] path.")
    file = _table(tables.get("tasks")).get("file")
    if isinstance(file, str) and not (folder / file).is_file():
        yield misfit(file, f"The task file {file} is not there.", "Correct [tasks] file.")
    for table in _list(tables.get("evaluators")):
        use = table.get("use")
        if isinstance(use, str) and (lack := _no_evaluator(folder, paths, use)):
            yield misfit(use, f"The evaluator {use} is not there: {lack}.", "Correct its use.")
    for table in _list(tables.get("prompt_files")):
        yield from _prompt_file_misfits(folder, path, text, table)


def _no_evaluator(folder: Path, paths: list[str], use: str) -> str:
    if ":" in use:
        return _lacking(folder, paths, use)
    from ratchet.evaluate.catalog import BUILT_IN, LATER

    return "" if use in BUILT_IN or use in LATER else "no built-in one has that name"


def _lacking(folder: Path, paths: list[str], entry: str) -> str:
    """Why MODULE:FUNCTION cannot be found in a project; empty if it can, or is elsewhere."""
    module, _, name = entry.partition(":")
    inner = module.replace(".", "/")
    for above in paths:
        for file in (folder / above / f"{inner}.py", folder / above / inner / "__init__.py"):
            if file.is_file():
                return "" if _defines(file, name) else f"{file.name} defines no {name}"
    top = module.partition(".")[0]
    own = any((folder / above / top).is_dir() for above in paths)
    # A module of an installed package is not seen from here.
    return "" if not own and "." in module else f"there is no module {module}"


def _defines(file: Path, name: str) -> bool:
    tree = _parsed(file.read_bytes())
    first = name.partition(".")[0]
    if tree is None:
        return False
    return any(first in _names(node) for node in ast.walk(tree))


def _names(node: ast.AST) -> tuple[str, ...]:
    """Names that a node of Python's tree binds."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return (node.name,)
        case ast.Name(ctx=ast.Store()):
            return (node.id,)
        case ast.alias():
            return (node.asname or node.name,)
    return ()


def _parsed(data: bytes) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _prompt_file_misfits(
    folder: Path, path: str, text: str, table: Mapping[str, Any]
) -> Iterator[Misfit]:
    name = str(table.get("path", ""))
    at = Place(path, _line(text, name))
    file = folder / name
    if not file.is_file():
        yield Misfit(at, f"The file of prompts {name} is not there.", "Correct its path.")
        return
    fields = table.get("fields")
    if not isinstance(fields, list) or not fields:
        return
    try:
        data = _data(file)
    except (OSError, ValueError) as error:
        yield Misfit(at, f"The file of prompts {name} cannot be read: {error}.", "Fix it.")
        return
    for field in fields:
        if not _has(data, str(field)):
            place = Place(path, _line(text, str(field)) or at.line)
            yield Misfit(place, f"{name} has no field {field}.", "Correct its fields.")


def _data(file: Path) -> Any:
    text = file.read_text(encoding="utf-8-sig")
    if file.suffix == ".toml":
        return tomllib.loads(text)
    if file.suffix == ".json":
        return msgspec.json.decode(text)
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error).partition("\n")[0]) from None


def _has(data: Any, field: str) -> bool:
    """Whether a dotted path leads to a value; a key may hold dots of its own."""
    if not field:
        return True
    if isinstance(data, dict):
        return any(
            _has(value, field.removeprefix(str(key)).removeprefix("."))
            for key, value in data.items()
            if field == str(key) or field.startswith(f"{key}.")
        )
    first, _, rest = field.partition(".")
    if isinstance(data, list) and first.isdecimal() and int(first) < len(data):
        return _has(data[int(first)], rest)
    return False


def _dependency(root: Path, found: RepositoryLook, project: str) -> Iterator[Misfit]:
    manifest = manifest_of(root, found, project)
    if manifest is not None and not manifest.place.line:
        yield Misfit(
            Place(manifest.path),
            "It does not name Ratchet's package."
            + (f" {manifest.made}" if isinstance(manifest.made, str) else ""),
            manifest.step,
        )


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _line(text: str, value: str) -> int:
    for number, line in enumerate(text.splitlines(), 1):
        if value and value in line.partition("#")[0]:
            return number
    return 0
