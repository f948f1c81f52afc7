"""A string literal of any language: its value, its slots, and the source of each character."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

FIRST_MARK: Final = 0xDC00
LAST_MARK: Final = 0xDFFF
"""Slots are single characters in a value. They are halves of a UTF-16 pair, which no text
contains."""

_MARKS = re.compile(f"[{chr(FIRST_MARK)}-{chr(LAST_MARK)}]")


class Inexpressible(Exception):
    """A text cannot be written in this form of literal; the message is a clause."""


class Style(Protocol):
    """The notation of a literal."""

    def encode(self, text: str, *, at_end: bool) -> str:
        """The source for constant text inside the literal.

        Args:
            text: The text, without slots.
            at_end: Whether the literal ends after it.

        Raises:
            Inexpressible: This form cannot hold it.
        """

    def whole(self, value: str) -> Iterable[str]:
        """Sources of the whole literal with another value, best first."""


@dataclass(frozen=True)
class Slot:
    """An interpolation of a literal."""

    source: str
    """As in the source: `${date}`, `{date}`, or `date` between two plus signs."""
    moved: str
    """The source that puts it between two constant parts of the literal."""
    positional: bool = False
    """Filled by its position (`%s`), so that slots must keep their number and order."""
    simple: bool = True
    """Whether it may be evaluated more than once: a plain name, an attribute."""


@dataclass(frozen=True)
class Literal:
    """A string literal, or an expression of literals with a single value.

    Positions count characters of the file's text.
    """

    language: str
    span: tuple[int, int]
    """The whole expression, with its quotes."""
    value: str
    """The text; each slot is a mark, see `mark`."""
    starts: Sequence[int] = field(repr=False)
    ends: Sequence[int] = field(repr=False)
    """Source range of each character of the value. The ranges adjoin: what is between two
    characters (quotes and plus signs of a concatenation, indentation) belongs to one of them."""
    body: tuple[int, int]
    """From the first character's source to the last one's."""
    slots: tuple[Slot, ...]
    """By the number in the mark."""
    style: Style = field(repr=False)
    crlf: bool = False
    """Whether the value's lines end with CRLF at run time; in `value` they end with LF."""
    dedented: str = ""
    """Indentation that the program removes from the lines."""
    raw_lines: bool = False
    """Whether the value's line ends are written as line ends in the source."""
    placeholders: str = ""
    """Form of the placeholders in the text; see `placeholders.FORMS`."""

    def encoded(self, text: str, *, at_end: bool) -> str:
        """The source for constant text of the value."""
        if self.crlf:
            text = text.replace("\n", "\r\n")
        return self.style.encode(text, at_end=at_end)


def mark(number: int) -> str:
    """The character that stands for a slot."""
    if FIRST_MARK + number > LAST_MARK:
        raise Inexpressible("it has more than 1,024 slots")
    return chr(FIRST_MARK + number)


def is_mark(character: str) -> bool:
    """Whether a character stands for a slot."""
    return FIRST_MARK <= ord(character) <= LAST_MARK


def parts_of(value: str) -> list[tuple[str, int]]:
    """The constant texts of a value, each with the number of the next slot; -1 if none."""
    parts: list[tuple[str, int]] = []
    begin = 0
    for match in _MARKS.finditer(value):
        parts.append((value[begin : match.start()], ord(match[0]) - FIRST_MARK))
        begin = match.end()
    return [*parts, (value[begin:], -1)]


class LiteralBuilder:
    """Collects a literal's characters with their source ranges, in order."""

    def __init__(self) -> None:
        self.characters: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.slots: list[Slot] = []

    def add(self, value: str, start: int, end: int) -> None:
        """Add the text that one source range stands for."""
        if len(value) == end - start and len(value) != 1:
            self.characters += value
            self.starts += range(start, end)
            self.ends += range(start + 1, end + 1)
            return
        for index, character in enumerate(value):
            self.characters.append(character)
            self.starts.append(start if not index else end)
            self.ends.append(end)

    def add_slot(self, slot: Slot, start: int, end: int) -> None:
        """Add a slot."""
        self.add(mark(len(self.slots)), start, end)
        self.slots.append(slot)

    def finish(
        self,
        language: str,
        span: tuple[int, int],
        body: tuple[int, int],
        style: Style,
        *,
        raw_lines: bool = False,
    ) -> Literal | None:
        """The literal; None if its text contains half of a UTF-16 pair."""
        slot_count = len(self.slots)
        if sum(0xD800 <= ord(c) <= 0xDFFF for c in self.characters) != slot_count:
            return None
        crlf = "\r\n" in "".join(self.characters)
        if crlf:
            self._join_line_ends()
        for index in range(1, len(self.starts)):
            self.ends[index - 1] = self.starts[index]
        return Literal(
            language=language,
            span=span,
            value="".join(self.characters),
            starts=self.starts,
            ends=self.ends,
            body=body,
            slots=tuple(self.slots),
            style=style,
            crlf=crlf,
            raw_lines=raw_lines,
        )

    def _join_line_ends(self) -> None:
        characters, starts, ends = self.characters, self.starts, self.ends
        self.characters, self.starts, self.ends = [], [], []
        for index, character in enumerate(characters):
            if character == "\n" and index and characters[index - 1] == "\r":
                self.characters[-1], self.ends[-1] = "\n", ends[index]
                continue
            self.characters.append(character)
            self.starts.append(starts[index])
            self.ends.append(ends[index])
