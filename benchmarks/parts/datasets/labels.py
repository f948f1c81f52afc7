"""Measures how many planted wrong labels are found.

    python benchmarks/parts/datasets/labels.py [--quick]

5 % of the labels of 1,000 simulated tasks are wrong, and 20 candidates have run all of them. Once
only scores are known, and those of a wrong label are inverted; once the candidates' answers are
known too, and a wrong label is one of the usual wrong answers. The last line printed is one JSON
object:

- label_precision, label_recall_10: with answers; share of wrong labels among the first 50 tasks of
  the ranking, and share of the wrong labels among the first 100
- label_precision_scores, label_recall_10_scores: the same of scores alone
- label_precision_bound, label_recall_10_bound: of scores alone, by the likelihood ratio of somebody
  who knows the abilities and how the tasks are made
- label_precision_simple, label_recall_10_simple: of scores alone, by the correlation of a task's
  scores with the mean of the others plus 0.8 × (accuracy - 0.5)
- label_by_world: precision and recall with answers and without, by how the tasks are made
- label_share_estimated: the estimated share of wrong labels
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
from simulated_tasks import World, answers_of, results_of, tasks_of

from ratchet.curate.refinement.label_errors import find_suspects

TASKS, CANDIDATES, WRONG = 1000, 20, 50
PRIOR = 4000
"""Tasks drawn for the bound."""

WORLDS = {
    "usual": World(),
    "weak tasks": World(discrimination=0.8),
    "hard tasks": World(difficulty=0.0),
    "easy tasks": World(difficulty=-1.0),
    "no luck": World(luck=0.0),
}


class Found(NamedTuple):
    """How well a ranking finds the wrong labels."""

    precision: float
    recall: float
    share: float = 0.0


def found_in(order: Any, wrong: Any, share: float = 0.0) -> Found:
    """Precision at the number of wrong labels, recall in the first tenth."""
    count = int(wrong.sum())
    return Found(
        float(wrong[order[:count]].mean()),
        float(wrong[order[: len(wrong) // 10]].sum()) / count,
        share,
    )


def trial(seed: int, world: World) -> tuple[Found, Found, Found, Found]:
    """Scores alone, with answers, by the simple rule, and the bound."""
    rng = np.random.default_rng(seed)
    answers, mistakes, ability = answers_of(rng, TASKS, CANDIDATES, world)
    wrong = np.zeros(TASKS, dtype=bool)
    wrong[rng.choice(TASKS, WRONG, replace=False)] = True
    right = answers == 0
    scores = np.where(wrong[:, None], ~right, right).astype(float)
    labels = np.zeros(TASKS, dtype=int)
    for row in np.flatnonzero(wrong):
        labels[row] = 1 + rng.choice(len(mistakes[row]), p=mistakes[row])
    measured = []
    for results in (
        results_of(scores),
        results_of((answers == labels[:, None]).astype(float), answers),
    ):
        suspects = find_suspects(results)
        assert suspects is not None
        order = [suspect.row for suspect in suspects.ranked]
        measured.append(found_in(order, wrong, suspects.response.wrong_share))
    return (
        *measured,
        found_in(np.argsort(simple(scores)), wrong),
        found_in(np.argsort(-informed(rng, scores, ability, world)), wrong),
    )


def simple(scores: Any) -> Any:
    """Correlation of each task's scores with the rest, plus 0.8 × (accuracy - 0.5)."""
    rest = scores.sum(0)[None] - scores
    x = scores - scores.mean(1, keepdims=True)
    y = rest - rest.mean(1, keepdims=True)
    size = np.sqrt((x**2).sum(1) * (y**2).sum(1))
    correlation = np.divide((x * y).sum(1), size, out=np.zeros(len(x)), where=size > 0)
    return correlation + 0.8 * (scores.mean(1) - 0.5)


def informed(rng: np.random.Generator, scores: Any, ability: Any, world: World) -> Any:
    """Log likelihood ratio of a wrong and a right label, over tasks drawn as these are."""
    chance = tasks_of(rng, PRIOR, world).chances(ability)
    won, lost = np.log(chance).T, np.log1p(-chance).T

    def log_mean(log: Any) -> Any:
        most = log.max(1)
        return most + np.log(np.exp(log - most[:, None]).mean(1))

    wrong = log_mean(scores @ lost + (1.0 - scores) @ won)
    return wrong - log_mean(scores @ won + (1.0 - scores) @ lost)


def measure(quick: bool) -> dict[str, Any]:
    """The figures; see the first lines of this file."""
    seeds = 2 if quick else 20
    by_world: dict[str, Any] = {}
    for name, world in WORLDS.items():
        if quick and name != "usual":
            continue
        trials = [trial(seed, world) for seed in range(seeds)]
        by_world[name] = {
            kind: {
                field: round(statistics.fmean(getattr(each[at], field) for each in trials), 3)
                for field in Found._fields
            }
            for at, kind in enumerate(("scores", "answers", "simple", "bound"))
        }
        print(name, by_world[name], file=sys.stderr)
    usual = by_world["usual"]
    return {
        "label_precision": usual["answers"]["precision"],
        "label_recall_10": usual["answers"]["recall"],
        "label_precision_scores": usual["scores"]["precision"],
        "label_recall_10_scores": usual["scores"]["recall"],
        "label_precision_bound": usual["bound"]["precision"],
        "label_recall_10_bound": usual["bound"]["recall"],
        "label_precision_simple": usual["simple"]["precision"],
        "label_recall_10_simple": usual["simple"]["recall"],
        "label_share_estimated": usual["answers"]["share"],
        "label_by_world": by_world,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two seeds, one kind of tasks")
    print(json.dumps(measure(parser.parse_args().quick)))
