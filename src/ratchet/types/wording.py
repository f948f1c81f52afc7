"""Phrases of messages: a count with its noun, and a size."""

from __future__ import annotations


def counted(number: float, noun: str) -> str:
    """A count with its noun: "1 candidate", "3 candidates", "2 queries"."""
    shown = f"{number:g}" if isinstance(number, float) else number
    if number == 1:
        return f"{shown} {noun}"
    if noun.endswith("query"):
        return f"{shown} {noun[:-1]}ies"
    return f"{shown} {noun}{'es' if noun.endswith('ch') else 's'}"


def size_text(count: int) -> str:
    """A number of bytes: "100 bytes", "1.5 KiB", "16 MiB"."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= factor:
            return f"{count / factor:.4g} {unit}"
    return counted(count, "byte")
