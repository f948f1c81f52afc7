"""Phrases of messages: a count with its noun."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A count with its noun: "1 candidate", "3 candidates"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
