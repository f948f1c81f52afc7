"""JSON strings within a literal of another language, such as a request in a shell script."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ratchet.source.literals.literal import (
    FIRST_MARK,
    Literal,
    LiteralBuilder,
    Slot,
    Style,
    is_mark,
    parts_of,
)

_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?', re.DOTALL)
"""A string, and the colon that follows it if it is a key."""
_PIECE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]",
    re.DOTALL,
)
"""A source piece that stands for one character."""


@dataclass(frozen=True)
class _Style:
    """JSON within the outer literal's own form; its quotes stay as they are."""

    outer: Style
    slots: tuple[Slot, ...]

    def encode(self, text: str, *, at_end: bool) -> str:
        return self.outer.encode(json.dumps(text, ensure_ascii=False)[1:-1], at_end=False)

    def whole(self, value: str) -> Iterator[str]:
        yield "".join(
            self.encode(text, at_end=False) + (self.slots[number].source if number >= 0 else "")
            for text, number in parts_of(value)
        )


def embedded(literals: Iterable[Literal]) -> Iterator[Literal]:
    """The strings in literals that hold JSON, or a `jq` program that makes it."""
    for literal in literals:
        if not literal.value.lstrip().startswith(("{", "[")):
            continue
        for match in _STRING.finditer(literal.value):
            string = None if match[2] else _string(literal, *match.span(1))
            if string is not None:
                yield string


def _string(outer: Literal, begin: int, end: int) -> Literal | None:
    builder = LiteralBuilder()
    for piece in _PIECE.finditer(outer.value, begin, end):
        start, last = outer.starts[piece.start()], outer.ends[piece.end() - 1]
        text = piece.group()
        if len(text) == 1 and is_mark(text):
            builder.add_slot(outer.slots[ord(text) - FIRST_MARK], start, last)
            continue
        try:
            builder.add(json.loads(f'"{text}"', strict=False), start, last)
        except ValueError:
            return None  # an escape that JSON does not have: this is something else
    if begin == end:
        return None
    span = (outer.starts[begin], outer.ends[end - 1])
    style = _Style(outer.style, tuple(builder.slots))
    return builder.finish(outer.language, span, span, style)
