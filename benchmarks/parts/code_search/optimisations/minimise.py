"""Find the lowest point of a function with 60 calls; the score falls with the value left over."""

from __future__ import annotations

import math
import random
from typing import Any

FUNCTION = "search"
CALLS = 60
LOW, HIGH = -5.0, 5.0


def tasks(count: int, seed: int) -> list[dict[str, Any]]:
    """Landscapes with their lowest point somewhere else each time."""
    rng = random.Random(f"minimise {seed}")
    kinds = ("bowl", "valley", "waves", "cone")
    return [
        {
            "kind": kinds[n % len(kinds)],
            "at": [round(rng.uniform(-4, 4), 3) for _ in range(2)],
            "seed": rng.randrange(10**6),
        }
        for n in range(count)
    ]


def height(task: dict[str, Any], x: list[float]) -> float:
    """How high a landscape is at a point; its lowest is 0."""
    a, b = x[0] - task["at"][0], x[1] - task["at"][1]
    match task["kind"]:
        case "bowl":
            return a * a + 3 * b * b
        case "valley":
            return 0.3 * (a + b) ** 2 + 2 * (a - b) ** 2
        case "waves":
            return a * a + b * b + 2 - math.cos(4 * a) - math.cos(4 * b)
    return abs(a) + abs(b) + 0.3 * math.hypot(a, b)


def run(function: Any, task: dict[str, Any]) -> Any:
    """The point that a search comes to."""
    left = [CALLS]

    def measured(x: list[float]) -> float:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError(f"more than {CALLS} calls")
        return height(task, [float(x[0]), float(x[1])])

    return [float(v) for v in function(measured, LOW, HIGH, CALLS, random.Random(task["seed"]))]


def score(output: Any, task: dict[str, Any]) -> tuple[float, str]:
    """1 at the lowest point, less the higher it is."""
    try:
        x = [float(v) for v in output]
        if len(x) != 2 or not all(LOW <= v <= HIGH for v in x):
            return 0.0, "The point is not inside of the bounds."
        left = height(task, x)
    except (TypeError, ValueError, OverflowError):
        return 0.0, "No point came back."
    if not math.isfinite(left):
        return 0.0, "No point came back."
    value = 1 / (1 + math.log1p(100 * left) / 3)
    return value, f"The point lies {left:.4g} above the lowest of this {task['kind']}."
