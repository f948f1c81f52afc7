"""Multiple alignment of texts from one template: their constant parts and their slots.

Anchors are runs of tokens that occur exactly once in every text, in the same order in all (patience
diff, generalised to many texts): first long runs, then shorter ones between them.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_TOKEN = re.compile(
    # Dates, times, numbers, addresses and paths are one token each, so that a slot covers them
    # whole; a sentence that begins right after a full stop is not part of one.
    r"\w+(?:(?:[-/@+](?=\w)|\.(?=\w)(?![A-Z][a-z])|(?<=\d)[:,](?=\d))\w+)*|[^\S\n]+|\n|[^\w\s]"
)
_SIZES = (8, 4, 2, 1, 1)
"""Tokens per anchor, by level; text between two anchors is searched at the next level."""

MAX_SLOTS = 40

_DATE_WORD = re.compile(
    r"(?i)\d.*|jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?"
    r"|oct(ober)?|nov(ember)?|dec(ember)?|mon(day)?|tue(sday)?|wed(nesday)?|thu(rsday)?|fri(day)?"
    r"|sat(urday)?|sun(day)?|am|pm|utc|gmt|st|nd|rd|th|t|z"
)
_LINKS = frozenset({"at", "of", "the", "on"})
"""Words that connect parts of a date."""

_DATE_MARKS = frozenset(",-/.")
_LINE_END = frozenset("\n")
_BRACKETS = frozenset("\"'`<>()[]{}|")


class _Run(NamedTuple):
    """A run of tokens common to all texts."""

    starts: tuple[int, ...]
    """Start in each text."""
    size: int


class _Gap(NamedTuple):
    """In each text, the range between two runs."""

    starts: tuple[int, ...]
    stops: tuple[int, ...]


def align(texts: Sequence[str]) -> list[str]:
    """Return the constant text before, between and after the slots of the template of these texts.

    Args:
        texts: At least one, made from one template.

    Returns:
        The pieces; a single one when all texts are the same.
    """
    tokens = [_TOKEN.findall(text) for text in texts]
    full_gap = _Gap((0,) * len(texts), tuple(len(text_tokens) for text_tokens in tokens))
    runs = _joined(list(_runs(tokens, full_gap, 0)))
    first = tokens[0]
    # Empty runs at both ends, since texts may differ before the first run and after the last one.
    if not runs or any(runs[0].starts):
        runs.insert(0, _Run(full_gap.starts, 0))
    last = runs[-1]
    if any(
        start + last.size < stop for start, stop in zip(last.starts, full_gap.stops, strict=True)
    ):
        runs.append(_Run(full_gap.stops, 0))
    islands = [list(first[run.starts[0] : run.starts[0] + run.size]) for run in runs]
    gaps = [
        {
            "".join(t[a + left.size : b])
            for t, a, b in zip(tokens, left.starts, right.starts, strict=True)
        }
        for left, right in itertools.pairwise(runs)
    ]
    return _pieces(islands, gaps, len(texts))


def _runs(tokens: Sequence[list[str]], gap: _Gap, level: int) -> Iterator[_Run]:
    """Runs of tokens common to all texts in a gap, in order."""
    starts, stops = gap
    head = _common(tokens, starts, stops, forward=True)
    if head:
        yield _Run(starts, head)
        starts = tuple(start + head for start in starts)
    tail = _common(tokens, starts, stops, forward=False)
    inner = _Gap(starts, tuple(stop - tail for stop in stops))
    if level < len(_SIZES) and all(a < b for a, b in zip(*inner, strict=True)):
        at = inner.starts
        size = _SIZES[level]
        for anchor in _anchors(tokens, inner, size):
            if any(a < b for a, b in zip(anchor, at, strict=True)):
                continue  # overlaps the previous run, which will be extended over it
            yield from _runs(tokens, _Gap(at, anchor), level + 1)
            yield _Run(anchor, size)
            at = tuple(a + size for a in anchor)
        yield from _runs(tokens, _Gap(at, inner.stops), level + 1)
    if tail:
        yield _Run(inner.stops, tail)


def _common(
    tokens: Sequence[list[str]], starts: Sequence[int], stops: Sequence[int], *, forward: bool
) -> int:
    """Number of tokens that all texts have in common at the start, or at the end."""
    room = min(stop - start for start, stop in zip(starts, stops, strict=True))
    first, at, end = tokens[0], starts[0], stops[0]
    for count in range(room):
        if forward:
            token = first[at + count]
            same = all(t[s + count] == token for t, s in zip(tokens, starts, strict=True))
        else:
            token = first[end - 1 - count]
            same = all(t[s - 1 - count] == token for t, s in zip(tokens, stops, strict=True))
        if not same:
            return count
    return room


def _anchors(tokens: Sequence[list[str]], gap: _Gap, size: int) -> list[tuple[int, ...]]:
    """Starts of the runs of this size that occur once in every text, in the same order in all."""
    places = {
        run: [at]
        for run, at in _once(tokens[0], gap, 0, size).items()
        if any(map(_is_distinctive, run))
    }
    for number in range(1, len(tokens)):
        if not places:
            return []
        starts = _once(tokens[number], gap, number, size)
        shared = [run for run in places if run in starts]
        for run in shared:
            places[run].append(starts[run])
        places = {run: places[run] for run in shared}
    rows = sorted(map(tuple, places.values()))
    for column in range(1, len(tokens)):
        rows = _rising(rows, column)
    return rows


def _once(tokens: list[str], gap: _Gap, number: int, size: int) -> dict[tuple[str, ...], int]:
    """Start of each run of tokens that occurs exactly once in a text's gap."""
    begin, end = gap.starts[number], gap.stops[number]
    starts: dict[tuple[str, ...], int] = {}
    columns = [tokens[begin + shift : end] for shift in range(size)]
    for at, run in enumerate(zip(*columns, strict=False), start=begin):
        starts[run] = -1 if run in starts else at
    return {run: at for run, at in starts.items() if at >= 0}


def _is_distinctive(word: str) -> bool:
    return word in _LINE_END or word[0].isalnum()


def _rising(rows: list[tuple[int, ...]], column: int) -> list[tuple[int, ...]]:
    """The longest subsequence of rows that increases in a column."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, row in enumerate(rows):
        at = bisect_left(tails, row[column])
        before.append(ends[at - 1] if at else -1)
        tails[at : at + 1] = [row[column]]
        ends[at : at + 1] = [number]
    chain: list[tuple[int, ...]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        chain.append(rows[number])
        number = before[number]
    return chain[::-1]


def _joined(runs: Sequence[_Run]) -> list[_Run]:
    """Merge runs that are adjacent in every text."""
    joined: list[_Run] = []
    for run in runs:
        if joined and all(
            a + joined[-1].size == b for a, b in zip(joined[-1].starts, run.starts, strict=True)
        ):
            joined[-1] = _Run(joined[-1].starts, joined[-1].size + run.size)
        else:
            joined.append(run)
    return joined


def _pieces(islands: list[list[str]], gaps: list[set[str]], count: int) -> list[str]:
    """The constant pieces, without those that are coincidental or part of a slot."""
    dated = [all(map(_is_date_like, gap)) for gap in gaps]
    remaining = islands[:1]
    kept_dated: list[bool] = []
    for number, gap_is_dated in enumerate(dated):
        island = islands[number + 1]
        inner = number + 1 < len(islands) - 1
        joins_dates = inner and gap_is_dated and dated[number + 1] and _is_date_part(island)
        if inner and (joins_dates or not _separates_slots(island, count)):
            # The gap continues: the next one is part of the same slot.
            dated[number + 1] = gap_is_dated and dated[number + 1]
            continue
        remaining.append(island)
        kept_dated.append(gap_is_dated)
    for number, gap_is_dated in enumerate(kept_dated):
        if gap_is_dated:
            remaining[number] = remaining[number][
                : len(remaining[number]) - _date_tail(remaining[number][::-1])
            ]
            remaining[number + 1] = remaining[number + 1][_date_tail(remaining[number + 1]) :]
    while len(remaining) - 1 > MAX_SLOTS:
        shortest = min(range(1, len(remaining) - 1), key=lambda n: sum(map(len, remaining[n])))
        del remaining[shortest]
    inner_pieces = ["".join(island) for island in remaining[1:-1]]
    ends = (
        ["".join(remaining[0]), "".join(remaining[-1])]
        if len(remaining) > 1
        else ["".join(remaining[0])]
    )
    return [ends[0], *(piece for piece in inner_pieces if piece), *ends[1:]]


def _separates_slots(island: Sequence[str], count: int) -> bool:
    """Whether common text between two slots is more than a coincidence of few texts."""
    words = sum(token[0].isalnum() for token in island)
    if not words:
        # Brackets and quotes separate slots; spaces, commas and line ends occur within slots too.
        return not _BRACKETS.isdisjoint(island) and count >= 3
    text = "".join(island)
    labelled = "\n" in text and (text.rstrip(" ").endswith((":", "\n")) or "<" in text)
    if labelled or count >= 10:
        return True
    # The beginning or end of a line counts as a word.
    return words + ("\n" in text) >= (3 if count <= 4 else 2)


def _is_date_like(value: str) -> bool:
    words = re.findall(r"[^\W_]+", value)
    return bool(words) and len(value) <= 40 and all(map(_is_date_word, words))


def _is_date_word(word: str) -> bool:
    return _DATE_WORD.fullmatch(word) is not None


def _is_date_part(island: Sequence[str]) -> bool:
    return "\n" not in island and all(
        not token[0].isalnum() or _is_date_word(token) or token.lower() in _LINKS
        for token in island
    )


def _date_tail(island: Sequence[str]) -> int:
    """Number of tokens next to a date that belong to it."""
    tail_size = 0
    for number, token in enumerate(island):
        if token[0].isalnum() and _is_date_word(token):
            tail_size = number + 1
        elif token in _LINE_END or not (token.isspace() or token in _DATE_MARKS):
            break
    return tail_size
