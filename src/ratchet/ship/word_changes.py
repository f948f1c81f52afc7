"""Differences between two texts, word by word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from ratchet.types.wording import counted

ChangeOp = Literal["same", "out", "in"]
WordChange = tuple[ChangeOp, str]

MAX_WORDS = 6_000
"""Maximum number of differing words in both texts; if there are more, lines are compared."""

CONTEXT = 160
"""Characters of unchanged text shown on each side of a change."""


def word_changes(before: str, after: str) -> list[WordChange]:
    """Split two texts into pieces in order; those that are `same` or `in` make up the second text.

    Args:
        before: The first text.
        after: The second.
    """
    pattern = r"\w+|\s+|[^\w\s]"
    old, new = re.findall(pattern, before), re.findall(pattern, after)
    head = _common_prefix(old, new)
    tail = _common_prefix(old[head:][::-1], new[head:][::-1])
    begin, end = "".join(old[:head]), "".join(old[len(old) - tail :])
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    are_many = len(old) + len(new) > MAX_WORDS
    if are_many:
        old = "".join(old).splitlines(keepends=True)
        new = "".join(new).splitlines(keepends=True)
    # Common lines carry no information in a long text, and would take minutes to match.
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=are_many)
    changes: list[WordChange] = [("same", begin)]
    for op, i, j, k, m in matcher.get_opcodes():
        if op == "equal":
            changes.append(("same", "".join(old[i:j])))
            continue
        changes.extend((("out", "".join(old[i:j])), ("in", "".join(new[k:m]))))
    changes.append(("same", end))
    return [change for change in _joined(changes) if change[1]]


def _common_prefix(left_parts: Sequence[str], right_parts: Sequence[str]) -> int:
    """Length of the common prefix."""
    for number, (left, right) in enumerate(zip(left_parts, right_parts, strict=False)):
        if left != right:
            return number
    return min(len(left_parts), len(right_parts))


def _joined(changes: Sequence[WordChange]) -> Iterator[WordChange]:
    """Merge changes with only white space or a punctuation mark between them."""
    gone, new = "", ""
    for number, (op, text) in enumerate(changes):
        is_gap = op == "same" and (gone or new) and not re.search(r"\w", text)
        if is_gap and len(text) <= 2 and number + 1 < len(changes):
            gone, new = gone + text, new + text
        elif op == "same":
            yield ("out", gone)
            yield ("in", new)
            yield ("same", text)
            gone, new = "", ""
        elif op == "out":
            gone += text
        else:
            new += text
    yield ("out", gone)
    yield ("in", new)


def folded(changes: Sequence[WordChange], context: int = CONTEXT) -> list[WordChange]:
    """Shorten long unchanged stretches by cutting their middle."""
    pieces: list[WordChange] = []
    for number, (op, text) in enumerate(changes):
        head = context if number else 0
        tail = context if number + 1 < len(changes) else 0
        if op == "same" and len(text) > head + tail + 40:
            left_out = len(text) - head - tail
            middle = f" […{counted(left_out, 'unchanged character')}…] "
            text = text[:head] + middle + (text[-tail:] if tail else "")
        pieces.append((op, text))
    return pieces
