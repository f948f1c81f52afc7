"""The front equals what a comparison of every pair says, with ties and unknown numbers."""

from __future__ import annotations

import random

from ratchet.stats.front import Point, front


def beats(first: Point, second: Point) -> bool:
    """By the definition, for points of which everything is known."""
    burdens = list(zip(first[1:], second[1:], strict=True))
    at_least = first.quality >= second.quality and all(mine <= other for mine, other in burdens)
    return at_least and first != second


def by_every_pair(points: list[Point]) -> list[bool]:
    cost_known = any(point.cost is not None for point in points)
    latency_known = any(point.latency is not None for point in points)
    compared = [
        Point(point.quality, point.cost if cost_known else 0, point.latency if latency_known else 0)
        for point in points
    ]
    return [
        None in point or not any(None not in other and beats(other, point) for other in compared)
        for point in compared
    ]


def test_the_front_of_two_thousand_simulated_candidates_equals_every_pair() -> None:
    rng = random.Random(7)
    points = [
        Point(
            round(rng.random(), 2),
            None if rng.random() < 0.02 else round(rng.lognormvariate(0, 1), 2),
            round(rng.lognormvariate(0, 0.3), 2),
        )
        for _ in range(2_000)
    ]
    on_front = front(points)
    assert on_front == by_every_pair(points)
    assert 10 < sum(on_front) < 1_000


def test_an_unknown_cost_neither_beats_nor_is_beaten_unless_no_cost_is_known() -> None:
    unknown, known = Point(0.9, None, 1.0), Point(0.5, 1.0, 2.0)
    assert front([unknown, known]) == [True, True]
    assert front([unknown, Point(0.5, None, 2.0)]) == [True, False]
