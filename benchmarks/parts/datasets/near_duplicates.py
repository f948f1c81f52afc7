"""Measures what the grouping of near-duplicates finds and merges wrongly, and its speed."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from typing import Any

from benchmarks.parts.datasets.made_texts import MadeText, made_texts, original

from ratchet.curate import split_tasks
from ratchet.curate.near_duplicates import near_duplicate_groups
from ratchet.types import Task


def measure(quick: bool) -> dict[str, Any]:
    """See benchmarks/datasets.py for the keys."""
    made = made_texts(80 if quick else 400, random.Random(7))
    groups = near_duplicate_groups([one.text for one in made])
    right, wrong, missed = _pairs(made, groups)
    tasks = [Task(str(n), one.text) for n, one in enumerate(made)]
    splits = split_tasks(
        tasks, name="made", fractions={"train": 0.4, "val": 0.2, "test": 0.4}
    ).splits
    of_group: dict[int, set[str]] = defaultdict(set)
    for task, one in zip(tasks, made, strict=True):
        of_group[one.group].add(splits[task.id])
    rng = random.Random(1)
    many = [
        f"{original(rng)} {rng.random():.5f}" if n % 2 else original(rng)
        for n in range(_many(quick))
    ]
    begun = time.process_time()
    near_duplicate_groups(many)
    seconds = time.process_time() - begun
    return {
        "straddling_duplicates": sum(len(found) > 1 for found in of_group.values()),
        "wrong_merges": wrong,
        "near_duplicate_f1": round(2 * right / (2 * right + wrong + missed), 4),
        "near_duplicate_texts": len(made),
        "texts_per_s": round(len(many) / seconds),
    }


def _many(quick: bool) -> int:
    return 2_000 if quick else 100_000


def _pairs(made: list[MadeText], groups: list[int]) -> tuple[int, int, int]:
    """Pairs grouped rightly, grouped wrongly, and not found."""
    wanted = Counter(one.group for one in made)
    found = Counter(groups)
    both = Counter((one.group, group) for one, group in zip(made, groups, strict=True))
    right, all_wanted, all_found = (
        sum(n * (n - 1) // 2 for n in counts.values()) for counts in (both, wanted, found)
    )
    return right, all_found - right, all_wanted - right
