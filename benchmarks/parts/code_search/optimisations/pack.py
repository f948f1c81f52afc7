"""Pack items into as few bins as can be; the score is the share of the bins that had to be."""

from __future__ import annotations

import math
import random
from typing import Any

FUNCTION = "pack"
CAPACITY = 100


def tasks(count: int, seed: int) -> list[dict[str, Any]]:
    """Lists of sizes, of different kinds."""
    rng = random.Random(f"pack {seed}")
    ranges = ((10, 70), (20, 50), (5, 60), (15, 65))
    return [
        {"sizes": [rng.randint(*ranges[n % len(ranges)]) for _ in range(40)], "capacity": CAPACITY}
        for n in range(count)
    ]


def run(function: Any, task: dict[str, Any]) -> Any:
    """The bins that a function fills."""
    return function(list(task["sizes"]), task["capacity"])


def score(output: Any, task: dict[str, Any]) -> tuple[float, str]:
    """Less for each bin beyond those that are needed at least."""
    try:
        packed = sorted(int(size) for one in output for size in one)
        full = max(sum(one) for one in output)
    except (TypeError, ValueError):
        return 0.0, "No bins came back."
    if packed != sorted(task["sizes"]):
        return 0.0, "The bins do not hold each item once."
    if full > task["capacity"]:
        return 0.0, f"A bin holds {full} of {task['capacity']}."
    used, least = len(output), math.ceil(sum(task["sizes"]) / task["capacity"])
    return max(0.0, 1 - 3 * (used - least) / least), f"{used} bins for what needs {least} at least."
