"""Python files of a folder and their imports, by static analysis."""

from __future__ import annotations

import ast
import functools
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from ratchet.source.files import walk
from ratchet.types import InputError

MAX_FILES = 20_000


class Module(msgspec.Struct, frozen=True, eq=False):
    """A parsed Python file."""

    name: str
    """Dotted name, relative to the folder from which it is imported."""
    file: Path
    text: str
    tree: ast.Module
    is_package: bool

    @property
    def package(self) -> str:
        """The package to which relative imports refer."""
        return self.name if self.is_package else self.name.rpartition(".")[0]


class Import(msgspec.Struct, frozen=True):
    """An imported name."""

    bound: str
    """Local name bound by the import; `*` for a star import."""
    module: str
    """Dotted name of the source module."""
    name: str
    """Name in that module; empty if the module itself is bound."""
    line: int


class SourceTree:
    """A folder of Python sources.

    Args:
        root: The folder.
        path: Folders that modules are imported from, relative to the root, in order.
    """

    def __init__(self, root: Path, path: Sequence[str] = (".", "src")) -> None:
        self.root = root.resolve()
        folders = dict.fromkeys((self.root / folder).resolve() for folder in path)
        self.path = [f for f in folders if f.is_dir() and f.is_relative_to(self.root)]
        self._modules: dict[Path, Module | None] = {}
        self._loads: dict[Path, frozenset[Path]] = {}

    @functools.cached_property
    def files(self) -> list[Path]:
        """The Python files, sorted.

        Raises:
            InputError: There are too many to be a repository's own.
        """
        python_files: list[Path] = []
        for file in walk(self.root):
            if file.suffix == ".py":
                python_files.append(file)
            if len(python_files) > MAX_FILES:
                raise InputError(
                    f"{self.root} has more than {MAX_FILES} Python files.",
                    hint="Name a smaller folder with -C.",
                )
        return python_files

    def find(self, dotted: str) -> Path | None:
        """File of a module by its dotted name, or None if it is not in this folder."""
        parts = dotted.split(".")
        if not all(part.isidentifier() for part in parts):
            return None
        for folder in self.path:
            base = folder.joinpath(*parts)
            for file in (base / "__init__.py", base.with_name(f"{base.name}.py")):
                if file.is_file() and file.is_relative_to(self.root):
                    return file
        return None

    def is_folder(self, dotted: str) -> bool:
        """Whether a name is a package without an `__init__.py`."""
        return any(folder.joinpath(*dotted.split(".")).is_dir() for folder in self.path)

    def module(self, dotted: str) -> Module | None:
        """Module by its dotted name; None if it is not in this folder or does not parse."""
        file = self.find(dotted)
        return self.read(file) if file is not None else None

    def read(self, file: Path) -> Module | None:
        """Module in a file; None if it cannot be read or does not parse."""
        if file not in self._modules:
            self._modules[file] = self._read(file)
        return self._modules[file]

    def loads(self, module: Module) -> frozenset[Path]:
        """Files of this folder that importing a module loads, including packages."""
        if module.file not in self._loads:
            self._loads[module.file] = _loaded_by(self, module)
        return self._loads[module.file]

    def name_of(self, file: Path) -> str:
        """Dotted name by which a file is imported."""
        roots = [folder for folder in self.path if file.is_relative_to(folder)] or [self.root]
        # The innermost: `src/pkg/a.py` is pkg.a if src is one of the folders.
        base = max(roots, key=lambda folder: len(folder.parts))
        parts = list(file.relative_to(base).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        return ".".join(parts)

    def _read(self, file: Path) -> Module | None:
        try:
            with tokenize.open(file) as opened:
                text = opened.read()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        return Module(self.name_of(file), file, text, tree, file.name == "__init__.py")


def imports_of(module: Module, nodes: Sequence[ast.AST] | None = None) -> Iterator[Import]:
    """Imports of a module, at any depth.

    Args:
        module: The module.
        nodes: Search only below these nodes of its tree.
    """
    for top in nodes if nodes is not None else [module.tree]:
        for node in ast.walk(top):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    head = alias.name.partition(".")[0]
                    if alias.asname:
                        yield Import(alias.asname, alias.name, "", node.lineno)
                    else:
                        yield Import(head, head, "", node.lineno)
                        if head != alias.name:
                            # Binds only the top-level package, but loads the submodule.
                            yield Import("", alias.name, "", node.lineno)
            elif isinstance(node, ast.ImportFrom):
                origin = absolute(module, node)
                for alias in node.names:
                    yield Import(alias.asname or alias.name, origin, alias.name, node.lineno)


def absolute(module: Module, node: ast.ImportFrom) -> str:
    """Dotted name of the module in `from … import`."""
    if not node.level:
        return node.module or ""
    base = module.package.split(".") if module.package else []
    base = base[: len(base) - (node.level - 1)] if node.level > 1 else base
    return ".".join([*base, *([node.module] if node.module else [])])


def _loaded_by(tree: SourceTree, module: Module) -> frozenset[Path]:
    loaded: set[Path] = set()
    for imported in imports_of(module):
        names = [imported.module]
        if imported.name and imported.name != "*":
            names.append(f"{imported.module}.{imported.name}")
        for name in names:
            parts = name.split(".")
            for end in range(1, len(parts) + 1):
                file = tree.find(".".join(parts[:end]))
                if file is None and end == 1:
                    # A script or a test runs with its own folder first on the path.
                    beside = module.file.with_name(f"{parts[0]}.py")
                    file = beside if beside.is_file() else None
                if file is not None:
                    loaded.add(file)
    return frozenset(loaded - {module.file})
