"""Traces an expression to the file and keys that a program reads its value from.

Nothing is run. What is followed: paths made of constants and `__file__`, `open` and `read_text`,
the loaders of YAML, JSON and TOML, subscripts, and names and functions that give one of these.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from ratchet.ship.source_file import SourceFile
from ratchet.source.literals.data_values import Key

_LOADERS: Final = {
    "yaml.safe_load": "yaml",
    "yaml.full_load": "yaml",
    "yaml.load": "yaml",
    "json.load": "json",
    "json.loads": "json",
    "tomllib.load": "toml",
    "tomllib.loads": "toml",
    "tomli.load": "toml",
    "tomli.loads": "toml",
}
_PATHS: Final = ("pathlib.Path", "pathlib.PurePath", "os.path.abspath", "os.path.realpath")
_MAX_STEPS: Final = 50


@dataclass(frozen=True)
class ReadValue:
    """A value that a program reads from a file."""

    file: Path
    format: str = ""
    """`yaml`, `json` or `toml`; empty for the file's text."""
    keys: tuple[Key, ...] = ()
    stripped: bool = False
    """Whether the program strips leading and trailing white space from the value."""


@dataclass(frozen=True)
class _Paths:
    """A path; relative ones are relative to one of several folders."""

    options: tuple[Path, ...]

    def file(self) -> Path | None:
        """The only path among the options that is a file."""
        try:
            files = {path.resolve() for path in self.options if path.is_file()}
        except OSError:
            return None
        return files.pop() if len(files) == 1 else None


_Scope: TypeAlias = Sequence[ast.stmt]


def trace(source: SourceFile, node: ast.expr, root: Path) -> ReadValue | None:
    """Where an expression's value is read from.

    Args:
        source: The file that contains the expression.
        node: The expression.
        root: The folder that `source.path` is relative to; relative paths of the program are
            searched in the source's folder and in those above it, up to this one.

    Returns:
        None when it cannot be determined with certainty.
    """
    return _Tracer(source, root).value(node, (source.tree.body,))


class _Tracer:
    def __init__(self, source: SourceFile, root: Path) -> None:
        self.source = source
        self.path = root / source.path
        self.steps = 0
        folders = [self.path.parent, *self.path.parent.parents]
        self.bases = [folder for folder in folders if folder.is_relative_to(root)]

    def value(self, node: ast.expr, scopes: Sequence[_Scope]) -> ReadValue | None:
        """Where a value is read from, if it is a file's text, its data, or a part of the data."""
        self.steps += 1
        if self.steps > _MAX_STEPS:
            return None
        match node:
            case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as key)):
                return self._part(inner, key, scopes)
            case ast.Call(
                func=ast.Attribute(value=inner, attr="get"), args=[ast.Constant(value=str() as key)]
            ):
                return self._part(inner, key, scopes)
            case ast.Call(func=ast.Attribute(value=inner, attr="strip"), args=[]):
                read = self.value(inner, scopes)
                return read and replace(read, stripped=True)
            case ast.Call(func=ast.Attribute(value=inner, attr="read_text")):
                return self._text(self._paths(inner, scopes))
            case ast.Call(func=ast.Attribute(value=inner, attr="read"), args=[]):
                return self._text(self._opened(inner, scopes))
            case ast.Call(func=function, args=[first, *_]) if loader := _LOADERS.get(
                self.source.origin(function)
            ):
                return self._loaded(loader, first, scopes)
            case ast.Name() | ast.Call():
                step = self._step(node, scopes)
                return self.value(*step) if step else None
        return None

    def _part(self, node: ast.expr, key: Key, scopes: Sequence[_Scope]) -> ReadValue | None:
        read = self.value(node, scopes)
        if read is None or not read.format or read.stripped or isinstance(key, bool):
            return None
        return replace(read, keys=(*read.keys, key))

    def _text(self, paths: _Paths | None) -> ReadValue | None:
        file = paths and paths.file()
        return ReadValue(file) if file else None

    def _loaded(self, loader: str, node: ast.expr, scopes: Sequence[_Scope]) -> ReadValue | None:
        paths = self._opened(node, scopes)
        text = self._text(paths) if paths else self.value(node, scopes)
        if text is None or text.format:
            return None
        return ReadValue(text.file, loader)

    def _opened(self, node: ast.expr, scopes: Sequence[_Scope]) -> _Paths | None:
        """The path of an open file."""
        match node:
            case ast.Call(func=ast.Name(id="open"), args=[first, *_]):
                return self._paths(first, scopes)
            case ast.Call(func=ast.Attribute(value=inner, attr="open")):
                return self._paths(inner, scopes)
            case ast.Name(id=name):
                for number, scope in enumerate(scopes):
                    opened = [
                        item.context_expr
                        for statement in _statements(scope)
                        if isinstance(statement, ast.With)
                        for item in statement.items
                        if isinstance(item.optional_vars, ast.Name)
                        and item.optional_vars.id == name
                    ]
                    if len(opened) == 1:
                        return self._opened(opened[0], scopes[number:])
        return None

    def _paths(self, node: ast.expr, scopes: Sequence[_Scope]) -> _Paths | None:
        self.steps += 1
        if self.steps > _MAX_STEPS:
            return None
        match node:
            case ast.Constant(value=str() as text):
                return _Paths(tuple(base / text for base in self.bases))
            case ast.Name(id="__file__"):
                return _Paths((self.path,))
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self._joined(left, [right], scopes)
            case ast.Attribute(value=inner, attr="parent"):
                return self._above(inner, 1, scopes)
            case ast.Subscript(
                value=ast.Attribute(value=inner, attr="parents"),
                slice=ast.Constant(value=int() as number),
            ) if number >= 0:
                return self._above(inner, number + 1, scopes)
            case ast.Call(func=ast.Attribute(value=inner, attr="joinpath"), args=parts):
                return self._joined(inner, parts, scopes)
            case ast.Call(func=ast.Attribute(value=inner, attr="with_name"), args=[part]):
                above = self._above(inner, 1, scopes)
                return self._under(above, [part], scopes)
            case ast.Call(func=ast.Attribute(value=inner, attr="resolve" | "absolute"), args=[]):
                return self._paths(inner, scopes)
            case ast.Call(func=ast.Name(id="str"), args=[inner]):
                return self._paths(inner, scopes)
            case ast.Call(func=function, args=[first, *parts]):
                origin = self.source.origin(function)
                if origin in (*_PATHS, "os.path.join"):
                    return self._joined(first, parts, scopes)
                if origin == "os.path.dirname" and not parts:
                    return self._above(first, 1, scopes)
            case ast.Name():
                step = self._step(node, scopes)
                return self._paths(*step) if step else None
        return None

    def _above(self, node: ast.expr, levels: int, scopes: Sequence[_Scope]) -> _Paths | None:
        paths = self._paths(node, scopes)
        if paths is None:
            return None
        options = paths.options
        for _ in range(levels):
            options = tuple(path.parent for path in options)
        return _Paths(options)

    def _joined(
        self, node: ast.expr, parts: Sequence[ast.expr], scopes: Sequence[_Scope]
    ) -> _Paths | None:
        return self._under(self._paths(node, scopes), parts, scopes)

    def _under(
        self, paths: _Paths | None, parts: Sequence[ast.expr], scopes: Sequence[_Scope]
    ) -> _Paths | None:
        for part in parts:
            if isinstance(part, ast.Name) and (step := self._step(part, scopes)):
                part = step[0]
            if paths is None or not isinstance(part, ast.Constant):
                return None
            paths = _Paths(tuple(path / os.fspath(str(part.value)) for path in paths.options))
        return paths

    def _step(
        self, node: ast.expr, scopes: Sequence[_Scope]
    ) -> tuple[ast.expr, Sequence[_Scope]] | None:
        """The value assigned to a name, or returned by a function without arguments."""
        if isinstance(node, ast.Name):
            for number, scope in enumerate(scopes):
                values = [value for name, value in _assigned(scope) if name == node.id]
                if values:
                    value = values[0]
                    return (value, scopes[number:]) if len(values) == 1 and value else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            functions = [
                statement
                for statement in self.source.tree.body
                if isinstance(statement, ast.FunctionDef) and statement.name == node.func.id
            ]
            if len(functions) != 1 or node.args or node.keywords or functions[0].args.args:
                return None
            body = functions[0].body
            returned = [inner for inner in ast.walk(functions[0]) if isinstance(inner, ast.Return)]
            if len(returned) == 1 and returned[0].value is not None:
                return returned[0].value, (body, self.source.tree.body)
        return None


def _statements(scope: _Scope) -> Iterator[ast.stmt]:
    """Statements of a body and of its nested blocks, but not of functions and classes in it."""
    for statement in scope:
        yield statement
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for block in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(statement, block, []))


def _assigned(scope: _Scope) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that a body binds, each with its value if bound by a plain assignment."""
    for statement in _statements(scope):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                yield name, value
            case ast.With() | ast.FunctionDef() | ast.ClassDef():
                continue
            case _:
                for node in ast.walk(statement):
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                        yield node.id, None
