"""Scores of many answers of one model to the same prompts, resampled as A/A comparisons."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from parts.decisions.gates import Scores, gates

ALPHA = 0.05

RESULTS = Path(__file__).parents[2] / "results" / "real_aa.json"
"""Scores that `real_aa.py` drew from a real model."""


@dataclass(frozen=True)
class DrawnAnswers:
    """What was drawn, from what, where and when."""

    model: str
    machine: str
    date: str
    task: str
    temperature: float
    scores: tuple[tuple[float, ...], ...]
    """By task, then by answer."""

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))

    @property
    def varying(self) -> float:
        """Share of tasks of which some answers score higher than others."""
        return float(np.mean([min(row) < max(row) for row in self.scores]))


def write_answers(path: Path, answers: DrawnAnswers) -> None:
    """Write them, one task a line."""
    head = json.dumps({**asdict(answers), "scores": []}, indent=1)
    rows = ",\n".join(f"  {json.dumps(row)}" for row in answers.scores)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head.replace('"scores": []', f'"scores": [\n{rows}\n ]') + "\n")


def read_answers(path: Path) -> DrawnAnswers:
    kept = json.loads(path.read_text())
    return DrawnAnswers(**{**kept, "scores": tuple(tuple(row) for row in kept["scores"])})


def flips(answers: DrawnAnswers, resamples: int, seed: int) -> dict[str, float]:
    """How often each gate promotes the model over itself, and contradicts itself.

    A resample is two comparisons on all tasks, in one random order. Each takes two answers of a
    task, one as the baseline's and one as the candidate's; the four are different answers. The
    verdict flips where one of the two comparisons promotes and the other does not.
    """
    rng = np.random.default_rng([seed, 1])
    drawn = np.stack([_four_each(np.array(answers.scores), rng) for _ in range(resamples)])
    result = {}
    for name, gate in gates(ALPHA).items():
        once = gate(drawn[:, :, 0], drawn[:, :, 1])
        again = gate(drawn[:, :, 2], drawn[:, :, 3])
        result[f"real_aa_{name}"] = float(np.mean([*once, *again]))
        result[f"real_aa_flips_{name}"] = float(np.mean(once != again))
    return result


def _four_each(scores: Scores, rng: np.random.Generator) -> Scores:
    """Four different answers of each task, in a random order of tasks: shape (tasks, 4)."""
    chosen = np.argsort(rng.random(scores.shape), axis=1)[:, :4]
    return np.take_along_axis(scores, chosen, axis=1)[rng.permutation(len(scores))]
