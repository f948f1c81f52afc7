"""Order what a search has found: the `rank` function of the standard-library helper."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

FUNCTION = "rank"
FILE = Path(__file__).resolve().parents[4] / ".bench" / "code_search" / "rank.json"
"""Questions with what retrieval found for them, made once by benchmarks/code_search.py."""


def tasks(count: int, seed: int) -> list[dict[str, Any]]:
    """Questions, in an order that the seed decides; those of other seeds may be among them."""
    rows: list[dict[str, Any]] = json.loads(FILE.read_text())
    half = len(rows) // 2
    # Held-out questions come from the other half of the file.
    rows = rows[half:] if seed >= 1_000 else rows[:half]
    random.Random(f"rank {seed}").shuffle(rows)
    return rows[:count]


def run(function: Any, task: dict[str, Any]) -> Any:
    """Names in the order of the function."""
    ranked = function([dict(one) for one in task["candidates"]], 1.0, 1.0)
    return [one["name"] for one in ranked]


def score(output: Any, task: dict[str, Any]) -> tuple[float, str]:
    """One over the place of the first right answer."""
    known = {one["name"] for one in task["candidates"]}
    if not isinstance(output, list) or not set(map(str, output)) <= known:
        return 0.0, "What came back are not the candidates."
    for place, name in enumerate(output[:10], 1):
        if name in task["right"]:
            return 1 / place, f"The right answer {name} is in place {place}."
    return 0.0, f"The right answer {task['right'][0]} is not among the first ten."
