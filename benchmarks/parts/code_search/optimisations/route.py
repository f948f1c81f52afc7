"""Choose the next stop of a delivery round; the score compares its length with a good round's."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

FUNCTION = "cost"


def tasks(count: int, seed: int) -> list[dict[str, Any]]:
    """Stops around a depot, some scattered, some in clusters."""
    rng = random.Random(f"route {seed}")
    made = []
    for n in range(count):
        centres = [(rng.uniform(0, 10), rng.uniform(0, 10)) for _ in range(4)]
        stops = []
        for _ in range(24):
            if n % 2:
                x, y = rng.choice(centres)
                stops.append([round(rng.gauss(x, 0.8), 3), round(rng.gauss(y, 0.8), 3)])
            else:
                stops.append([round(rng.uniform(0, 10), 3), round(rng.uniform(0, 10), 3)])
        depot = [round(rng.uniform(0, 10), 3), round(rng.uniform(0, 10), 3)]
        made.append({"depot": depot, "stops": stops, "good": _good(depot, stops)})
    return made


def run(function: Any, task: dict[str, Any]) -> Any:
    """The order in which a rule visits the stops: always the one with the lowest cost next."""
    depot, stops = task["depot"], task["stops"]
    left, here, order = list(range(len(stops))), depot, []
    while left:
        costs = []
        for stop in left:
            there = stops[stop]
            others = [math.dist(there, stops[o]) for o in left if o != stop] or [0.0]
            costs.append(
                float(
                    function(
                        math.dist(here, there),
                        math.dist(there, depot),
                        min(others),
                        sum(others) / len(others),
                        len(left),
                    )
                )
            )
        chosen = left[min(range(len(left)), key=lambda n: costs[n])]
        left.remove(chosen)
        order.append(chosen)
        here = stops[chosen]
    return order


def score(output: Any, task: dict[str, Any]) -> tuple[float, str]:
    """A good round's length over this one's, stretched."""
    stops = task["stops"]
    if not isinstance(output, list) or sorted(output) != list(range(len(stops))):
        return 0.0, "Not every stop is visited once."
    length = _length(task["depot"], [stops[n] for n in output])
    value = max(0.0, 1 - 1.5 * (length / task["good"] - 1))
    return min(1.0, value), f"The round is {length:.1f} long; {task['good']:.1f} can be done."


def _length(depot: list[float], stops: list[list[float]]) -> float:
    round_trip = [depot, *stops, depot]
    return sum(math.dist(a, b) for a, b in itertools.pairwise(round_trip))


def _good(depot: list[float], stops: list[list[float]]) -> float:
    """The length of a round by nearest neighbours, improved by turning parts around."""
    left, here, order = list(stops), depot, []
    while left:
        there = min(left, key=lambda stop: math.dist(here, stop))
        left.remove(there)
        order.append(there)
        here = there
    better = True
    while better:
        better = False
        for i in range(len(order) - 1):
            for j in range(i + 1, len(order)):
                turned = [*order[:i], *reversed(order[i : j + 1]), *order[j + 1 :]]
                if _length(depot, turned) < _length(depot, order) - 1e-9:
                    order, better = turned, True
    return round(_length(depot, order), 4)
