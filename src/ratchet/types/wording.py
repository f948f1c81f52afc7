"""Phrases of messages: a count with its noun."""

from __future__ import annotations


def counted(number: float, noun: str) -> str:
    """A count with its noun: "1 candidate", "3 candidates", "2 queries"."""
    shown = f"{number:g}" if isinstance(number, float) else number
    if number == 1:
        return f"{shown} {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("query") else f"{noun}s"
    return f"{shown} {plural}"
