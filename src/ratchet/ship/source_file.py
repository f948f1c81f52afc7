"""A Python file as bytes with its syntax tree: byte spans, line ends, and import origins."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ratchet.source.generated_files import generated_notice
from ratchet.types import ShipError

TextRange: TypeAlias = tuple[int, int]
"""Start and end in bytes, end excluded."""

_BOM: Final = b"\xef\xbb\xbf"
_NEWLINE: Final = re.compile(rb"\r\n|\r|\n")
_FACE: Final = ("prompt", "params", "model", "evolve", "Int", "Float", "Choice", "Bool")


@dataclass(frozen=True)
class SourceFile:
    """A Python file as bytes with its syntax tree."""

    path: str
    """Path for messages: relative to the repository's root."""
    data: bytes
    tree: ast.Module
    starts: tuple[int, ...]
    """Byte offset of each line's start."""
    newline: str
    """The file's own line ending."""
    imports: Mapping[str, str] = field(repr=False)
    """Dotted import origin by local name."""

    def offset(self, line: int, column: int) -> int:
        """Byte offset of a 1-based line and a column in UTF-8 bytes."""
        return self.starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt) -> TextRange:
        """Byte span of a node."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self.offset(node.lineno, node.col_offset),
            self.offset(node.end_lineno, node.end_col_offset),
        )

    def line_end(self, line: int) -> int:
        """Byte offset of the end of a 1-based line, before its line ending."""
        start = self.starts[line - 1]
        match = _NEWLINE.search(self.data, start)
        return match.start() if match else len(self.data)

    def text(self, span: TextRange) -> str:
        """The text of a byte span."""
        return self.data[span[0] : span[1]].decode()

    def origin(self, node: ast.AST) -> str:
        """Dotted import origin of an expression, or an empty string."""
        if isinstance(node, ast.Name):
            return self.imports.get(node.id, "")
        if isinstance(node, ast.Attribute):
            base = self.origin(node.value)
            return f"{base}.{node.attr}" if base else ""
        return ""

    def is_ratchet(self, node: ast.AST, *names: str) -> bool:
        """Whether an expression is one of Ratchet's public names."""
        head, _, _ = (origin := self.origin(node)).partition(".")
        return head == "ratchet" and origin.rpartition(".")[2] in names


def read_source(data: bytes, path: str) -> SourceFile:
    """Parse a file.

    Raises:
        ShipError: It is generated, not UTF-8, or not Python that this interpreter parses.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        raise ShipError(
            f"{path} declares an encoding that cannot be read: {error}.", hint="Save it as utf-8."
        ) from None
    if encoding not in ("utf-8", "utf-8-sig"):
        raise ShipError(
            f"{path} is encoded as {encoding}; only utf-8 sources can be patched.",
            hint="Save it as utf-8 and drop its encoding comment.",
        )
    if marker := generated_notice(data.decode(errors="replace")):
        raise ShipError(
            f"{path} is marked as generated ({marker!r}): a patch would be lost.",
            hint="Declare the resource in a file that is edited by hand.",
        )
    bom = len(_BOM) if data.startswith(_BOM) else 0
    try:
        data.decode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data[bom:])
    except UnicodeDecodeError as error:
        raise ShipError(f"{path} is not utf-8: {error}.", hint="Save it as utf-8.") from None
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ShipError(f"{path} does not parse: {error}.") from None
    ends = [match.end() for match in _NEWLINE.finditer(data)]
    endings = [match.group() for match in _NEWLINE.finditer(data)]
    newline = max(set(endings), key=endings.count, default=b"\n").decode()
    return SourceFile(
        path=path,
        data=data,
        tree=tree,
        starts=(bom, *ends),
        newline=newline,
        imports=_imports(tree),
    )


def _imports(tree: ast.Module) -> dict[str, str]:
    origins: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                head = alias.name.partition(".")[0]
                origins[alias.asname or head] = alias.name if alias.asname else head
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            for alias in node.names:
                if alias.name != "*":
                    origins[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                elif node.module == "ratchet":
                    origins.update({name: f"ratchet.{name}" for name in _FACE})
    return origins
