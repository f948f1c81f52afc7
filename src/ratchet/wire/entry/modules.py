"""The modules of a project: by which names they import one another, and from which folders."""

from __future__ import annotations

import ast
import os
import re
import sys
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePosixPath

from ratchet.types import InputError
from ratchet.wire.entry.python_file import PythonFile, dotted, own_nodes

_IMPORTED = re.compile(r"^[ \t]*(?:from|import)[ \t]+([\w.]+)", re.MULTILINE)
_RELATIVE = re.compile(r"^[ \t]*from[ \t]+(\.+)", re.MULTILINE)
_PASSED_OVER = {"node_modules", "site-packages", "__pycache__", "venv", "env", "build", "dist"}
_MOST = 3000


class Modules:
    """Python files of one project, read on demand.

    Args:
        root: Folder of the repository.
        project: Folder of the project, relative to it; `.` for the repository itself.
    """

    def __init__(self, root: Path, project: str) -> None:
        self.root = root
        self.project = PurePosixPath(project)
        self._files: dict[str, PythonFile | None] = {}
        self._roots: dict[str, PurePosixPath] = {}
        self._imports: dict[str, list[str]] = {}

    def file(self, path: str) -> PythonFile | None:
        """A file, by its path in the repository; None if it is not there or does not parse."""
        if path not in self._files:
            self._files[path] = self._read(path)
        return self._files[path]

    def _read(self, path: str) -> PythonFile | None:
        file = self.root / path
        if not path.endswith(".py") or not file.is_file() or file.is_symlink():
            return None
        try:
            return PythonFile(path, file.read_bytes())
        except (OSError, InputError):
            return None

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The project's Python files."""
        found: list[str] = []
        for folder, folders, names in os.walk(self.root / self.project):
            folders[:] = sorted(
                one
                for one in folders
                if not one.startswith(".")
                and one not in _PASSED_OVER
                and not (Path(folder) / one / "pyvenv.cfg").exists()
            )
            for name in sorted(names):
                if name.endswith(".py"):
                    found.append((Path(folder) / name).relative_to(self.root).as_posix())
            if len(found) >= _MOST:
                break
        return tuple(found[:_MOST])

    @cached_property
    def _imported(self) -> frozenset[str]:
        """Dotted names that the project's files import."""
        return frozenset(one for text in self._texts.values() for one in _IMPORTED.findall(text))

    @cached_property
    def _packages(self) -> frozenset[str]:
        """Folders with relative imports: nothing is imported from them as from a root."""
        found: set[str] = set()
        for path, text in self._texts.items():
            levels = max((len(one) for one in _RELATIVE.findall(text)), default=0)
            found.update(one.as_posix() for one in list(PurePosixPath(path).parents)[:levels])
        return frozenset(found - {self.project.as_posix()})

    @cached_property
    def _texts(self) -> dict[str, str]:
        texts = {}
        for path in self.paths:
            with suppress(OSError):
                texts[path] = (self.root / path).read_text(encoding="utf-8", errors="replace")
        return texts

    def import_root(self, path: str) -> PurePosixPath:
        """The folder from which a file is imported, relative to the repository."""
        if path not in self._roots:
            self._roots[path] = self._find_root(PurePosixPath(path))
        return self._roots[path]

    def _find_root(self, path: PurePosixPath) -> PurePosixPath:
        folders = [one for one in path.parents if one.is_relative_to(self.project)]
        file = self.file(str(path))
        names: list[str] = []
        for node in ast.walk(file.tree) if file else ():
            if isinstance(node, ast.ImportFrom):
                names += [node.module] if node.module and not node.level else []
            elif isinstance(node, ast.Import):
                names += [one.name for one in node.names]
        names = [one for one in names if one.partition(".")[0] not in sys.stdlib_module_names]
        packaged = 0
        while packaged < len(folders) and (self.root / folders[packaged] / "__init__.py").is_file():
            packaged += 1
        best, best_score = folders[0], (-1.0, 0)
        for depth, folder in enumerate(folders):
            inner = path.relative_to(folder).parent.parts
            within = any(one.as_posix() in self._packages for one in folders[depth:])
            if within or not all(one.isidentifier() for one in inner):
                continue
            own = self._dotted(path, folder)  # no module imports itself: that is another's name
            resolved = sum(self._exists(folder, name) for name in names if name != own)
            called = own in self._imported
            usual = depth == min(packaged, len(folders) - 1)
            score = (resolved + 2 * called + 0.5 * usual, -depth)
            if score > best_score:
                best, best_score = folder, score
        return best

    def _exists(self, folder: PurePosixPath, name: str) -> bool:
        at = self.root / folder / name.replace(".", "/")
        return at.with_suffix(".py").is_file() or (at.is_dir() and any(at.glob("*.py")))

    @staticmethod
    def _dotted(path: PurePosixPath, folder: PurePosixPath) -> str:
        inner = path.relative_to(folder).with_suffix("")
        parts = inner.parts[:-1] if inner.name == "__init__" else inner.parts
        return ".".join(parts)

    def name_of(self, path: str) -> str:
        """The dotted name that a file is imported by."""
        return self._dotted(PurePosixPath(path), self.import_root(path))

    def resolve(self, module: str, level: int, path: str) -> str | None:
        """The file of a module that `path` imports; None if it is not the project's."""
        if level:
            folder = PurePosixPath(path).parent
            for _ in range(level - 1):
                folder = folder.parent
            return self._file_of(folder / module.replace(".", "/"))
        folder_ = self._searched(module, path)
        return self._file_of(folder_ / module.replace(".", "/")) if folder_ else None

    def _searched(self, module: str, path: str) -> PurePosixPath | None:
        """The folder below which a file finds a module of the project."""
        if module.partition(".")[0] in sys.stdlib_module_names:
            return None
        own = self.import_root(path)
        for folder in dict.fromkeys([own, self.project, self.project / "src", *own.parents]):
            inside = folder.is_relative_to(self.project)
            if inside and self._file_of(folder / module.replace(".", "/")):
                return folder
        return None

    def _file_of(self, at: PurePosixPath) -> str | None:
        for one in (f"{at}.py", f"{at}/__init__.py"):
            if (self.root / one).is_file():
                return one
        return None

    def imports(self, path: str) -> list[str]:
        """The project's files that a file imports, in functions too."""
        if path not in self._imports:
            self._imports[path] = self._imports_of(path)
        return self._imports[path]

    def _imports_of(self, path: str) -> list[str]:
        file = self.file(path)
        found: dict[str, None] = {}
        for node in ast.walk(file.tree) if file else ():
            if isinstance(node, ast.Import):
                for one in node.names:
                    found[self.resolve(one.name, 0, path) or ""] = None
            elif isinstance(node, ast.ImportFrom):
                found[self.resolve(node.module or "", node.level, path) or ""] = None
                for one in node.names:
                    inner = f"{node.module}.{one.name}" if node.module else one.name
                    found[self.resolve(inner, node.level, path) or ""] = None
        return [one for one in found if one]

    def closure(self, path: str) -> list[str]:
        """A file, and all of the project's that it imports, directly or not."""
        seen: dict[str, None] = {path: None}
        waiting = [path]
        while waiting:
            for one in self.imports(waiting.pop()):
                if one not in seen:
                    seen[one] = None
                    waiting.append(one)
        return list(seen)

    def folders(self, paths: list[str]) -> list[str]:
        """Folders to import files from, and all that they import, relative to the project.

        The project itself comes first.
        """
        found = dict.fromkeys([self.project, *(self.import_root(one) for one in paths)])
        for path in dict.fromkeys(one for each in paths for one in self.closure(each)):
            file = self.file(path)
            for node in ast.walk(file.tree) if file else ():
                names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names = [node.module]
                for name in names:
                    folder = self._searched(name, path)
                    if folder is not None:
                        found[folder] = None
        return [str(one.relative_to(self.project)) for one in found]

    def definition(self, name: str, path: str) -> tuple[PythonFile, ast.stmt] | None:
        """Where a name at the top of a file is defined, imports followed; None if not here."""
        for _ in range(8):
            file = self.file(path)
            if file is None:
                return None
            bound = binding(file, name)
            if not isinstance(bound, ast.ImportFrom | ast.Import):
                return (file, bound) if bound is not None else self._starred(file, name)
            if isinstance(bound, ast.Import):
                return None
            source = self.resolve(bound.module or "", bound.level, path)
            original = next(one.name for one in bound.names if (one.asname or one.name) == name)
            if source is None:
                return None
            path, name = source, original
        return None

    def _starred(self, file: PythonFile, name: str) -> tuple[PythonFile, ast.stmt] | None:
        for node in file.tree.body:
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                source = self.resolve(node.module or "", node.level, file.path)
                if source and source != file.path:
                    found = self.definition(name, source)
                    if found:
                        return found
        return None


def binding(file: PythonFile, name: str) -> ast.stmt | None:
    """The last statement at the top of a file that binds a name, also below `if` and `try`."""
    found: ast.stmt | None = None
    for node in _top_statements(file.tree.body):
        if isinstance(node, ast.Import):
            names = [one.asname or one.name.partition(".")[0] for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [one.asname or one.name for one in node.names]
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [one.id for one in node.targets if isinstance(one, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            names = [node.target.id]
        else:
            continue
        if name in names:
            found = node
    return found


def _top_statements(body: list[ast.stmt]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for node in body:
        found.append(node)
        branches = isinstance(node, ast.If) and not is_main_guard(node)
        if isinstance(node, ast.Try) or (branches and isinstance(node, ast.If)):
            found += _top_statements([*node.body, *node.orelse])
    return found


_RUNNING = {"run", "run_sync", "main", "invoke", "ainvoke", "stream", "kickoff", "input"}
_RUNNING |= {"serve", "launch", "mainloop", "run_until_complete", "initiate_chat", "start"}


def acts_at_import(file: PythonFile) -> int:
    """The line at which a file runs something when it is imported; 0 if none does."""
    for node in file.tree.body:
        if is_main_guard(node) or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for one in [node, *own_nodes(node)] if not isinstance(node, ast.ClassDef) else []:
            if not isinstance(one, ast.Call):
                continue
            name = dotted(one.func)
            spoken = name.endswith((".completions.create", ".messages.create", ".responses.create"))
            if name.rpartition(".")[2] in _RUNNING or spoken:
                return one.lineno
    return 0


def is_main_guard(node: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and any(
        isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(node.test)
    )
