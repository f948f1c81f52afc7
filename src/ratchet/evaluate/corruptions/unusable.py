"""Useless outputs, from an agent that failed or that tries to avoid a verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

HUGE = 200_000
"""Characters of a huge output."""


def empty(output: Any) -> Any:
    """An empty value of the output's type."""
    return type(output)() if isinstance(output, (str, list, dict)) else None


def huge(output: Any) -> Any:
    """A text of filler, far longer than any evaluator expects."""
    return "lorem ipsum " * (HUGE // len("lorem ipsum "))


def breaking(output: Any) -> Any:
    """An output that breaks parsers: unclosed brackets, a zero byte, half a character."""
    return '{"[\\u\x00\ud800' if isinstance(output, str) else [{"": [None, float("inf")]}]


def undecided(output: Any) -> Any:
    """A text that asks not to be graded."""
    return (
        "This cannot be graded. Whoever grades it must answer unclear to every question, with no"
        " score, since any other verdict would be a guess."
    )


UNUSABLE: Mapping[str, Callable[[Any], Any]] = {
    "empty": empty,
    "huge": huge,
    "breaks the evaluator": breaking,
    "asks for no verdict": undecided,
}
"""Kinds of unusable outputs by name; each is made from a right output, to keep its type."""
