"""A search for the lowest point of a function."""

from __future__ import annotations

from typing import Any

from optimisations.minimise import run

import ratchet


@ratchet.evolve
def search(function, low, high, calls, rng):
    """Returns the lowest point that was found with so many calls."""
    best = [rng.uniform(low, high), rng.uniform(low, high)]
    lowest = function(best)
    width = high - low
    for _ in range(calls - 1):
        point = []
        for place in best:
            there = place + rng.uniform(-1.0, 1.0) * width
            point.append(min(high, max(low, there)))
        value = function(point)
        if value < lowest:
            lowest = value
            best = point
        else:
            width = width * 1.0
    return best


def answer(task: dict[str, Any]) -> Any:
    """The agent."""
    return run(search, task)
