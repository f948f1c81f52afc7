"""A trace as a tree of lines: who called what, folded where the same comes again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ratchet.types import Span

SHOWN = 5
"""Steps of the same name under one parent that are shown one by one."""

FAILED = 3
"""Further ones that are shown since they failed."""

DEEPEST = 40
"""Levels that are shown."""

MOST = 500
"""Lines that are shown."""


class Line(NamedTuple):
    """One line of a tree: a span, or a word about spans that are folded."""

    depth: int
    last: tuple[bool, ...]
    """For each level whether it is the last of its siblings; what the branches are drawn by."""
    span: Span | None
    note: str = ""
    """Of a span what is unusual about it; of a fold what is in it."""


class Forest(NamedTuple):
    """Who called whom, whatever the parents say."""

    spans: Sequence[Span]
    roots: list[int]
    """Places in `spans`."""
    children: list[list[int]]
    """By place."""
    notes: dict[int, str]


def forest(spans: Sequence[Span]) -> Forest:
    """Put spans under their parents.

    A span whose parent is unknown is a root, and so is the first of those that are each other's
    parents. Of several with the same id the first one has the children.

    Args:
        spans: In the order they started.
    """
    places: dict[tuple[str, str], int] = {}
    notes: dict[int, str] = {}
    for place, span in enumerate(spans):
        if places.setdefault((span.trace_id, span.span_id), place) != place:
            notes[place] = "its id is there twice"
    children: list[list[int]] = [[] for _ in spans]
    parents: list[int] = []
    roots: list[int] = []
    for place, span in enumerate(spans):
        parent = -1
        if span.parent_id is not None:
            parent = places.get((span.trace_id, span.parent_id), -1)
            if parent == place:
                parent, notes[place] = -1, "it is its own parent"
            elif parent < 0:
                notes[place] = "its parent is not here"
        parents.append(parent)
        (roots if parent < 0 else children[parent]).append(place)
    _cut_rings(parents, roots, children, notes)
    # Clocks of some languages know milliseconds: of those that begin at once the shorter is first.
    for siblings in children:
        siblings.sort(key=lambda place: (spans[place].start_ns, spans[place].end_ns))
    return Forest(spans, roots, children, notes)


def _cut_rings(
    parents: list[int], roots: list[int], children: list[list[int]], notes: dict[int, str]
) -> None:
    """Make a root of the first of those that are each other's parents."""
    reached = bytearray(len(parents))
    stack = list(roots)
    at = 0
    while True:
        while stack:
            place = stack.pop()
            if not reached[place]:
                reached[place] = 1
                stack += children[place]
        while at < len(parents) and reached[at]:
            at += 1
        if at == len(parents):
            return
        children[parents[at]].remove(at)
        notes[at] = "it is below itself"
        roots.append(at)
        stack.append(at)


def lines(
    trees: Forest, *, folded: bool = True, most: int = MOST, deepest: int = DEEPEST
) -> Iterator[Line]:
    """The lines of a tree, from the top.

    Args:
        trees: Who called whom.
        folded: Whether what comes again and again, is deep or is much stands as a word about it.
        most: Lines at most, when folded.
        deepest: Levels at most, when folded.
    """
    spans, notes = trees.spans, trees.notes
    entries = _entries(trees, trees.roots, folded)
    stack: list[tuple[Iterator[tuple[int | str, bool]], tuple[bool, ...]]] = [(entries, ())]
    shown = 0
    while stack:
        entries, above = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            continue
        what, is_last = entry
        # Levels beyond the deepest are drawn alike: a line is not to be longer than its tree.
        last = (*above, is_last) if len(above) < deepest else above
        if isinstance(what, str):
            yield Line(len(stack) - 1, last, None, what)
            continue
        if folded and shown >= most:
            yield Line(0, (True,), None, f"… {len(spans) - shown} more steps, some of them folded")
            return
        shown += 1
        yield Line(len(stack) - 1, last, spans[what], notes.get(what, ""))
        below = trees.children[what]
        if not below:
            continue
        if folded and len(stack) >= deepest:
            number = _below(trees, what)
            yield Line(len(stack), (*last, True), None, f"… {number} more steps below")
            continue
        stack.append((_entries(trees, below, folded), last))


def _entries(trees: Forest, places: list[int], folded: bool) -> Iterator[tuple[int | str, bool]]:
    """Places and words about folds, in order, each with whether it is the last one."""
    found = list(_folded(trees, places) if folded else places)
    for number, what in enumerate(found):
        yield what, number == len(found) - 1


def _folded(trees: Forest, places: list[int]) -> Iterator[int | str]:
    spans = trees.spans
    counts: dict[str, int] = {}
    for place in places:
        counts[spans[place].name] = counts.get(spans[place].name, 0) + 1
    shown: dict[str, int] = {}
    failed: dict[str, int] = {}
    folds: dict[str, list[int]] = {}
    left = dict(counts)
    for place in places:
        span = spans[place]
        name = span.name
        left[name] -= 1
        if counts[name] <= SHOWN + 1 or shown.get(name, 0) < SHOWN:
            shown[name] = shown.get(name, 0) + 1
            yield place
        elif span.status == "error" and failed.get(name, 0) < FAILED:
            failed[name] = failed.get(name, 0) + 1
            yield place
        else:
            folds.setdefault(name, []).append(place)
        if not left[name] and name in folds:
            yield _fold(trees, name, folds.pop(name))


def _fold(trees: Forest, name: str, places: list[int]) -> str:
    spans = [trees.spans[place] for place in places]
    seconds = sum(max(0, span.end_ns - span.start_ns) for span in spans) / 1e9
    errors = sum(span.status == "error" for span in spans)
    below = sum(_below(trees, place) for place in places)
    said = f"… {len(places)} more {name}, {seconds:.2f} s together"
    if errors:
        said += f", {errors} failed"
    return said + (f", {below} steps below them" if below else "")


def _below(trees: Forest, place: int) -> int:
    """How many stand under one."""
    number = 0
    stack = list(trees.children[place])
    while stack:
        number += 1
        stack += trees.children[stack.pop()]
    return number


def branches(last: Sequence[bool]) -> str:
    """The branches that lead to a line."""
    if not last:
        return ""
    return bars(last[:-1]) + ("└─ " if last[-1] else "├─ ")


def bars(last: Sequence[bool]) -> str:
    """The branches that pass by what stands below a line."""
    return "".join("   " if ended else "│  " for ended in last)
