"""How often each gate promotes, by kind of score, gain, number of tasks and missing scores."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass

import numpy as np

from parts.decisions.gates import Scores, gates
from parts.decisions.paired_scores import KINDS, lose_at_random, lose_worst

GAINS = (0.0, 0.02, 0.05, 0.1)
TASKS = (30, 60, 120)
MISSING = ("none", "random", "worst")
SHARE = 0.05
"""Share of scores that are missing: of both sides at random, or of the candidate's worst tasks."""


@dataclass(frozen=True)
class Cell:
    """One kind of experiment, which all gates decide on."""

    scores: str
    gain: float
    tasks: int
    missing: str


CELLS = tuple(itertools.starmap(Cell, itertools.product(KINDS, GAINS, TASKS, MISSING)))


def draw(cell: Cell, rng: np.random.Generator, runs: int) -> tuple[Scores, Scores]:
    baseline, candidate = KINDS[cell.scores](rng, (runs, cell.tasks), cell.gain)
    if cell.missing == "random":
        return lose_at_random(rng, baseline, candidate, SHARE)
    if cell.missing == "worst":
        return lose_worst(rng, baseline, candidate, SHARE)
    return baseline, candidate


def promoted(job: tuple[int, int, int, float]) -> dict[str, float]:
    """Share of experiments that each gate promotes; a job is a cell's number, runs, seed, alpha."""
    number, runs, seed, alpha = job
    rng = np.random.default_rng([seed, 1000 + number])
    baseline, candidate = draw(CELLS[number], rng, runs)
    return {name: float(gate(baseline, candidate).mean()) for name, gate in gates(alpha).items()}


def report(shares: list[dict[str, float]]) -> dict[str, object]:
    """The keys of the benchmark's JSON: headlines of graded scores on 60 tasks, and every cell."""
    by_cell = dict(zip(CELLS, shares, strict=True))
    kinds = {
        "aa": by_cell[Cell("graded", 0.0, 60, "none")],
        "aa_missing": by_cell[Cell("graded", 0.0, 60, "worst")],
        "power": by_cell[Cell("graded", 0.1, 60, "none")],
        "power_right_or_wrong": by_cell[Cell("right_or_wrong", 0.1, 60, "none")],
    }
    keys: dict[str, object] = {}
    for key, share in kinds.items():
        for gate in ("ours", "ours_first", "best_mean", "peeking"):
            keys[f"{key}_{gate}"] = share[gate]
        keys[f"{key}_k_se"] = {"1": share["1_se"], "2": share["2_se"]}
    return {**keys, "gates": [{**asdict(cell), **share} for cell, share in by_cell.items()]}


def false_promotions(shares: list[dict[str, float]]) -> dict[str, float]:
    """Ratchet's share of promotions in each cell without a gain."""
    return {
        f"{cell.scores}, {cell.tasks} tasks, missing: {cell.missing}": share["ours"]
        for cell, share in zip(CELLS, shares, strict=True)
        if cell.gain == 0.0
    }
