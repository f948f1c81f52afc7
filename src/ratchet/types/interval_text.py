"""Intervals as text: a bound that is not zero is never printed as zero."""

from __future__ import annotations

BY_CONSTRUCTION = 1e-6
"""Distance from 0 up to which a bound counts as 0. Where a proof ends, the bound is 0 by
construction: the proof says that the value lies beyond it."""


def interval_ends(low: float, high: float, digits: int = 3) -> tuple[str, str]:
    """The bounds of an interval of a difference as text: `above 0` and `+0.530`.

    Args:
        low: The lower bound.
        high: The upper bound.
        digits: Digits after the point; a bound that they would round to 0 has as many as it takes.
    """
    at_zero = [abs(bound) <= BY_CONSTRUCTION for bound in (low, high)]
    if all(at_zero):
        return "0", "0"
    return (
        "above 0" if at_zero[0] else _signed(low, digits),
        "below 0" if at_zero[1] else _signed(high, digits),
    )


def interval_text(low: float, high: float, digits: int = 3) -> str:
    """An interval of a difference as text: `above 0, up to +0.530`, `-0.120 to +0.530`.

    Args:
        low: The lower bound.
        high: The upper bound.
        digits: As for `interval_ends`.
    """
    first, last = interval_ends(low, high, digits)
    if first == "above 0":
        return f"{first}, up to {last}"
    if last == "below 0":
        return f"{last}, down to {first}"
    return f"{first} to {last}"


def _signed(value: float, digits: int) -> str:
    text = f"{value:+.{digits}f}"
    return text if float(text) else f"{value:+.1g}"
