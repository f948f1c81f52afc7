"""Compares a literal with a template: which slot matches which interpolation."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ratchet.source.literals.literal import Literal, is_mark
from ratchet.source.literals.placeholders import BRACES, with_placeholders
from ratchet.types.scripts import size_of

MIN_CONSTANT: Final = 16
"""Minimum length of the constant text of a literal with slots, in characters without white
space."""

MIN_PIECE: Final = 8
"""Minimum length of its longest constant piece, in characters."""

MIN_SHARE: Final = 0.5
"""Minimum share of the template's constant text that is constant in the literal too."""

_FIRST_SLOT: Final = 0xD800
_LAST_SLOT: Final = 0xDBFF


@dataclass(frozen=True)
class TemplateText:
    """A template as text in which each slot is one character."""

    text: str
    """The text, with LF line ends."""
    slots: tuple[str, ...]
    """Names by number of the slot's character."""

    @classmethod
    def of(
        cls, pieces: Sequence[str], slots: Sequence[str], known_slots: Sequence[str] = ()
    ) -> TemplateText:
        """A template from its constant pieces and the slots between them.

        Args:
            pieces: One more than there are slots.
            slots: Their names.
            known_slots: Names of another template, which get the same characters here.
        """
        names = tuple(dict.fromkeys([*known_slots, *slots]))
        characters = {name: chr(_FIRST_SLOT + number) for number, name in enumerate(names)}
        text = pieces[0]
        for name, piece in zip(slots, pieces[1:], strict=True):
            text += characters[name] + piece
        return cls(text.replace("\r\n", "\n"), names)

    def name(self, character: str) -> str:
        """The name of the slot that a character stands for; empty for constant text."""
        number = ord(character) - _FIRST_SLOT
        return self.slots[number] if 0 <= number < len(self.slots) else ""


def is_slot(character: str) -> bool:
    """Whether a character of a template's text is a slot."""
    return _FIRST_SLOT <= ord(character) <= _LAST_SLOT


@dataclass(frozen=True)
class Unit:
    """A part of the template that is not constant text in the literal."""

    template: tuple[int, int]
    """Range in the stripped text of the template: a slot, or text that never varied."""
    literal: tuple[int, int]
    """Range in the stripped value: one or more interpolations."""


@dataclass(frozen=True)
class Match:
    """A literal whose text is the template."""

    literal: Literal
    units: tuple[Unit, ...]
    braces_unclear: bool = False
    """Whether it is unknown if braces in the constant text are doubled here."""


def match(literal: Literal, template: TemplateText, following: str = "") -> Match | None:
    """Compare a literal with a template.

    White space at both ends, line ends and common indentation may differ. An interpolation may
    stand for constant text of the template, where its value never varied.

    Args:
        literal: The literal.
        template: The template.
        following: Source after the literal, which may show how it is filled.
    """
    forms = [literal]
    if (plain := dedented(literal)) is not None:
        forms.append(plain)
    for form in forms:
        units = _units(form.value.strip(), template.text.strip())
        if units is not None:
            return Match(form, units)
        fits = {}
        for filled in with_placeholders(form):
            units = _units(filled.value.strip(), template.text.strip())
            if units is not None:
                fits[filled.placeholders] = Match(filled, units)
        if not fits:
            continue
        both = all(name in fits for name in BRACES)
        if both and re.match(r"[\s)]*\.format\(", following):
            return fits[BRACES[0]]
        if both and re.match(r"[\s)]*\.replace", following):
            return fits[BRACES[1]]
        return replace(next(iter(fits.values())), braces_unclear=both)
    return None


def dedented(literal: Literal) -> Literal | None:
    """A literal without the common indentation of its lines after the first."""
    value = literal.value
    if not literal.raw_lines or "\n" not in value:
        return None
    lines = value.split("\n")
    margins = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines[1:] if line.strip()]
    margin = margins[0] if margins else ""
    while margin and not all(line_margin.startswith(margin) for line_margin in margins):
        margin = margin[:-1]
    if not margin:
        return None
    keep: list[int] = []
    starts, ends = list(literal.starts), list(literal.ends)
    at = len(lines[0])
    keep += range(at)
    for line in lines[1:]:
        keep.append(at)
        # The line end takes the indentation after it.
        cut = len(margin) if line.strip() else len(line)
        begin, after = at + 1 + cut, at + 1 + len(line)
        if cut:
            ends[at] = ends[begin - 1]
        keep += range(begin, after)
        at = after
    return replace(
        literal,
        value="".join(value[index] for index in keep),
        starts=[starts[index] for index in keep],
        ends=[ends[index] for index in keep],
        dedented=margin,
    )


def _units(value: str, text: str) -> tuple[Unit, ...] | None:
    if not any(map(is_mark, value)):
        return () if value == text and text else None
    groups = list(_groups(value, joined=False))
    units = _aligned(value, text, groups)
    if units is None:
        wider = list(_groups(value, joined=True))
        units = _aligned(value, text, wider) if len(wider) < len(groups) else None
    return units


def _groups(value: str, *, joined: bool) -> Iterator[tuple[int, int]]:
    """Ranges of interpolations, merged if adjacent or separated only by a comma or the like."""
    begin = end = -1
    for index, character in enumerate(value):
        if not is_mark(character):
            continue
        between = value[end:index] if begin >= 0 else ""
        near = joined and len(between) <= 4 and not any(c.isalnum() for c in between)
        if begin >= 0 and (not between or (near and "\n" not in between)):
            end = index + 1
            continue
        if begin >= 0:
            yield begin, end
        begin, end = index, index + 1
    if begin >= 0:
        yield begin, end


def _aligned(value: str, text: str, groups: list[tuple[int, int]]) -> tuple[Unit, ...] | None:
    edges = [0, *itertools.chain.from_iterable(groups), len(value)]
    pieces = [value[edges[n] : edges[n + 1]] for n in range(0, len(edges), 2)]
    sizes = [size_of(piece) for piece in pieces]
    constant = size_of("".join(c for c in text if not is_slot(c)))
    if sum(sizes) < max(MIN_CONSTANT, MIN_SHARE * constant) or max(sizes) < MIN_PIECE:
        return None
    end = len(text) - len(pieces[-1])
    if end < len(pieces[0]) or not text.startswith(pieces[0]) or not text.endswith(pieces[-1]):
        return None
    inner = pieces[1:-1]
    first: list[int] = []
    at = len(pieces[0])
    for piece in inner:
        at = text.find(piece, at, end)
        if at < 0:
            return None
        first.append(at)
        at += len(piece)
    last: list[int] = []
    at = end
    for piece in reversed(inner):
        at = text.rfind(piece, len(pieces[0]), at)
        last.insert(0, at)
    units: list[Unit] = []
    begin, opened = len(pieces[0]), groups[0][0]
    for index, piece in enumerate(inner):
        if first[index] == last[index]:
            units.append(Unit((begin, first[index]), (opened, groups[index][1])))
            begin, opened = first[index] + len(piece), groups[index + 1][0]
        # Where a piece may stand in two places, what surrounds it is one unit.
    units.append(Unit((begin, end), (opened, groups[-1][1])))
    return tuple(units)
