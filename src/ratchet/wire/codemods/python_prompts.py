"""Puts `ratchet.prompt(…)` around prompts in a Python file, and leaves every other byte alone.

A literal that is read once, at import, is wrapped where it stands: `str(ratchet.prompt(name, …))`
is the same text. One inside a function moves to the module, so that each call gets the version
that is to answer it.
"""

from __future__ import annotations

import ast
import keyword
import re

from ratchet.ship.literal import write_text
from ratchet.types import InputError, PromptTemplate
from ratchet.wire.changes import Piece
from ratchet.wire.choices import PromptChoice
from ratchet.wire.entry.python_file import Function, PythonFile
from ratchet.wire.facts import PromptPart

_STRING = re.compile(r"([A-Za-z]*)('''|\"\"\"|'|\")")
_PURE = (ast.Name, ast.Attribute, ast.Constant, ast.Subscript, ast.Load, ast.Slice, ast.Tuple)


class _Left(Exception):
    """A prompt that cannot be bound; the message says why."""


class PromptEdits:
    """Edits of one file.

    Args:
        file: The file as it is.
    """

    def __init__(self, file: PythonFile) -> None:
        self._file = file
        self._pieces: list[Piece] = []
        self._names = {
            node.id if isinstance(node, ast.Name) else node.arg
            for node in ast.walk(file.tree)
            if isinstance(node, ast.Name | ast.arg)
        }
        self._mark = 3 if file.data.startswith(b"\xef\xbb\xbf") else 0
        self._spans = self._literals()
        self._module = self._module_name()
        self.bound: list[str] = []
        """Names of the prompts that are declared."""
        self.at_import = False
        """Whether one of them is read when the module is imported."""

    def pieces(self) -> tuple[Piece, ...]:
        """All pieces, with the import."""
        if self._module == "ratchet":
            return (*self._file.import_ratchet(), *self._pieces)
        (imported,) = self._file.import_ratchet()
        line = imported.text.replace("import ratchet", f"import ratchet as {self._module}")
        return (Piece(imported.start, imported.end, line), *self._pieces)

    def bind(self, choice: PromptChoice) -> str:
        """Declare a prompt; returns why it is left alone, or nothing."""
        parts = [part for part in choice.prompt.parts if part.end > part.start]
        if not parts:
            return "Its text is put together at run time: bind it by hand, or use the gateway."
        before, at_import = list(self._pieces), self.at_import
        names = self._part_names(choice, parts)
        try:
            for part, name in zip(parts, names, strict=True):
                self._bind_part(part, name, docstring=part.field == "instructions")
        except _Left as left:
            self._pieces, self.at_import = before, at_import
            return str(left)
        self.bound += names
        return ""

    @staticmethod
    def _part_names(choice: PromptChoice, parts: list[PromptPart]) -> list[str]:
        if len(parts) == 1:
            return [choice.name]
        fields = [re.sub(r"\W+", "_", part.field).strip("_") for part in parts]
        if all(fields) and len(set(fields)) == len(fields):
            return [
                choice.name if field == "instructions" else f"{choice.name}.{field}"
                for field in fields
            ]
        return [f"{choice.name}.{number}" for number in range(1, len(parts) + 1)]

    def _bind_part(self, part: PromptPart, name: str, *, docstring: bool) -> None:
        file, start = self._file, part.start + self._mark
        found = self._spans.get((start, part.end + self._mark))
        if found is None:
            raise _Left("Its literal is not where it was found; look again.")
        node, parents = found
        statement = next(one for one in reversed(parents) if isinstance(one, ast.stmt))
        if any(isinstance(one, ast.JoinedStr) for one in parents[:-1]):
            raise _Left("It stands inside another f-string: move it to a name first.")
        if any(isinstance(one, ast.match_case) for one in parents) and isinstance(
            parents[-1], ast.pattern
        ):
            raise _Left("It is a pattern of a match statement, not a text.")
        if _called_by_ratchet(parents):
            raise _Left("It is declared already.")
        text, fields = self._template(node)
        source = file.data[start : part.end + self._mark].decode()
        literal = self._literal(source, node, text)
        engine = _engine(text, is_template=isinstance(node, ast.JoinedStr))
        body = f"{self._module}.prompt({_quoted(name)}, {literal}{engine})"
        filled = self._filled(fields)
        scope = self._call_scope(node, parents)
        if scope is None:
            self.at_import = True
            value = f"{body}.format({filled})" if fields else f"str({body})"
            if docstring and isinstance(statement, ast.Expr) and statement.value is node:
                value = f"__doc__ = {value}"
            self._pieces.append(Piece(start, part.end + self._mark, value))
            return
        variable = self._variable(name)
        end = file.newline
        top = parents[1] if isinstance(parents[0], ast.Module) else parents[0]
        assert isinstance(top, ast.stmt)
        line = self._top_of(top)
        self._pieces.append(Piece(line, line, f"{variable} = {body}{end}{end * 2}"))
        value = f"{variable}.format({filled})" if fields else f"str({variable})"
        self._pieces.append(Piece(start, part.end + self._mark, value))

    def _template(self, node: ast.expr) -> tuple[str, dict[str, str]]:
        """The template's text, and the source of each of its fields."""
        if isinstance(node, ast.Constant):
            assert isinstance(node.value, str)
            return node.value, {}
        assert isinstance(node, ast.JoinedStr)
        text: list[str] = []
        fields: dict[str, str] = {}
        for value in node.values:
            if isinstance(value, ast.Constant):
                text.append(str(value.value).replace("{", "{{").replace("}", "}}"))
                continue
            assert isinstance(value, ast.FormattedValue)
            source = _slot_source(value)
            name = _slot_name(value.value, source, fields)
            if name in fields and not _is_pure(value.value):
                name = _numbered(name, fields)
            fields[name] = source
            text.append(f"{{{name}}}")
        return "".join(text), fields

    def _literal(self, source: str, node: ast.expr, text: str) -> str:
        """The literal in the new place: as it stands, or rewritten where it was an f-string."""
        if isinstance(node, ast.Constant):
            # Lines of an implicit concatenation continue inside the call's brackets.
            return source
        old = source.replace("\r\n", "\n")
        plain = _STRING.sub(lambda m: re.sub("[fF]", "", m[1]) + m[2], old, count=1)
        quote = _STRING.match(plain)
        assert quote is not None
        shell = f"{quote[1]}{quote[2]}{quote[2]}"
        try:
            written = write_text(text, shell)
            if ast.literal_eval(written) != text:
                raise ValueError("it reads back as another text")
        except (ValueError, SyntaxError) as error:
            raise _Left(f"Its text cannot be written as one literal: {error}.") from None
        return written.replace("\n", self._file.newline)

    @staticmethod
    def _filled(fields: dict[str, str]) -> str:
        return ", ".join(f"{name}={source}" for name, source in fields.items())

    def _call_scope(self, node: ast.expr, parents: list[ast.AST]) -> ast.AST | None:
        """The function whose call reads the literal; None if it is read at import."""
        for inner, outer in zip([*parents[1:], node], parents, strict=True):
            if isinstance(outer, Function):
                if inner in outer.body:
                    return outer
            elif isinstance(outer, ast.Lambda) and inner is outer.body:
                return outer
        return None

    def _variable(self, name: str) -> str:
        base = "_" + re.sub(r"\W", "_", name).upper()
        found, number = base, 2
        while found in self._names:
            found, number = f"{base}_{number}", number + 1
        self._names.add(found)
        return found

    def _top_of(self, statement: ast.stmt) -> int:
        """The first byte of the line of a statement, above its decorators and comments."""
        file = self._file
        first = [statement, *getattr(statement, "decorator_list", [])]
        line = min(one.lineno for one in first)
        data = file.data.splitlines(keepends=True)
        while line > 1 and data[line - 2].lstrip().startswith(b"#"):
            line -= 1
        at = sum(len(one) for one in data[: line - 1])
        return max(at, self._mark)

    def _literals(self) -> dict[tuple[int, int], tuple[ast.expr, list[ast.AST]]]:
        """Text expressions by their bytes, with what is around each, outermost first."""
        found: dict[tuple[int, int], tuple[ast.expr, list[ast.AST]]] = {}
        stack: list[tuple[ast.AST, list[ast.AST]]] = [(self._file.tree, [])]
        while stack:
            node, parents = stack.pop()
            text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if isinstance(node, ast.JoinedStr) or text:
                assert isinstance(node, ast.expr)
                span = (self._file.start(node), self._file.end(node))
                if span not in found:
                    found[span] = (node, parents)
            stack += [(child, [*parents, node]) for child in ast.iter_child_nodes(node)]
        return found

    def _module_name(self) -> str:
        """What `ratchet` is called here: the module may use that name for something else."""
        bound = {
            target.id
            for node in ast.walk(self._file.tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            for target in [node]
        }
        for node in ast.walk(self._file.tree):
            if isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                bound.add(node.name)
            elif isinstance(node, ast.ImportFrom | ast.Import):
                bound |= {
                    one.asname or one.name
                    for one in node.names
                    if isinstance(node, ast.ImportFrom) or (one.asname and one.name != "ratchet")
                }
        return "_ratchet" if "ratchet" in bound else "ratchet"


def _called_by_ratchet(parents: list[ast.AST]) -> bool:
    parent = parents[-1]
    return (
        isinstance(parent, ast.Call)
        and isinstance(parent.func, ast.Attribute)
        and parent.func.attr == "prompt"
        and isinstance(parent.func.value, ast.Name)
        and parent.func.value.id.strip("_") == "ratchet"
    )


def _engine(text: str, *, is_template: bool) -> str:
    """How the text is read, where it is not a template in the usual form."""
    try:
        PromptTemplate(text)
    except InputError as error:
        if is_template:
            raise _Left(f"It is no template: {error.message}") from None
        return ', engine="plain"'
    return ""


def _slot_source(value: ast.FormattedValue) -> str:
    """The source of a slot's value; one with a conversion or a format is formatted first."""
    source = ast.unparse(value.value)
    if isinstance(value.value, ast.NamedExpr | ast.Yield | ast.YieldFrom):
        raise _Left("One of its slots assigns or yields: give it a name before the text.")
    if value.conversion == -1 and value.format_spec is None:
        return source
    return ast.unparse(ast.JoinedStr([value]))


def _slot_name(value: ast.expr, source: str, taken: dict[str, str]) -> str:
    """A name for a slot: that of the variable, attribute or function."""
    while isinstance(value, ast.Call | ast.Await | ast.Subscript):
        value = value.func if isinstance(value, ast.Call) else value.value
    name = (
        value.id
        if isinstance(value, ast.Name)
        else value.attr
        if isinstance(value, ast.Attribute)
        else "value"
    )
    if keyword.iskeyword(name) or name == "self":
        name = "value"
    name = name.lstrip("_") or "value"
    return name if taken.get(name, source) == source else _numbered(name, taken)


def _numbered(name: str, taken: dict[str, str]) -> str:
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _is_pure(value: ast.expr) -> bool:
    return all(isinstance(node, _PURE) for node in ast.walk(value))


def _quoted(name: str) -> str:
    return f'"{name}"'
