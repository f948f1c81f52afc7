"""Finds data files named in string literals: tables, templates, word lists."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from ratchet.source.secret_files import in_secret_place
from ratchet.source.tree import Module
from ratchet.types.wording import size_text

MAX_BYTES = 16 * 1024 * 1024
MAX_FILES = 200
"""Maximum number of files of a named folder that are staged."""

_LONGEST = 200
_SUFFIX = 12


class DataFile(msgspec.Struct, frozen=True):
    """A file named in the source."""

    file: Path
    refused: str = ""
    """Why it must not be staged; empty if it may be."""


def data_files(
    root: Path, module: Module, statements: Iterable[ast.stmt], private: Iterable[Path] = ()
) -> list[DataFile]:
    """Find the existing files that literals in statements name.

    A name is resolved against the module's folder, as `Path(__file__).parent / "x.csv"` is, and
    against the repository's root, as `open("data/x.csv")` is.

    Args:
        root: The repository's root.
        module: The statements' module.
        statements: The statements.
        private: Files that are never staged, such as the task file with its expected answers.
    """
    hidden = {file.resolve() for file in private}
    by_file: dict[Path, DataFile] = {}
    for statement in statements:
        for name, in_path in _names(statement):
            for base in (module.file.parent, root):
                for file in _existing(base, name, root, folders=in_path):
                    if file.suffix != ".py" and file not in by_file:
                        by_file[file] = DataFile(file, _refusal(file, root, hidden))
    return sorted(by_file.values(), key=lambda data_file: data_file.file)


def _refusal(file: Path, root: Path, hidden: set[Path]) -> str:
    if file in hidden:
        return "it holds the tasks' expected answers"
    if in_secret_place(file.relative_to(root)):
        return "it may hold secrets"
    size = file.stat().st_size
    return (
        f"it has {size_text(size)}; at most {size_text(MAX_BYTES)} can be staged"
        if size > MAX_BYTES
        else ""
    )


def _names(statement: ast.stmt) -> Iterator[tuple[str, bool]]:
    """Literals that may name a file, each with whether it is part of a path expression."""
    within: set[int] = set()
    for node in ast.walk(statement):  # outer expressions come first
        parts: list[str] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            within.add(id(node.left))
            if id(node) in within:
                continue
            parts = list(_joined(node))
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if called in ("join", "joinpath", "Path") or (
                isinstance(node.func, ast.Name) and node.func.id in ("Path", "open")
            ):
                parts = [text for argument in node.args if (text := _text(argument))]
        for start in range(len(parts)):
            yield "/".join(parts[start:]), True
        if text := _text(node):
            yield text, False


def _joined(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        yield from _joined(node.left)
        yield from _joined(node.right)
    elif text := _text(node):
        yield text


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        value = node.value
        if 0 < len(value) <= _LONGEST and "\n" not in value and "\0" not in value:
            return value
    return ""


def _existing(base: Path, name: str, root: Path, *, folders: bool) -> Iterator[Path]:
    suffix = Path(name).suffix
    if not folders and "/" not in name and not (1 < len(suffix) <= _SUFFIX):
        return  # any word might be a file name
    try:
        path = (base / name).resolve()
        if not path.is_relative_to(root) or path in (root, base):
            return
        if path.is_file():
            yield path
        elif folders and path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file())
            if len(inside) <= MAX_FILES and not (path / "__init__.py").exists():
                yield from (file for file in inside if "__pycache__" not in file.parts)
    except (OSError, ValueError):
        return
