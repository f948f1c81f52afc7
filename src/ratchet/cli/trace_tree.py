"""A trace as a tree of lines: who called what, folded where the same comes again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ratchet.types import Span

SHOWN = 5
"""Steps of the same name under one parent that are shown one by one."""

FAILED = 3
"""Further ones that are shown since they failed."""

MAX_DEPTH = 40
"""Levels that are shown."""

MAX_LINES = 500
"""Lines that are shown."""


class TreeLine(NamedTuple):
    """One line of a tree: a span, or a word about spans that are folded."""

    depth: int
    last: tuple[bool, ...]
    """For each level whether it is the last of its siblings; what the branches are drawn by."""
    span: Span | None
    note: str = ""
    """Of a span what is unusual about it; of a fold what is in it."""


class SpanForest(NamedTuple):
    """Who called whom, whatever the parents say."""

    spans: Sequence[Span]
    roots: list[int]
    """Indexes in `spans`."""
    children: list[list[int]]
    """By index."""
    notes: dict[int, str]


def forest(spans: Sequence[Span]) -> SpanForest:
    """Put spans under their parents.

    A span whose parent is unknown is a root, and so is the first of those that are each other's
    parents. Of several with the same id the first one has the children.

    Args:
        spans: In the order they started.
    """
    indexes: dict[tuple[str, str], int] = {}
    notes: dict[int, str] = {}
    for index, span in enumerate(spans):
        if indexes.setdefault((span.trace_id, span.span_id), index) != index:
            notes[index] = "its id is there twice"
    children: list[list[int]] = [[] for _ in spans]
    parents: list[int] = []
    roots: list[int] = []
    for index, span in enumerate(spans):
        parent = -1
        if span.parent_id is not None:
            parent = indexes.get((span.trace_id, span.parent_id), -1)
            if parent == index:
                parent, notes[index] = -1, "it is its own parent"
            elif parent < 0:
                notes[index] = "its parent is not here"
        parents.append(parent)
        (roots if parent < 0 else children[parent]).append(index)
    _cut_rings(parents, roots, children, notes)
    # Clocks of some languages know milliseconds: of those that begin at once the shorter is first.
    for siblings in children:
        siblings.sort(key=lambda index: (spans[index].start_ns, spans[index].end_ns))
    return SpanForest(spans, roots, children, notes)


def _cut_rings(
    parents: list[int], roots: list[int], children: list[list[int]], notes: dict[int, str]
) -> None:
    """Make a root of the first of those that are each other's parents."""
    reached = bytearray(len(parents))
    stack = list(roots)
    at = 0
    while True:
        while stack:
            index = stack.pop()
            if not reached[index]:
                reached[index] = 1
                stack += children[index]
        while at < len(parents) and reached[at]:
            at += 1
        if at == len(parents):
            return
        children[parents[at]].remove(at)
        notes[at] = "it is below itself"
        roots.append(at)
        stack.append(at)


def tree_lines(
    trees: SpanForest, *, folded: bool = True, most: int = MAX_LINES, deepest: int = MAX_DEPTH
) -> Iterator[TreeLine]:
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
            yield TreeLine(len(stack) - 1, last, None, what)
            continue
        if folded and shown >= most:
            yield TreeLine(
                0, (True,), None, f"… {len(spans) - shown} more steps, some of them folded"
            )
            return
        shown += 1
        yield TreeLine(len(stack) - 1, last, spans[what], notes.get(what, ""))
        below = trees.children[what]
        if not below:
            continue
        if folded and len(stack) >= deepest:
            number = _below(trees, what)
            yield TreeLine(len(stack), (*last, True), None, f"… {number} more steps below")
            continue
        stack.append((_entries(trees, below, folded), last))


def _entries(
    trees: SpanForest, indexes: list[int], folded: bool
) -> Iterator[tuple[int | str, bool]]:
    """Indexes and words about folds, in order, each with whether it is the last one."""
    found = list(_folded(trees, indexes) if folded else indexes)
    for number, what in enumerate(found):
        yield what, number == len(found) - 1


def _folded(trees: SpanForest, indexes: list[int]) -> Iterator[int | str]:
    spans = trees.spans
    counts: dict[str, int] = {}
    for index in indexes:
        counts[spans[index].name] = counts.get(spans[index].name, 0) + 1
    shown: dict[str, int] = {}
    failed: dict[str, int] = {}
    folds: dict[str, list[int]] = {}
    left = dict(counts)
    for index in indexes:
        span = spans[index]
        name = span.name
        left[name] -= 1
        if counts[name] <= SHOWN + 1 or shown.get(name, 0) < SHOWN:
            shown[name] = shown.get(name, 0) + 1
            yield index
        elif span.status == "error" and failed.get(name, 0) < FAILED:
            failed[name] = failed.get(name, 0) + 1
            yield index
        else:
            folds.setdefault(name, []).append(index)
        if not left[name] and name in folds:
            yield _fold(trees, name, folds.pop(name))


def _fold(trees: SpanForest, name: str, indexes: list[int]) -> str:
    spans = [trees.spans[index] for index in indexes]
    seconds = sum(max(0, span.end_ns - span.start_ns) for span in spans) / 1e9
    errors = sum(span.status == "error" for span in spans)
    below = sum(_below(trees, index) for index in indexes)
    said = f"… {len(indexes)} more {name}, {seconds:.2f} s together"
    if errors:
        said += f", {errors} failed"
    return said + (f", {below} steps below them" if below else "")


def _below(trees: SpanForest, index: int) -> int:
    """How many stand under one."""
    number = 0
    stack = list(trees.children[index])
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
