"""Writes a template into the literal of another: the smallest edit that reads back exactly."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ratchet.source.literals.literal import (
    FIRST_MARK,
    Inexpressible,
    Literal,
    is_mark,
    parts_of,
)
from ratchet.source.literals.matching import Match, TemplateText, Unit, dedented, is_slot
from ratchet.source.literals.placeholders import FORMS, as_form

_KEPT = 8
"""Minimum length of a run of words that is copied from the source in changed lines, in
characters."""

Reader = Callable[[str], tuple[list[Literal], int]]


@dataclass(frozen=True)
class Replacement:
    """An edit of a literal."""

    span: tuple[int, int]
    """In characters of the old text."""
    source: str
    """The text that replaces it."""
    reads: str
    """What is read back afterwards; see `canonical`."""


def canonical(literal: Literal) -> str:
    """A literal's constant text and the sources of its slots, as one text.

    Two literals with the same canonical text mean the same.
    """
    pieces = [literal.placeholders]
    for text, number in parts_of(literal.value):
        pieces.append(text)
        if number >= 0:
            pieces.append(f"\0{literal.slots[number].source}\0")
    return "".join(pieces)


def shown(literal: Literal) -> str:
    """A literal's text with the sources of its slots, for a person."""
    return _sources(literal, literal.value)


def new_value(match: Match, old: TemplateText, new: TemplateText) -> str:
    """The literal's value, with marks, that corresponds to another template.

    Args:
        match: The literal of the old template.
        old: The template that it holds.
        new: The one to write; slots of the same names have the same characters.

    Raises:
        Inexpressible: The source cannot give it.
    """
    value, text, wanted = match.literal.value, old.text.strip(), new.text
    core = value.strip()
    lead = value[: len(value) - len(value.lstrip())]
    trail = value[len(value.rstrip()) :]
    # Where the template has the literal's own outer white space, the new one's counts.
    if old.text[: len(old.text) - len(old.text.lstrip())] == lead:
        lead = wanted[: len(wanted) - len(wanted.lstrip())]
    if old.text[len(old.text.rstrip()) :] == trail:
        trail = wanted[len(wanted.rstrip()) :]
    wanted = wanted.strip()
    if not wanted:
        raise Inexpressible("it is empty")
    if match.braces_unclear and re.search(r"[{}]", wanted):
        raise Inexpressible(
            "its text has a brace, and it cannot be determined whether the program expects "
            "braces doubled"
        )
    pieces: list[tuple[int, int, str]] = []
    slots: dict[str, str] = {}
    for unit in match.units:
        part, source = text[slice(*unit.template)], core[slice(*unit.literal)]
        if len(part) == 1 and is_slot(part):
            if slots.setdefault(part, source) != source and _sources(match.literal, source) != (
                _sources(match.literal, slots[part])
            ):
                raise Inexpressible(f"slot {{{old.name(part)}}} stands for different expressions")
            continue
        at = _place(unit, part, text, wanted, match.literal, source)
        pieces.append((at, at + len(part), source))
    parts: list[str] = []
    at = 0
    for start, end, source in [*sorted(pieces), (len(wanted), len(wanted), "")]:
        if start < at:
            raise Inexpressible("two of its expressions would be in the same place")
        for character in wanted[at:start]:
            if is_slot(character) and character not in slots:
                raise Inexpressible(
                    f"the source has no expression for slot {{{new.name(character)}}} alone"
                )
            parts.append(slots.get(character, character))
        parts.append(source)
        at = end
    result = lead + "".join(parts) + trail
    _check_slots(match.literal, result)
    return result


def _place(unit: Unit, part: str, text: str, wanted: str, literal: Literal, source: str) -> int:
    """Where the new text has a part that is not constant text in the source."""
    start, end = unit.template
    for same, a, b, c, _ in _changes(text, wanted):
        if same and a <= start and end <= b:
            return c + start - a
    # Within changed lines, by words.
    old_words, new_words = _words(text), _words(wanted)
    olds, news = _offsets(old_words), _offsets(new_words)
    for block in difflib.SequenceMatcher(None, old_words, new_words).get_matching_blocks():
        a, b = olds[block.a], olds[block.a + block.size]
        if block.size and a <= start and end <= b:
            return news[block.b] + start - a
    if part and part in wanted:
        return wanted.index(part)
    expression = _sources(literal, source)
    if not part:
        raise Inexpressible(
            f"it has no place for the expression {expression}, which was always empty"
        )
    text = "".join("…" if is_slot(character) else character for character in part)
    raise Inexpressible(
        f"the source gives {text[:60]!r} with the expression {expression}, and the new text"
        " lacks it"
    )


def _sources(literal: Literal, value: str) -> str:
    return "".join(
        literal.slots[ord(character) - FIRST_MARK].source if is_mark(character) else character
        for character in value
    )


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|\s+|[^\w\s]", text)


def _offsets(words: list[str]) -> list[int]:
    offsets = [0]
    for word in words:
        offsets.append(offsets[-1] + len(word))
    return offsets


def _check_slots(literal: Literal, value: str) -> None:
    before = [number for _, number in parts_of(literal.value) if number >= 0]
    after = [number for _, number in parts_of(value) if number >= 0]
    positional = [
        [number for number in numbers if literal.slots[number].positional]
        for numbers in (before, after)
    ]
    if positional[0] != positional[1]:
        raise Inexpressible("its slots are filled by position, so none may be moved or left out")
    for number in set(after):
        slot = literal.slots[number]
        if not slot.simple and after.count(number) > before.count(number):
            raise Inexpressible(f"it would evaluate {slot.source} more than once")


def replacement(text: str, literal: Literal, value: str, read: Reader) -> Replacement:
    """The smallest edit that gives a literal another value.

    Args:
        text: The file's text.
        literal: A literal of it.
        value: Its new value, with marks.
        read: Reads the literals of a text.

    Raises:
        Inexpressible: There is none that reads back exactly and leaves the other literals as they
            are.
    """
    before = read(text)
    refusal = Inexpressible("no form of the literal reads back as this text")
    try:
        for source in _ways(text, literal, value):
            reread = _read_back(text, literal, source, before, read)
            if reread is not None and canonical(reread) == expected(literal, value):
                return Replacement(literal.span, source, canonical(reread))
    except Inexpressible as error:
        refusal = error
    raise refusal


def expected(literal: Literal, value: str) -> str:
    """The canonical text of a literal with another value."""
    pieces = [literal.placeholders]
    for text, number in parts_of(value):
        pieces.append(text)
        if number >= 0:
            pieces.append(f"\0{literal.slots[number].source}\0")
    return "".join(pieces)


def _ways(text: str, literal: Literal, value: str) -> Iterator[str]:
    refusal: Inexpressible | None = None
    try:
        source = smallest(text, literal, value)
        # Indentation that an empty line was given is taken back where it is no text.
        yield re.sub(r"\n[ \t]+(?=\r?\n)", "\n", source) if literal.raw_lines else source
        yield source
    except Inexpressible as error:
        refusal = error
    try:
        yield from _whole(literal, value)
    except Inexpressible as error:
        refusal = refusal or error
    if refusal is not None:
        raise refusal


def smallest(text: str, literal: Literal, value: str) -> str:
    """Source of a literal in which only the changed parts are rewritten."""
    old = literal.value
    starts, ends = literal.starts, literal.ends
    first, last = (starts[0], ends[-1]) if old else literal.body
    pieces = [text[literal.span[0] : first]]
    for same, a, b, c, d in _changes(old, value):
        if same:
            pieces.append(text[starts[a] : ends[b - 1]])
            continue
        for constant, number in parts_of(value[c:d]):
            if constant:
                at_end = d == len(value) and number < 0
                pieces.append(_encoded(literal, constant, at_end=at_end))
            if number >= 0:
                pieces.append(literal.slots[number].moved)
    pieces.append(text[last : literal.span[1]])
    return "".join(pieces)


def _encoded(literal: Literal, text: str, *, at_end: bool) -> str:
    if literal.placeholders:
        text = FORMS[literal.placeholders].escape(text)
    if literal.dedented:
        text = re.sub(r"\n(?=[^\n])", "\n" + literal.dedented, text)
        if text.endswith("\n") and not at_end:
            text += literal.dedented
    return literal.encoded(text, at_end=at_end)


def _whole(literal: Literal, value: str) -> Iterator[str]:
    """The whole literal rewritten, for forms whose text is in the source verbatim."""
    if literal.placeholders:
        form = FORMS[literal.placeholders]
        value = "".join(
            form.escape(text) + (literal.slots[number].source if number >= 0 else "")
            for text, number in parts_of(value)
        )
    if literal.dedented:
        value = re.sub(r"\n(?=[^\n])", "\n" + literal.dedented, value)
    if literal.crlf:
        value = value.replace("\n", "\r\n")
    yield from literal.style.whole(value)


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _changes(old: str, new: str) -> Iterator[tuple[bool, int, int, int, int]]:
    """Equal and changed ranges, by lines, and by words in lines that changed."""
    before, after = _lines(old), _lines(new)
    offsets = _offsets(before), _offsets(after)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        a, b, c, d = offsets[0][i1], offsets[0][i2], offsets[1][j1], offsets[1][j2]
        if tag == "equal":
            yield True, a, b, c, d
            continue
        yield from _inner_changes(old[a:b], new[c:d], a, c)


def _inner_changes(old: str, new: str, a: int, c: int) -> Iterator[tuple[bool, int, int, int, int]]:
    """Equal and changed ranges of changed lines, by words.

    Args:
        old: The old lines.
        new: The new ones.
        a: Where the old ones begin.
        c: Where the new ones begin.
    """
    old_words, new_words = _words(old), _words(new)
    olds, news = _offsets(old_words), _offsets(new_words)
    i = j = 0
    # Common words within lines that have little else in common are no sign that these are kept.
    blocks = difflib.SequenceMatcher(None, old_words, new_words).get_matching_blocks()
    for block in blocks:
        x, y = olds[block.a], news[block.b]
        size = olds[block.a + block.size] - x
        at_an_end = (x, y) == (0, 0) or (x + size, y + size) == (len(old), len(new))
        if size < _KEPT and not at_an_end:
            continue
        if x > i or y > j:
            yield False, a + i, a + x, c + j, c + y
        if size:
            yield True, a + x, a + x + size, c + y, c + y + size
        i, j = x + size, y + size
    if i < len(old) or j < len(new):
        yield False, a + i, a + len(old), c + j, c + len(new)


def _read_back(
    text: str, literal: Literal, source: str, before: tuple[list[Literal], int], read: Reader
) -> Literal | None:
    """The literal as it is in the edited text; None if anything else changed."""
    start, end = literal.span
    edited = text[:start] + source + text[end:]
    literals, broken = read(edited)
    if broken != before[1]:
        return None
    stop, shift = start + len(source), len(source) - (end - start)
    outside_before = [_outside(old_literal, start, end, shift) for old_literal in before[0]]
    after = [_outside(edited_literal, start, stop, 0) for edited_literal in literals]
    if [place for place in outside_before if place] != [place for place in after if place]:
        return None
    for edited_literal in literals:
        if (
            edited_literal.span[0] == start
            and edited_literal.span[1] <= stop
            and not edited[edited_literal.span[1] : stop].strip()
        ):
            return same_form(edited_literal, literal)
    return None


def _outside(literal: Literal, start: int, end: int, shift: int) -> tuple[int, int, str] | None:
    """Place and text of a literal outside of a range, as it is after the edit."""
    if literal.span[1] <= start:
        return (*literal.span, canonical(literal))
    if literal.span[0] >= end:
        return literal.span[0] + shift, literal.span[1] + shift, canonical(literal)
    return None


def same_form(literal: Literal, like: Literal) -> Literal | None:
    """A literal read like another one: without its indentation, with its placeholders."""
    formed: Literal | None = literal
    if like.dedented:
        formed = dedented(literal)
    if formed is not None and like.placeholders:
        formed = as_form(formed, like.placeholders, needed=False)
    return formed
