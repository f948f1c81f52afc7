"""Measures how well a tenth of the tasks ranks candidates that had no part in selecting it.

    python benchmarks/parts/datasets/core_set.py [--quick]

The tasks are selected by the scores of 20 candidates; 16 others are ranked by their mean score on
the core set and on all tasks. The last line printed is one JSON object:

- core_tau: mean Kendall's tau of the two rankings, over 400 and 1,000 tasks
- core_tau_random: the same with a random tenth, the mean of 20 draws
- core_beats_random: share of the trials in which the core set's tau is above the random mean
- core_by_world: both by number of tasks and how they are made, with the standard error of core_tau
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from simulated_tasks import World, answers_of

from ratchet.curate.refinement.core_set import core_set
from ratchet.curate.refinement.item_response import fit_item_response

MEASURED, HELD_OUT, DRAWS = 20, 16, 20
SIZES = (400, 1000)

WORLDS = {
    "usual": World(),
    "weak tasks": World(discrimination=0.8),
    "hard tasks": World(difficulty=0.0),
    "no luck": World(luck=0.0),
}


class Trial(NamedTuple):
    """Tau of the core set, and mean tau of random tenths."""

    core: float
    random: float


def kendall_tau(left: np.ndarray, right: np.ndarray) -> float:
    """Kendall's tau-b of two lists: 1 when they rank alike."""
    first, second = np.triu_indices(len(left), 1)
    x, y = np.sign(left[first] - left[second]), np.sign(right[first] - right[second])
    return float((x * y).sum() / np.sqrt((x != 0).sum() * (y != 0).sum()))


def trial(seed: int, tasks: int, world: World) -> Trial:
    """Select by some candidates, rank others."""
    rng = np.random.default_rng(seed)
    drawn = answers_of(rng, tasks, MEASURED + HELD_OUT, world)
    scores = (drawn.answers == 0).astype(float)
    known, others = scores[:, :MEASURED], scores[:, MEASURED:]
    whole, size = others.mean(0), tasks // 10
    core = core_set(fit_item_response(known), size)
    tenths = [rng.choice(tasks, size, replace=False) for _ in range(DRAWS)]
    return Trial(
        kendall_tau(others[core].mean(0), whole),
        statistics.fmean(kendall_tau(others[rows].mean(0), whole) for rows in tenths),
    )


def measure(quick: bool) -> dict[str, Any]:
    """The figures; see the first lines of this file."""
    seeds = 6 if quick else 40
    by_world: dict[str, Any] = {}
    usual: list[Trial] = []
    for name, world in WORLDS.items():
        if quick and name != "usual":
            continue
        for tasks in SIZES:
            trials = [trial(seed, tasks, world) for seed in range(seeds)]
            usual += trials if name == "usual" else []
            core = [each.core for each in trials]
            by_world[f"{name}, {tasks} tasks"] = {
                "core": round(statistics.fmean(core), 3),
                "random": round(statistics.fmean(each.random for each in trials), 3),
                "error": round(statistics.stdev(core) / seeds**0.5, 3),
            }
            print(name, tasks, by_world[f"{name}, {tasks} tasks"], file=sys.stderr)
    return {
        "core_tau": round(statistics.fmean(each.core for each in usual), 3),
        "core_tau_random": round(statistics.fmean(each.random for each in usual), 3),
        "core_beats_random": round(statistics.fmean(each.core > each.random for each in usual), 3),
        "core_by_world": by_world,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="six seeds, one kind of tasks")
    print(json.dumps(measure(parser.parse_args().quick)))
