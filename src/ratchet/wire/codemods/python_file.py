"""A Python file as it is on disk: its syntax tree, and the byte positions of its nodes."""

from __future__ import annotations

import ast
import codecs
import re
from collections.abc import Iterator

from ratchet.types import InputError
from ratchet.wire.changes import Piece

Function = ast.FunctionDef | ast.AsyncFunctionDef
NameScope = Function | ast.ClassDef
_LINE_END = re.compile(rb"\r\n|\r|\n")


class PythonFile:
    """The bytes and the syntax tree of a Python file.

    Raises:
        InputError: It is not UTF-8, or does not parse.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        """Relative to the repository, with forward slashes."""
        self.data = data
        self._mark = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
        try:
            self.tree = ast.parse(data[self._mark :].decode())
        except (SyntaxError, ValueError, RecursionError) as error:
            raise InputError(f"{path} does not parse as Python: {error}.") from None
        ends = [match.end() for match in _LINE_END.finditer(data)]
        self._starts = [self._mark, *ends]
        first = _LINE_END.search(data)
        self.newline = first.group().decode() if first else "\n"
        self.scopes: dict[str, NameScope] = {}
        """Functions and classes by dotted name; the last one where several share a name."""
        self.owner: dict[ast.AST, NameScope] = {}
        """The innermost function or class around each node."""
        self._enter(self.tree, "", None)

    def _enter(self, node: ast.AST, prefix: str, owner: NameScope | None) -> None:
        for child in ast.iter_child_nodes(node):
            if owner is not None:
                self.owner[child] = owner
            if isinstance(child, NameScope):
                dotted = f"{prefix}{child.name}"
                self.scopes[dotted] = child
                self._enter(child, f"{dotted}.", child)
            else:
                self._enter(child, prefix, owner)

    def start(self, node: ast.stmt | ast.expr) -> int:
        """Position of a node's first byte, after its decorators."""
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.stmt | ast.expr) -> int:
        """Position of the first byte after a node."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def source(self, node: ast.stmt | ast.expr) -> str:
        """A node's text, with LF line endings."""
        text = self.data[self.start(node) : self.end(node)].decode()
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def indent(self, node: ast.stmt) -> str:
        """The text before a statement on its line."""
        return self.data[self._starts[node.lineno - 1] : self.start(node)].decode()

    def line_after(self, node: ast.stmt) -> int:
        """The first byte of the line after a statement; the file's end if there is none."""
        assert node.end_lineno is not None
        at = node.end_lineno
        return self._starts[at] if at < len(self._starts) else len(self.data)

    def before(self, node: ast.stmt, line: str, *, above: bool = False) -> Piece | None:
        """A line to insert before a statement; None if the statement shares its line.

        Args:
            node: The statement.
            line: The line, without indentation.
            above: Whether it comes above the comments that stand right before the statement.
        """
        indent = self.indent(node)
        if indent.strip():
            return None
        number = node.lineno - 1
        if above:
            number = self.above_comments(node.lineno) - 1
        at = self._starts[number]
        return Piece(at, at, f"{indent}{line}{self.newline}")

    def above_comments(self, line: int) -> int:
        """Number of the first of the comment lines right before a line; else the line's own."""
        in_text = {
            number
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Constant | ast.JoinedStr)
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        while line > 1 and self._line(line - 2).lstrip().startswith(b"#"):
            if line - 1 in in_text:
                break
            line -= 1
        return line

    def _line(self, number: int) -> bytes:
        return self.data[self._starts[number] : self._starts[number + 1]]

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Functions and methods, with their dotted names."""
        for name, scope in self.scopes.items():
            if isinstance(scope, Function):
                yield name, scope

    def binds_ratchet(self) -> bool:
        """Whether `import ratchet` is at its top level."""
        return any(
            isinstance(statement, ast.Import)
            and any(alias.name == "ratchet" and alias.asname is None for alias in statement.names)
            for statement in self.tree.body
        )

    def import_ratchet(self) -> tuple[Piece, ...]:
        """Adds `import ratchet` after the first block of imports; empty if it is already there."""
        if self.binds_ratchet():
            return ()
        last: ast.stmt | None = None
        for statement in self.tree.body:
            docstring = last is None and is_text(statement)
            if not (isinstance(statement, ast.Import | ast.ImportFrom) or docstring):
                break
            last = statement
        line = f"import ratchet{self.newline}"
        if last is None:
            at = self._starts[_comments(self.data[self._mark :])]
            return (Piece(at, at, line),)
        for statement in self.tree.body:  # one that begins in the same line may end in another
            if statement.lineno <= (last.end_lineno or 0) < (statement.end_lineno or 0):
                last = statement
        at = self.line_after(last)
        if at == len(self.data) and not self.data.endswith((b"\n", b"\r")):
            return (Piece(at, at, self.newline + line),)
        return (Piece(at, at, line),)


def is_text(node: ast.stmt) -> bool:
    """Whether a statement is only a string, such as a docstring."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def dotted(node: ast.AST | None) -> str:
    """The dotted name of a name or attribute, calls left out; empty for any other node."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}".lstrip(".")
    if isinstance(node, ast.Call | ast.Await):
        return dotted(node.func if isinstance(node, ast.Call) else node.value)
    if isinstance(node, ast.Subscript):
        return dotted(node.value)
    return ""


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function or module in order, without those of nested functions."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, NameScope | ast.Lambda):
            continue
        yield child
        yield from own_nodes(child)


def _comments(data: bytes) -> int:
    """Number of comment lines at the top, such as a shebang or an encoding."""
    count = 0
    for line in _LINE_END.split(data):
        if not line.startswith(b"#"):
            break
        count += 1
    return count
