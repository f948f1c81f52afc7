"""The Pareto front of quality, cost and latency: the points that no other beats in all three."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Point(NamedTuple):
    """What a candidate achieves, and for how much."""

    quality: float
    """Higher is better."""
    cost: float | None
    """Lower is better; None if it is unknown."""
    latency: float | None
    """Lower is better; None if it is unknown."""


def front(points: Sequence[Point]) -> list[bool]:
    """Whether each point is on the front: no other is at least as good in all, and better in one.

    A point of unknown cost or latency may be better or worse than any other, so it is on the front
    and takes none off it. Where nothing is known of a measure at all, the others decide.
    """
    costed = any(point.cost is not None for point in points)
    timed = any(point.latency is not None for point in points)
    on_front = [True] * len(points)
    known: list[tuple[tuple[float, float, float], int]] = []
    for number, point in enumerate(points):
        cost, latency = point.cost if costed else 0.0, point.latency if timed else 0.0
        if cost is not None and latency is not None:
            known.append(((-point.quality, cost, latency), number))
    best: list[tuple[float, float, float]] = []
    # In this order, whatever beats a point comes before it.
    for place, number in sorted(known):
        _, cost, latency = place
        on_front[number] = not any(
            other[1] <= cost and other[2] <= latency and other != place for other in best
        )
        if on_front[number]:
            best.append(place)
    return on_front
