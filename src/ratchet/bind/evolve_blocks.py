"""The comments `# EVOLVE-BLOCK-START` and `# EVOLVE-BLOCK-END`, which mark evolvable source.

The markers are those of AlphaEvolve (arXiv:2506.13131) and OpenEvolve. A block inside a function
restricts changes to its lines. A block around whole functions marks each of them.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from ratchet.types import InputError

BLOCK_START = "EVOLVE-BLOCK-START"
BLOCK_END = "EVOLVE-BLOCK-END"

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class MarkedFunction(msgspec.Struct, frozen=True):
    """A function selected by markers."""

    qualname: str
    line: int
    """1-based line of the `def`."""


def blocks(text: str, where: str = "The source") -> list[tuple[int, int]]:
    """Find the line pairs of the markers, 1-based, as (start, end).

    Args:
        text: Python source.
        where: Name of the source in error messages.

    Raises:
        InputError: A marker has no partner, or blocks are nested.
    """
    if BLOCK_START not in text and BLOCK_END not in text:
        return []
    ranges: list[tuple[int, int]] = []
    begun = 0
    for line, comment in _comments(text):
        if BLOCK_START in comment:
            if begun:
                raise InputError(
                    f"{where}, line {line}: a block begins inside that of line {begun}."
                )
            begun = line
        elif BLOCK_END in comment:
            if not begun:
                raise InputError(f"{where}, line {line}: a block ends, but none has begun.")
            ranges.append((begun, line))
            begun = 0
    if begun:
        raise InputError(
            f"{where}, line {begun}: a block begins but never ends.",
            hint=f"Put # {BLOCK_END} after it.",
        )
    return ranges


def marked_functions(text: str, where: str = "The source") -> list[MarkedFunction]:
    """Find the functions of a module that are in a block, or that contain one.

    Nested functions are part of the enclosing one.

    Raises:
        InputError: See `blocks`.
    """
    spans = blocks(text, where)
    if not spans:
        return []
    marked: list[MarkedFunction] = []
    for qualname, node in _functions(ast.parse(text), ""):
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        last = node.end_lineno or node.lineno
        if any(
            (start < first and last < end) or (first < start and end <= last + 1)
            for start, end in spans
        ):
            marked.append(MarkedFunction(qualname, node.lineno))
    return marked


def outside(text: str) -> str | None:
    """The part of a function's source that must not change: all lines outside blocks.

    Returns:
        The fixed lines, with the markers; None if there is no block and everything may change.

    Raises:
        InputError: See `blocks`.
    """
    spans = blocks(text)
    if not spans:
        return None
    lines = text.strip("\n").splitlines()
    skipped = len(text) - len(text.lstrip("\n"))
    inside = {
        line - skipped for start, end in spans for line in range(start + 1, end) if line > skipped
    }
    fixed = [line.rstrip() for number, line in enumerate(lines, start=1) if number not in inside]
    return "\n".join(fixed).rstrip()


def _comments(text: str) -> Iterator[tuple[int, str]]:
    # Markers inside string literals do not count.
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    except (tokenize.TokenError, SyntaxError):
        return


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, FunctionNode]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)
