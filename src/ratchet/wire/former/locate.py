"""Finds recorded pieces in a file that was edited since: by tokens, then by what is around."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ratchet.wire.former.record import RecordedPiece
from ratchet.wire.former.tokens import CLOSING, OPENING, TextToken, tokens_of

_NEAR = 12
"""Tokens of each side that are compared."""
_ENOUGH = 0.4
"""Share of a piece that must be left for it to count as edited, and not as gone."""
_SHORT = 3
"""Tokens below which a piece is found by what is around alone."""
_SEAM = 40
"""Characters of each side between which a removed text is put back."""
_COMMA = re.compile(r"\s*,")
_REST = re.compile(r"[ \t]*(?:\r?\n|\Z)")


class FoundPieces(NamedTuple):
    """Where pieces stand in a text, by their number; and those that were edited."""

    spans: dict[int, tuple[int, int]]
    """Positions of the text that each piece inserted."""
    edited: dict[int, tuple[int, int]]
    """Positions of what is there instead."""


class _Sought(NamedTuple):
    number: int
    tokens: list[str]
    before: list[str]
    """From the nearest on."""
    after: list[str]


def locate(text: str, path: str, pieces: Sequence[RecordedPiece]) -> FoundPieces:
    """Find pieces in a text; each position is taken once."""
    tokens = tokens_of(text, path)
    words = [token.text for token in tokens]
    sought = [_sought(number, piece, path) for number, piece in enumerate(pieces)]
    pairs = _pairs(sought)
    closing = set(pairs.values())
    found: dict[int, tuple[int, int]] = {}
    taken: set[int] = set()
    candidates = [
        (_likeness(words, at, one), -one.number, -at)
        for one in sought
        if one.number not in closing and one.tokens
        for at in _places(words, one.tokens)
    ]
    for likeness, minus_number, minus_at in sorted(candidates, reverse=True):
        one, at = sought[-minus_number], -minus_at
        span = range(at, at + len(one.tokens))
        if one.number in found or not taken.isdisjoint(span):
            continue
        if len(one.tokens) < _SHORT and likeness < _SHORT:
            continue  # it stands in many places; what is around must say which
        if one.number in pairs:
            closer = sought[pairs[one.number]]
            end = _closer(words, at + len(one.tokens), _depths(one.tokens)[1], closer.tokens)
            if end is None:
                continue
            found[closer.number] = (end, end + len(closer.tokens) - 1)
            taken.update(range(end, end + len(closer.tokens)))
        found[one.number] = (at, span[-1])
        taken.update(span)
    spans = {}
    formatted = False
    for number, (first, last) in found.items():
        side = "open" if number in pairs else "close" if number in closing else ""
        exact = _exact_span(text, tokens[first].start, pieces[number])
        if side == "close" and "," in text[tokens[first - 1].end : tokens[first].start]:
            exact = None  # a formatter added it, as a comma before it is no token
        formatted |= exact is None
        spans[number] = exact or _span(text, tokens, first, last, pieces[number], side)
    if formatted:
        for number, (start, end) in spans.items():
            spans[number] = _with_blank_lines(text, start, end, pieces[number])
    edited = {}
    for one in sought:
        if not one.tokens:
            place = _gap(text, pieces[one.number])
            if place is not None:
                spans[one.number] = (place, place)
        elif one.number not in found and one.number not in closing:
            remains = _remains(words, one, taken)
            if remains is not None:
                edited[one.number] = (tokens[remains[0]].start, tokens[remains[1]].end)
    return FoundPieces(spans, edited)


def pairs_of(pieces: Sequence[RecordedPiece], path: str) -> dict[int, int]:
    """The piece that closes the brackets which another opens, by that one's number."""
    return _pairs([_sought(number, piece, path) for number, piece in enumerate(pieces)])


def _sought(number: int, piece: RecordedPiece, path: str) -> _Sought:
    before = [token.text for token in tokens_of(piece.before, path)]
    after = [token.text for token in tokens_of(piece.after, path)]
    inserted = [token.text for token in tokens_of(piece.inserted, path)]
    if len(inserted) > 1 and inserted[-1] == "," and not _depths(inserted)[1]:
        inserted.pop()  # a formatter drops it where a list ends
    return _Sought(number, inserted, before[::-1][:_NEAR], after[:_NEAR])


def _depths(words: Sequence[str]) -> tuple[int, int]:
    """Brackets that are closed without being opened, and opened without being closed."""
    closed = opened = 0
    for word in words:
        if word in OPENING:
            opened += 1
        elif word in CLOSING and opened:
            opened -= 1
        elif word in CLOSING:
            closed += 1
    return closed, opened


def _pairs(sought: Sequence[_Sought]) -> dict[int, int]:
    pairs: dict[int, int] = {}
    waiting: list[tuple[int, int]] = []
    for one in sought:
        closed, opened = _depths(one.tokens)
        if opened and not closed:
            waiting.append((one.number, opened))
        elif closed and not opened and waiting and waiting[-1][1] == closed:
            pairs[waiting.pop()[0]] = one.number
    return pairs


def _closer(words: list[str], at: int, depth: int, closer: list[str]) -> int | None:
    """Where the tokens stand that close what is open at a token; None if others do."""
    # The last bracket of the closing piece that closes something of the opening one.
    left, last = depth, -1
    for index, word in enumerate(closer):
        left += (word in OPENING) - (word in CLOSING)
        if left == 0 and last < 0:
            last = index
    for index in range(at, len(words)):
        depth += (words[index] in OPENING) - (words[index] in CLOSING)
        if depth == 0:
            start = index - last
            fits = start >= at and words[start : start + len(closer)] == closer
            return start if fits else None
    return None


def _places(words: list[str], wanted: list[str]) -> Iterator[int]:
    size = len(wanted)
    for at in range(len(words) - size + 1):
        if words[at] == wanted[0] and words[at : at + size] == wanted:
            yield at


def _likeness(words: list[str], at: int, one: _Sought) -> int:
    """How much of what stood around a piece stands around a place."""
    left = words[max(0, at - _NEAR) : at][::-1]
    end = at + len(one.tokens)
    return _common(left, one.before) + _common(words[end : end + _NEAR], one.after)


def _common(there: list[str], wanted: list[str]) -> int:
    """Tokens in common; those next to the place count twice."""
    near = 0
    for one, other in zip(there, wanted, strict=False):
        if one != other:
            break
        near += 1
    matcher = difflib.SequenceMatcher(None, there, wanted, autojunk=False)
    return near + sum(block.size for block in matcher.get_matching_blocks())


def _exact_span(text: str, start: int, piece: RecordedPiece) -> tuple[int, int] | None:
    """Positions of a piece with its own white space, by its first token; None if it differs."""
    for written in dict.fromkeys((piece.inserted, *_line_ends(piece.inserted))):
        core = written.strip()
        lead = written[: len(written) - len(written.lstrip())]
        trail = written[len(written.rstrip()) :]
        stop = start + len(core)
        if (
            text.startswith(core, start)
            and text[max(0, start - len(lead)) : start] == lead
            and text.startswith(trail, stop)
        ):
            return start - len(lead), stop + len(trail)
    return None


def _span(
    text: str, tokens: list[TextToken], first: int, last: int, piece: RecordedPiece, side: str
) -> tuple[int, int]:
    """Positions of a piece whose white space is another now: what a formatter made."""
    start, end = tokens[first].start, tokens[last].end
    if piece.inserted.rstrip().endswith(",") and (comma := _COMMA.match(text, end)):
        end = comma.end()
    if side == "open":
        return start, tokens[last + 1].start if last + 1 < len(tokens) else end
    if side == "close":
        return (tokens[first - 1].end if first else start), end
    line = text.rfind("\n", 0, start) + 1
    rest = _REST.match(text, end)
    if "\n" in piece.inserted and not text[line:start].strip() and rest is not None:
        return line, rest.end()
    return start, end


def whole_lines(
    text: str, start: int, end: int, opener: RecordedPiece, closer: RecordedPiece
) -> tuple[int, int]:
    """A span from a piece to the one that closes it, with the white space that came with both."""
    if any(text[:end].endswith(one) for one in (closer.inserted, *_line_ends(closer.inserted))):
        return start, end
    rest = _REST.match(text, end)
    around = RecordedPiece("\n", before=opener.before, after=closer.after)
    return _with_blank_lines(text, start, rest.end() if rest else end, around)


def _with_blank_lines(text: str, start: int, end: int, piece: RecordedPiece) -> tuple[int, int]:
    """A span of whole lines, and the blank lines that a formatter has put around it since."""
    if not _ends_line(text[:start]) or not _ends_line(text[:end]):
        return start, end
    above, below = text[:start], text[end:]
    there = _blank_after(above), _blank_before(below)
    more = sum(there) - _blank_after(piece.before) - _blank_before(piece.after)
    for _ in range(max(0, min(more, there[1]))):
        end = text.index("\n", end) + 1
    for _ in range(max(0, more - there[1])):
        start = text.rindex("\n", 0, start - 1) + 1
    return start, end


def _ends_line(text: str) -> bool:
    return not text or text.endswith("\n")


def _blank_after(text: str) -> int:
    """Blank lines at the end of a text."""
    return max(0, text[len(text.rstrip()) :].count("\n") - bool(text.strip()))


def _blank_before(text: str) -> int:
    """Blank lines at the beginning of a text."""
    return text[: len(text) - len(text.lstrip())].count("\n")


def _line_ends(text: str) -> tuple[str, str]:
    plain = text.replace("\r\n", "\n")
    return plain, plain.replace("\n", "\r\n")


def _gap(text: str, piece: RecordedPiece) -> int | None:
    """Where a text was removed; None if what is around is not there once."""
    left, right = piece.before[-_SEAM:], piece.after[:_SEAM]
    if not (left or right) or text.count(left + right) != 1:
        return None
    return text.index(left + right) + len(left)


def _remains(words: list[str], one: _Sought, taken: set[int]) -> tuple[int, int] | None:
    """First and last token of what is left of a piece; None if nothing is."""
    free = [None if index in taken else word for index, word in enumerate(words)]
    wanted: list[str | None] = list(one.tokens)
    enough = max(2, _ENOUGH * len(wanted))
    best: tuple[float, int, int] | None = None
    for start in range(len(free)):
        # What stands between the texts that stood around it.
        if one.before[:2] and words[max(0, start - 2) : start][::-1] != one.before[:2]:
            continue
        for end in range(start + 1, min(len(free), start + 2 * len(wanted) + 20) + 1):
            if one.after[:2] and words[end : end + 2] != one.after[:2]:
                continue
            between = difflib.SequenceMatcher(None, free[start:end], wanted, autojunk=False)
            if between.ratio() >= _ENOUGH and (best is None or between.ratio() > best[0]):
                best = (between.ratio(), start, end - 1)
    if best is not None:
        return best[1], best[2]
    match = difflib.SequenceMatcher(None, free, wanted, autojunk=False).find_longest_match()
    # Signs alone, such as `>=0.`, stand everywhere.
    telling = any(len(word) > _SHORT for word in words[match.a : match.a + match.size])
    return (match.a, match.a + match.size - 1) if match.size >= enough and telling else None
