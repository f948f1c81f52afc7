"""Computes the statements that a function needs to run on its own, across modules.

The unit is a top-level statement, kept verbatim. A statement is needed when it binds a needed name,
or changes the object of a needed name. Classes are kept whole.
"""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from ratchet.source.name_usage import bound_by, chains, changed_by, used_by
from ratchet.source.tree import Import, Module, SourceTree, absolute, imports_of
from ratchet.types import InputError

_BUILT_IN = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__", "__path__", "__all__"}


class MissingName(msgspec.Struct, frozen=True, order=True):
    """A name that a needed statement uses but no statement defines."""

    file: str
    name: str


class Closure(msgspec.Struct, frozen=True):
    """Statements and modules that a function needs."""

    statements: Mapping[Path, tuple[ast.stmt, ...]]
    """Needed statements by file, in source order."""
    outside: Mapping[str, frozenset[str]]
    """Modules outside this repository, with the files that import them."""
    missing: tuple[MissingName, ...]
    left_out: Mapping[Path, Mapping[ast.stmt, str]]
    """Needed statements whose own needs are not followed, by file, each with the reason."""


LeaveOut = Callable[[Module, ast.stmt], str]


class _Needs:
    """Top-level statements of a module by the names they bind, use and change."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.binds: dict[str, list[int]] = defaultdict(list)
        self.changes: dict[str, list[int]] = defaultdict(list)
        self.stars: list[int] = []
        self.imports = [
            imported
            for statement in module.tree.body
            if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            for imported in imports_of(module, [statement])
        ]
        for number, statement in enumerate(module.tree.body):
            if _is_main(statement):
                continue
            for name in bound_by(statement):
                if name == "*":
                    self.stars.append(number)
                else:
                    self.binds[name].append(number)
            for name in changed_by(statement):
                self.changes[name].append(number)


def closure_of(
    tree: SourceTree,
    module: Module,
    name: str,
    leave_out: LeaveOut = lambda module, statement: "",
    *,
    whole_modules: bool = False,
) -> Closure:
    """Compute the statements and modules that a name of a module needs.

    Args:
        tree: The repository.
        module: The module.
        name: A top-level name: the function's, or its class's.
        leave_out: Reason for not following a statement; empty to follow it.
        whole_modules: Keep every statement of each needed module. Modules with circular imports
            load in one order only, and pruning may change it.

    Raises:
        InputError: The module has no such name.
    """
    search = _Search(tree, leave_out, whole_modules)
    if not search.require(module, name):
        raise InputError(f"{module.file} has no {name!r} at its top level.")
    return search.run()


class _Search:
    def __init__(self, tree: SourceTree, leave_out: LeaveOut, whole_modules: bool) -> None:
        self.tree = tree
        self.whole_modules = whole_modules
        self.leave_out = leave_out
        self.left_out: dict[Path, dict[ast.stmt, str]] = defaultdict(dict)
        self.needs: dict[Path, _Needs] = {}
        self.taken: dict[Path, set[int]] = defaultdict(set)
        self.required: set[tuple[Path, str]] = set()
        self.waiting: list[tuple[Module, int]] = []
        self.outside: dict[str, set[str]] = defaultdict(set)
        self.missing: set[MissingName] = set()

    def run(self) -> Closure:
        while self.waiting:
            module, number = self.waiting.pop()
            statement = module.tree.body[number]
            why = self.leave_out(module, statement)
            if why:
                self.left_out[module.file][statement] = why
            else:
                self._follow(module, statement)
        statements = {
            file: tuple(self.needs[file].module.tree.body[n] for n in sorted(numbers))
            for file, numbers in self.taken.items()
        }
        return Closure(
            statements,
            {name: frozenset(files) for name, files in self.outside.items()},
            tuple(sorted(self.missing)),
            self.left_out,
        )

    def require(self, module: Module, name: str) -> bool:
        """Add a name of a module; returns False if the module does not define it."""
        if (module.file, name) in self.required:
            return True
        needs = self._of(module)
        numbers = needs.binds.get(name, [])
        if not numbers:
            from_getattr = self._from_module_getattr(module, name)
            return self._from_star(module, name) or from_getattr
        self.required.add((module.file, name))
        for number in [*numbers, *needs.changes.get(name, [])]:
            self._take(module, number)
        return True

    def _from_module_getattr(self, module: Module, name: str) -> bool:
        """Handle a module's `__getattr__` (PEP 562), which may define any name."""
        if "__getattr__" not in self._of(module).binds or self.tree.find(f"{module.name}.{name}"):
            return False
        self.required.add((module.file, name))
        self.whole(module)
        return True

    def whole(self, module: Module) -> None:
        """Add a whole module, if it cannot be determined which of its names are used."""
        self._of(module)
        for number, statement in enumerate(module.tree.body):
            if not _is_main(statement):
                self._take(module, number)

    def _of(self, module: Module) -> _Needs:
        if module.file not in self.needs:
            self.needs[module.file] = _Needs(module)
            self.taken[module.file]  # the file itself is needed, even if empty
            self._packages(module)
            if self.whole_modules:
                self.whole(module)
            for number, statement in enumerate(module.tree.body):
                if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                    self.taken[module.file].add(number)
        return self.needs[module.file]

    def _packages(self, module: Module) -> None:
        """Add the module's parent packages, which are loaded first."""
        parts = module.name.split(".")
        for end in range(1, len(parts)):
            package = self.tree.module(".".join(parts[:end]))
            if package is not None and package.is_package and package.file not in self.needs:
                self._of(package)

    def _take(self, module: Module, number: int) -> None:
        if number not in self.taken[module.file]:
            self.taken[module.file].add(number)
            self.waiting.append((module, number))

    def _from_star(self, module: Module, name: str) -> bool:
        for number in self._of(module).stars:
            statement = module.tree.body[number]
            for node in ast.walk(statement):
                if not isinstance(node, ast.ImportFrom):
                    continue
                origin = self.tree.module(absolute(module, node))
                if origin is not None and origin.file != module.file and self.require(origin, name):
                    self.required.add((module.file, name))
                    self._take(module, number)
                    return True
        return False

    def _follow(self, module: Module, statement: ast.stmt) -> None:
        inner = list(imports_of(module, [statement]))
        for imported in inner:
            self._import(module, imported)
        if _is_import(statement):
            return
        needs = self._of(module)
        local = set(bound_by(statement))
        used = used_by(statement)
        for name in sorted(used):
            if name in _BUILT_IN and name not in needs.binds:
                continue
            if not self.require(module, name) and name not in local:
                if needs.stars:
                    # A star import of an external package may bind any name.
                    for number in needs.stars:
                        self._take(module, number)
                    continue
                self.missing.add(MissingName(self._shown(module.file), name))
        self._imported_by_name(module, statement)
        for imported in [*inner, *needs.imports]:
            if (
                imported.bound
                and imported.bound != "*"
                and (imported in inner or imported.bound in used)
            ):
                dotted = self._module_bound(imported)
                if dotted:
                    self._take_from(dotted, statement, imported.bound)

    def _import(self, module: Module, imported: Import) -> None:
        """Add what an import loads."""
        if imported.module == "__future__":
            return
        origin = self.tree.module(imported.module)
        if origin is None:
            if self.tree.is_folder(imported.module):  # a package without an __init__.py
                below = (
                    self.tree.module(f"{imported.module}.{imported.name}")
                    if imported.name
                    else None
                )
                if below is not None:
                    self._of(below)
            else:
                self.outside[imported.module].add(self._shown(module.file))
            return
        self._of(origin)
        if not imported.name or imported.name == "*":
            return  # its needed parts are required by name
        if origin.file == module.file or not self.require(origin, imported.name):
            below = self.tree.module(f"{imported.module}.{imported.name}")
            if below is not None:
                self._of(below)
            elif origin.file != module.file:
                self.missing.add(MissingName(self._shown(origin.file), imported.name))

    def _imported_by_name(self, module: Module, statement: ast.stmt) -> None:
        """Add what `import_module(…)` may load: the module that it names, or the whole folder."""
        for node in ast.walk(statement):
            if not (isinstance(node, ast.Call) and node.args):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if "import_module" not in (called, getattr(node.func, "id", "")):
                continue
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                dotted = argument.value
                if dotted.startswith("."):
                    dotted = f"{module.package}{dotted}" if module.package else dotted[1:]
                imported_module = self.tree.module(dotted)
                if imported_module is not None:
                    self.whole(imported_module)
                continue
            for file in sorted(module.file.parent.glob("*.py")):
                beside = self.tree.read(file)
                if beside is not None and beside.file != module.file:
                    self.whole(beside)

    def _module_bound(self, imported: Import) -> str:
        """Dotted name of the repository's module that an import binds; empty for other imports."""
        dotted = imported.module
        if imported.name:
            origin = self.tree.module(imported.module)
            if origin is not None and self._of(origin).binds.get(imported.name):
                return ""
            dotted = f"{imported.module}.{imported.name}"
        is_module = self.tree.find(dotted) is not None or self.tree.is_folder(dotted)
        return dotted if is_module else ""

    def _take_from(self, dotted: str, statement: ast.stmt, bound: str) -> None:
        """Add what a statement uses of a module, or the whole module if that is unknown."""
        for chain in chains(statement, bound):
            at = dotted
            for attribute in chain:
                owner = self.tree.module(at)
                if owner is not None and self.require(owner, attribute):
                    break
                at = f"{at}.{attribute}"
                below = self.tree.module(at)
                if below is not None:
                    self._of(below)
                elif not self.tree.is_folder(at):
                    break
            else:
                owner = self.tree.module(at)
                if owner is not None:
                    self.whole(owner)

    def _shown(self, file: Path) -> str:
        return file.relative_to(self.tree.root).as_posix()


def _is_import(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Import, ast.ImportFrom))


def _is_main(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.If)
        and isinstance(statement.test, ast.Compare)
        and isinstance(statement.test.left, ast.Name)
        and statement.test.left.id == "__name__"
    )
