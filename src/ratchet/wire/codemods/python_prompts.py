"""Wraps prompts in a Python file in `ratchet.prompt(…)`, and leaves every other byte alone.

A literal that is read once, at import, is wrapped where it stands: `str(ratchet.prompt(name, …))`
is the same text, and so is `.template.text` of one with slots that the code fills itself. One
inside a function moves to the module, so that each call gets the version that is to answer it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize

from ratchet.ship.literal import write_text
from ratchet.types import InputError, PromptTemplate
from ratchet.wire.changes import Piece
from ratchet.wire.codemods.fstring_template import Refused, template_of, text_without_slots
from ratchet.wire.codemods.import_time import is_kept
from ratchet.wire.codemods.python_file import Function, PythonFile

_STRING = re.compile(r"([A-Za-z]*)('''|\"\"\"|'|\")")


class PromptEdits:
    """Changes to a Python file.

    Args:
        file: The file as it is.
    """

    def __init__(self, file: PythonFile) -> None:
        self._file = file
        self._pieces: list[Piece] = []
        self._names = _bound_names(file.tree) | {
            node.id for node in ast.walk(file.tree) if isinstance(node, ast.Name)
        }
        self._mark = 3 if file.data.startswith(b"\xef\xbb\xbf") else 0
        self._spans = self._literals()
        self._module = self._module_name()
        self._import = self._import_piece()
        self._has_str = "str" not in _bound_names(file.tree)
        self._declares = _declaring_names(file.tree)
        self.bound: list[str] = []
        """Names of the prompts that these changes declare."""
        self.at_import = False
        """Whether any of them is read when the module is imported."""

    def pieces(self) -> tuple[Piece, ...]:
        """All pieces, including the import."""
        return (*self._import, *self._pieces)

    def _import_piece(self) -> tuple[Piece, ...]:
        file, line = self._file, f"import ratchet as {self._module}"
        if self._module == "ratchet":
            return file.import_ratchet()
        if file.binds_ratchet():  # and a function or class uses the name for something else
            node = next(statement for statement in file.tree.body if _imports_ratchet(statement))
            at = file.line_after(node)
            head = "" if file.data[:at].endswith((b"\n", b"\r")) else file.newline
            return (Piece(at, at, f"{head}{line}{file.newline}"),)
        (imported,) = file.import_ratchet()
        text = imported.text.replace("import ratchet", line)
        return (Piece(imported.start, imported.end, text),)

    def _usable_from(self) -> int:
        """The first byte after the import of `ratchet`."""
        if self._import:
            return self._import[0].start
        node = next(statement for statement in self._file.tree.body if _imports_ratchet(statement))
        return self._file.end(node)

    def bind(self, name: str, start: int, end: int) -> str:
        """Declare the prompt at these bytes. Returns why it could not; empty if it did."""
        before, at_import = list(self._pieces), self.at_import
        try:
            self._declare(name, start, end)
        except Refused as left:
            self._pieces, self.at_import = before, at_import
            return str(left)
        self.bound.append(name)
        return ""

    def _declare(self, name: str, start: int, end: int) -> None:
        file = self._file
        match = self._spans.get((start, end))
        if match is None:
            raise Refused("It consists of several pieces: write it as one literal first.")
        node, parents = match
        self._refuse(node, parents, start, end)
        docstring = isinstance(parents[-1], ast.Expr)
        if docstring and not _is_docstring_of_class(node, parents):
            raise Refused(
                "It is the docstring of a function or module: assign the text to a variable."
            )
        fields: dict[str, str] = {}
        plain = text_without_slots(node) if isinstance(node, ast.JoinedStr) else None
        if isinstance(node, ast.Constant):
            assert isinstance(node.value, str)
            text = node.value
        elif plain is not None:
            text = plain
        else:
            assert isinstance(node, ast.JoinedStr)
            text, fields = template_of(node)
        if not _is_unicode(text):
            raise Refused("It contains half of a surrogate pair, which cannot be stored.")
        literal = self._literal(file.data[start:end].decode(), node, text)
        engine = _engine(text, is_template=bool(fields))
        body = f'{self._module}.prompt("{name}", {literal}{engine})'
        scope = self._call_scope(node, parents)
        value = body
        if scope is None:
            self.at_import = True
        else:
            self.at_import |= any(is_kept(file, parent) for parent in parents)
            value = self._declared_above(parents, name, body)
        value = self._as_text(value, fields, as_written=not engine and not _reads_as_written(text))
        if docstring:
            value = f"__doc__ = {value}"
        before = file.data[start - 1 : start].decode("latin-1")
        space = " " if before.isalnum() or before == "_" else ""
        self._add(Piece(start, end, space + value))

    def _declared_above(self, parents: list[ast.AST], name: str, body: str) -> str:
        """The name of a prompt that is declared above the function or class that uses it."""
        variable, end = self._variable(name), self._file.newline
        top = parents[1]
        assert isinstance(top, ast.stmt)
        line = self._top_of(top)
        self._add(Piece(line, line, f"{variable} = {body}{end}{end * 2}"))
        return variable

    def _as_text(self, prompt: str, fields: dict[str, str], *, as_written: bool) -> str:
        if fields:
            filled = ", ".join(f"{name}={source}" for name, source in fields.items())
            return f"{prompt}.format({filled})"
        if as_written:  # the code fills its slots
            return f"{prompt}.template.text"
        return f"str({prompt})" if self._has_str else f"{prompt}.__str__()"

    def _add(self, piece: Piece) -> None:
        """Record a piece.

        Raises:
            Refused: It stands above the import, or cannot be written in the file's encoding.
        """
        if piece.start < self._usable_from():
            raise Refused("It is above the imports, where ratchet is not imported yet.")
        if not piece.text.isascii() and not _is_utf8(self._file.data):
            raise Refused("Its file is not UTF-8: convert the file first.")
        self._pieces.append(piece)

    def _refuse(self, node: ast.expr, parents: list[ast.AST], start: int, end: int) -> None:
        """Raise Refused where a call cannot replace the literal."""
        if any(isinstance(parent, ast.JoinedStr) for parent in parents):
            raise Refused("It is inside another f-string: assign it to a variable first.")
        if isinstance(parents[-1], ast.pattern | ast.MatchValue):
            raise Refused("It is a pattern of a match statement, not a text.")
        calls = (ast.unparse(parent.func) for parent in parents if isinstance(parent, ast.Call))
        if not self._declares.isdisjoint(calls):
            raise Refused("It is already declared.")
        if any(piece.start < end and start < piece.end for piece in self._pieces):
            raise Refused("It is already declared, under the name of another prompt.")
        for inner, outer in zip([*parents[1:], node], parents, strict=True):
            note = getattr(outer, "annotation", None) or getattr(outer, "returns", None)
            if inner is note:
                raise Refused("It is part of a type, not a text.")
            if isinstance(outer, ast.AnnAssign) and "Literal" in ast.unparse(outer.annotation):
                raise Refused("Its type allows only this exact text: widen the type first.")

    def _literal(self, source: str, node: ast.expr, text: str) -> str:
        """The literal as written in the call: unchanged, or rewritten if it was an f-string."""
        if isinstance(node, ast.Constant):
            # Lines of an implicit concatenation continue inside the call's brackets.
            return source
        old = source.replace("\r\n", "\n").replace("\r", "\n")
        if _has_comment(old):
            raise Refused("There are comments between its pieces: move them above the text first.")
        plain = _STRING.sub(lambda m: re.sub("[fF]", "", m[1]) + m[2], old, count=1)
        quote = _STRING.match(plain)
        assert quote is not None
        shell = f"{quote[1]}{quote[2]}{quote[2]}"
        try:
            quoted = write_text(text, shell)
            if ast.literal_eval(quoted) != text:
                raise ValueError("it would be read back as another text")
        except (ValueError, SyntaxError) as error:
            raise Refused(f"Its text cannot be written as one literal: {error}.") from None
        return quoted.replace("\n", self._file.newline)

    def _call_scope(self, node: ast.expr, parents: list[ast.AST]) -> ast.AST | None:
        """The function whose calls read the literal; None if it is read at import."""
        for inner, outer in zip([*parents[1:], node], parents, strict=True):
            if isinstance(outer, Function):
                if inner in outer.body:
                    return outer
            elif isinstance(outer, ast.Lambda) and inner is outer.body:
                return outer
        return None

    def _variable(self, name: str) -> str:
        base = "_" + re.sub(r"\W", "_", name).strip("_").upper()
        variable, number = base, 2
        while variable in self._names:
            variable, number = f"{base}_{number}", number + 1
        self._names.add(variable)
        return variable

    def _top_of(self, statement: ast.stmt) -> int:
        """The first byte of a statement's line, above its decorators and comments."""
        file = self._file
        line = min(node.lineno for node in [statement, *getattr(statement, "decorator_list", [])])
        line = file.above_comments(line)
        data = file.data.splitlines(keepends=True)
        at = sum(len(row) for row in data[: line - 1])
        # Comments at the head of a file are about the file.
        return max(at, self._import[0].start) if self._import else max(at, self._mark)

    def _literals(self) -> dict[tuple[int, int], tuple[ast.expr, list[ast.AST]]]:
        """String expressions by their bytes, with the nodes around each, outermost first."""
        literals: dict[tuple[int, int], tuple[ast.expr, list[ast.AST]]] = {}
        stack: list[tuple[ast.AST, list[ast.AST]]] = [(self._file.tree, [])]
        while stack:
            node, parents = stack.pop()
            text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if isinstance(node, ast.JoinedStr) or text:
                assert isinstance(node, ast.expr)
                span = (self._file.start(node), self._file.end(node))
                if span not in literals:
                    literals[span] = (node, parents)
            stack += [(child, [*parents, node]) for child in ast.iter_child_nodes(node)]
        return literals

    def _module_name(self) -> str:
        """The name to import `ratchet` as: one that the file does not use for something else."""
        bound = _bound_names(self._file.tree)
        name = "ratchet"
        while name in bound:
            name = f"_{name}"
        return name


def _bound_names(tree: ast.AST) -> set[str]:
    """Names that a file binds, except by `import ratchet`."""
    bound: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                bound.add(name)
            case ast.arg(arg=name):
                bound.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bound.add(node.name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                bound.add(name)
            case ast.ImportFrom():
                bound |= {alias.asname or alias.name for alias in node.names}
            case ast.Import():
                names = [
                    (alias.name, alias.asname or alias.name.partition(".")[0])
                    for alias in node.names
                ]
                bound |= {local for name, local in names if name != "ratchet" or local != name}
    return bound


def _declaring_names(tree: ast.AST) -> set[str]:
    """The name by which a file can call `ratchet.prompt`."""
    declaring = {"ratchet.prompt"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            declaring |= {
                f"{alias.asname or alias.name}.prompt"
                for alias in node.names
                if alias.name == "ratchet"
            }
        elif isinstance(node, ast.ImportFrom) and node.module == "ratchet" and not node.level:
            declaring |= {
                alias.asname or alias.name for alias in node.names if alias.name == "prompt"
            }
    return declaring


def _imports_ratchet(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import) and any(
        alias.name == "ratchet" and alias.asname is None for alias in node.names
    )


def _is_docstring_of_class(node: ast.expr, parents: list[ast.AST]) -> bool:
    return (
        len(parents) > 1
        and isinstance(parents[-2], ast.ClassDef)
        and parents[-2].body[0] is parents[-1]
        and isinstance(node, ast.Constant)
    )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_utf8(data: bytes) -> bool:
    """Whether Python reads a file as UTF-8."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return encoding in ("utf-8", "utf-8-sig")


def _has_comment(source: str) -> bool:
    tokens = tokenize.generate_tokens(io.StringIO(f"({source}\n)", newline="\n").readline)
    return any(token.type == tokenize.COMMENT for token in tokens)


def _engine(text: str, *, is_template: bool) -> str:
    """The engine with which the text is read, if it is not a template in the usual form."""
    try:
        PromptTemplate(text)
    except InputError as error:
        if is_template:
            raise Refused(f"It is not a valid template: {error.message}") from None
        return ', engine="plain"'
    return ""


def _reads_as_written(text: str) -> bool:
    """Whether a text reads the same as a template without values: it has no slots or braces."""
    template = PromptTemplate(text)
    return not template.placeholders and template.format() == text
