"""Measures whether three wrong labels among 100 tickets are found, and what is suspected wrongly.

    python benchmarks/parts/datasets/planted_labels.py [--quick]

Simulated candidates, no model: each sorts tickets into an object of four fields, and is right in a
field with a chance of its own. One rule of the house is known to no candidate, so that all agree on
the same wrong urgency in an eighth of the tasks; a second one to a quarter of the candidates.
Three labels are wrong in one field, each in another way than these rules. Half of the candidates
answer in text, with the object in a fence. The evaluator's score is the share of fields that are
right. The last line printed is one JSON object:

- planted_found: mean share of the three wrong labels that are proposed as wrong
- planted_all_found: share of the runs in which all three are
- planted_false_alarms: mean number of other labels proposed as wrong
- planted_most_false_alarms: the most in any run
- planted_by_candidates: the same by number of candidates
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

import numpy as np

from ratchet.curate.refinement import refine, results_of
from ratchet.types import Dataset, Rollout, Score, Task

TASKS, WRONG = 100, 3
FIELDS = {
    "queue": ("billing", "technical", "account", "sales", "other"),
    "urgency": ("low", "normal", "high"),
    "refund": (True, False),
    "language": ("en", "de", "fr"),
}
RULES = {("urgency", "low"), ("queue", "account")}
"""What candidates get wrong since they do not know the rule."""
CANDIDATES = (9, 12, 20)


def trial(seed: int, candidates: int) -> tuple[int, int]:
    """Wrong labels that are proposed as wrong, and right ones that are."""
    rng = np.random.default_rng([seed, candidates])
    truth = [
        {name: values[rng.integers(len(values))] for name, values in FIELDS.items()}
        for _ in range(TASKS)
    ]
    hidden = [row for row in range(TASKS) if truth[row]["urgency"] == "low"][: TASKS // 8]
    rare = [row for row in range(TASKS) if truth[row]["queue"] == "account"][: TASKS // 12]
    labels = [dict(label) for label in truth]
    known = [row for row in range(TASKS) if row not in {*hidden, *rare}]
    wrong = rng.choice(known, WRONG, replace=False)
    for row in wrong:
        name = list(FIELDS)[rng.integers(len(FIELDS))]
        label = _other(rng, name, labels[row][name])
        while (name, label) in RULES:  # it would read like the candidates' own mistake
            label = _other(rng, name, labels[row][name])
        labels[row][name] = label
    tasks = [Task(f"t{row:03}", f"Ticket {row}", label) for row, label in enumerate(labels)]
    skill = rng.uniform(0.6, 0.92, (candidates, len(FIELDS)))
    mistakes = {
        (row, name): _other(rng, name, truth[row][name]) for row in range(TASKS) for name in FIELDS
    }
    ran = []
    for column in range(candidates):
        for row, task in enumerate(tasks):
            answer: dict[str, Any] = {}
            for at, (name, right) in enumerate(truth[row].items()):
                known = rng.random() < skill[column, at]
                usual = mistakes[row, name] if rng.random() < 0.6 else _other(rng, name, right)
                answer[name] = right if known else usual
            if row in hidden:
                answer["urgency"] = "high"
            if row in rare and column > candidates // 4:
                answer["queue"] = "billing"
            ran.append(_rollout(task, column, answer))
    splits = {task.id: "train" for task in tasks}
    found = refine(
        Dataset(name="tickets", tasks=tuple(tasks), splits=splits), results_of(tasks, ran)
    )
    said = {id for p in found.proposals if p.ground == "wrong label" for id in p.tasks}
    planted = {tasks[row].id for row in wrong}
    return len(said & planted), len(said - planted)


def _other(rng: np.random.Generator, name: str, value: Any) -> Any:
    others = [each for each in FIELDS[name] if each != value]
    return others[rng.integers(len(others))]


def _rollout(
    task: Task, column: int, answer: dict[str, Any]
) -> tuple[Rollout, list[Score], list[float]]:
    text = json.dumps(answer)
    expected = task.expected
    assert isinstance(expected, dict)
    value = sum(answer[name] == expected[name] for name in FIELDS) / len(FIELDS)
    rollout = Rollout(
        id=f"{task.id}/{column}",
        queue="run",
        candidate_id=f"c{column:02}",
        task_id=task.id,
        input=task.input,
        expected=task.expected,
        status="succeeded",
        output=f"```json\n{text}\n```" if column % 2 else answer,
    )
    return rollout, [Score(evaluator="json_match", version="1", value=value)], []


def measure(quick: bool) -> dict[str, Any]:
    """The figures; see the first lines of this file."""
    seeds = range(3 if quick else 20)
    by_count = {count: [trial(seed, count) for seed in seeds] for count in CANDIDATES}
    trials = [each for some in by_count.values() for each in some]
    return {
        "planted_found": round(statistics.fmean(found for found, _ in trials) / WRONG, 3),
        "planted_all_found": round(statistics.fmean(found == WRONG for found, _ in trials), 3),
        "planted_false_alarms": round(statistics.fmean(false for _, false in trials), 3),
        "planted_most_false_alarms": max(false for _, false in trials),
        "planted_by_candidates": {
            str(count): {
                "found": round(statistics.fmean(found for found, _ in some) / WRONG, 3),
                "false_alarms": round(statistics.fmean(false for _, false in some), 3),
            }
            for count, some in by_count.items()
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three seeds")
    print(json.dumps(measure(parser.parse_args().quick)))
