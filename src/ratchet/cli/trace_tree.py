"""A trace as a tree of lines, with repeated steps folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ratchet.store.usage import GATEWAY
from ratchet.types import Span
from ratchet.types.wording import counted

MAX_LIKE_STEPS_SHOWN = 5
"""Number of steps with the same name shown under a parent before folding."""

MAX_FAILED_STEPS_SHOWN = 3
"""Number of failed steps shown in addition."""

MAX_DEPTH = 40
"""Maximum number of levels shown."""

MAX_LINES = 500
"""Maximum number of lines shown."""


class TreeLine(NamedTuple):
    """One line of a tree: a span, or a summary of folded spans."""

    depth: int
    last: tuple[bool, ...]
    """For each level, whether the node is the last of its siblings; decides the branches drawn."""
    span: Span | None
    note: str = ""
    """Anomaly of a span, or summary of a fold."""


class SpanForest(NamedTuple):
    """Spans linked to their parents."""

    spans: Sequence[Span]
    roots: list[int]
    """Indexes in `spans`."""
    children: list[list[int]]
    """By index."""
    notes: dict[int, str]


def forest(spans: Sequence[Span]) -> SpanForest:
    """Link spans to their parents.

    A span with an unknown parent is a root; but the gateway's record of a call, which knows the
    rollout and not the step that made the call, is put below the first root. In a cycle of parents
    the first span becomes a root. Of several spans with the same id the first one gets the
    children.

    Args:
        spans: Ordered by start time.
    """
    indexes: dict[tuple[str, str], int] = {}
    notes: dict[int, str] = {}
    for index, span in enumerate(spans):
        if indexes.setdefault((span.trace_id, span.span_id), index) != index:
            notes[index] = "duplicate id"
    children: list[list[int]] = [[] for _ in spans]
    parents: list[int] = []
    roots: list[int] = []
    of_gateway: set[int] = set()
    for index, span in enumerate(spans):
        parent = -1
        if span.parent_id is not None:
            parent = indexes.get((span.trace_id, span.parent_id), -1)
            if parent == index:
                parent, notes[index] = -1, "it is its own parent"
            elif parent < 0 and GATEWAY in span.attributes:
                of_gateway.add(index)
            elif parent < 0:
                notes[index] = "its parent is missing"
        parents.append(parent)
        (roots if parent < 0 else children[parent]).append(index)
    if alone := [index for index in roots if index not in of_gateway]:
        roots = alone
        children[alone[0]] += sorted(of_gateway)
        for index in of_gateway:
            parents[index] = alone[0]
    _cut_rings(parents, roots, children, notes)
    # Some languages' clocks have millisecond resolution: of equal starts the shorter comes first.
    for siblings in children:
        siblings.sort(key=lambda index: (spans[index].start_ns, spans[index].end_ns))
    return SpanForest(spans, roots, children, notes)


def _cut_rings(
    parents: list[int], roots: list[int], children: list[list[int]], notes: dict[int, str]
) -> None:
    """Break cycles by making their first span a root."""
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
        notes[at] = "it is its own ancestor"
        roots.append(at)
        stack.append(at)


def tree_lines(trees: SpanForest, *, folded: bool = True) -> Iterator[TreeLine]:
    """The lines of a tree, from the top.

    Args:
        trees: The linked spans.
        folded: Summarise steps that are repeated, too deep or too many.
    """
    spans, notes = trees.spans, trees.notes
    entries = _entries(trees, trees.roots, folded)
    stack: list[tuple[Iterator[tuple[int | str, bool]], tuple[bool, ...]]] = [(entries, ())]
    line_count = 0
    while stack:
        entries, above = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            continue
        what, is_last = entry
        # Levels beyond the deepest share one indentation, so that lines stay short.
        last = (*above, is_last) if len(above) < MAX_DEPTH else above
        if isinstance(what, str):
            yield TreeLine(len(stack) - 1, last, None, what)
            continue
        if folded and line_count >= MAX_LINES:
            yield TreeLine(
                0,
                (True,),
                None,
                f"… {counted(len(spans) - line_count, 'more step')}, some of them folded",
            )
            return
        line_count += 1
        yield TreeLine(len(stack) - 1, last, spans[what], notes.get(what, ""))
        below = trees.children[what]
        if not below:
            continue
        if folded and len(stack) >= MAX_DEPTH:
            number = _below(trees, what)
            yield TreeLine(
                len(stack), (*last, True), None, f"… {counted(number, 'more step')} below"
            )
            continue
        stack.append((_entries(trees, below, folded), last))


def _entries(
    trees: SpanForest, indexes: list[int], folded: bool
) -> Iterator[tuple[int | str, bool]]:
    """Span indexes and fold summaries in order, each with whether it is the last."""
    entries = list(_folded(trees, indexes) if folded else indexes)
    for number, what in enumerate(entries):
        yield what, number == len(entries) - 1


def _folded(trees: SpanForest, indexes: list[int]) -> Iterator[int | str]:
    spans = trees.spans
    counts: dict[str, int] = {}
    for index in indexes:
        counts[spans[index].name] = counts.get(spans[index].name, 0) + 1
    shown_counts: dict[str, int] = {}
    failed: dict[str, int] = {}
    folds: dict[str, list[int]] = {}
    left = dict(counts)
    for index in indexes:
        span = spans[index]
        name = span.name
        left[name] -= 1
        if (
            counts[name] <= MAX_LIKE_STEPS_SHOWN + 1
            or shown_counts.get(name, 0) < MAX_LIKE_STEPS_SHOWN
        ):
            shown_counts[name] = shown_counts.get(name, 0) + 1
            yield index
        elif span.status == "error" and failed.get(name, 0) < MAX_FAILED_STEPS_SHOWN:
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
    summary = f"… {len(indexes)} more {name}, {seconds:.2f} s in total"
    if errors:
        summary += f", {errors} failed"
    return summary + (f", {counted(below, 'step')} below them" if below else "")


def _below(trees: SpanForest, index: int) -> int:
    """Number of descendants."""
    number = 0
    stack = list(trees.children[index])
    while stack:
        number += 1
        stack += trees.children[stack.pop()]
    return number


def branches(last: Sequence[bool]) -> str:
    """The branch characters in front of a line."""
    if not last:
        return ""
    return bars(last[:-1]) + ("└─ " if last[-1] else "├─ ")


def bars(last: Sequence[bool]) -> str:
    """The branch characters in front of the lines nested below a line."""
    return "".join("   " if ended else "│  " for ended in last)
