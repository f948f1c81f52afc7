"""What changes in a text word by word, for prompts: a rewritten line is seldom rewritten whole."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from rich.text import Text

Op = Literal["same", "out", "in"]
Change = tuple[Op, str]

MOST_WORDS = 6_000
"""Words that differ, of both texts together, above which lines are compared instead."""

CONTEXT = 160
"""Characters of unchanged text that are shown on each side of a change."""

STYLES: dict[Op, str] = {"same": "", "out": "red strike", "in": "green underline"}
MARKS: dict[Op, tuple[str, str]] = {"same": ("", ""), "out": ("[-", "-]"), "in": ("{+", "+}")}


def word_changes(before: str, after: str) -> list[Change]:
    """The pieces of both texts in order; those that are `same` or `in` make up the second.

    Args:
        before: The first text.
        after: The second.
    """
    pattern = r"\w+|\s+|[^\w\s]"
    one, other = re.findall(pattern, before), re.findall(pattern, after)
    head = _alike(one, other)
    tail = _alike(one[head:][::-1], other[head:][::-1])
    begin, end = "".join(one[:head]), "".join(one[len(one) - tail :])
    one, other = one[head : len(one) - tail], other[head : len(other) - tail]
    are_many = len(one) + len(other) > MOST_WORDS
    if are_many:
        one = "".join(one).splitlines(keepends=True)
        other = "".join(other).splitlines(keepends=True)
    # Lines that stand everywhere tell nothing in a long text, and would take minutes.
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=are_many)
    changes: list[Change] = [("same", begin)]
    for op, i, j, k, m in matcher.get_opcodes():
        if op == "equal":
            changes.append(("same", "".join(one[i:j])))
            continue
        changes.extend((("out", "".join(one[i:j])), ("in", "".join(other[k:m]))))
    changes.append(("same", end))
    return [change for change in _joined(changes) if change[1]]


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many of the first are the same."""
    for number, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return number
    return min(len(one), len(other))


def _joined(changes: Sequence[Change]) -> Iterator[Change]:
    """Changes with nothing but white space or a mark between them are one."""
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


def folded(changes: Sequence[Change], context: int = CONTEXT) -> list[Change]:
    """The same with long unchanged stretches cut in their middle."""
    shown: list[Change] = []
    for number, (op, text) in enumerate(changes):
        head = context if number else 0
        tail = context if number + 1 < len(changes) else 0
        if op == "same" and len(text) > head + tail + 40:
            left_out = len(text) - head - tail
            middle = f" […{left_out} characters as before…] "
            text = text[:head] + middle + (text[-tail:] if tail else "")
        shown.append((op, text))
    return shown


def colored(changes: Sequence[Change]) -> Text:
    """For a terminal."""
    text = Text()
    for op, piece in changes:
        text.append(piece, STYLES[op])
    return text


def marked(changes: Sequence[Change]) -> str:
    """For anything else: what went in [-…-], what came in {+…+}."""
    return "".join(f"{MARKS[op][0]}{piece}{MARKS[op][1]}" for op, piece in changes)
