"""Results: the scores and answers of all candidates on the tasks of a dataset."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ratchet.store import Store
from ratchet.types import FINAL, Dataset, Rollout, Score, Task, canonical_json, content_hash

if TYPE_CHECKING:
    from ratchet.curate.refinement.item_response import Floats

PAGE = 1000
"""Rollouts read at once."""

EVAL = "eval-"
"""Prefix of the queues of `ratchet eval`; the rest is the version of the agent's source."""


class Cell(msgspec.Struct):
    """One candidate's results on one task, over its repetitions."""

    scores: list[float] = []
    """Of the measured evaluator."""
    answers: list[tuple[str, Any]] = []
    """Key and output of each rollout that returned; see `answer_key`."""
    others: dict[str, list[float]] = {}
    """Scores in [0, 1] of the other evaluators, by name."""
    labels: list[float] = []
    """People's verdicts on its rollouts, in [0, 1]."""


class Results(msgspec.Struct, frozen=True):
    """What is known of a dataset's tasks from rollouts."""

    evaluator: str
    """Whose scores are compared."""
    tasks: tuple[Task, ...]
    candidates: tuple[str, ...]
    """Those with a score; a candidate that ran with several versions of the agent's source is
    several, as `ID@VERSION`."""
    cells: dict[tuple[str, str], Cell]
    """By task id and candidate."""

    def matrix(self) -> Floats:
        """Mean score, tasks × candidates; NaN where unknown."""
        import numpy as np

        rows = {task.id: row for row, task in enumerate(self.tasks)}
        columns = {candidate: column for column, candidate in enumerate(self.candidates)}
        scores = np.full((len(rows), len(columns)), np.nan)
        for (task, candidate), cell in self.cells.items():
            if cell.scores and candidate in columns:
                scores[rows[task], columns[candidate]] = sum(cell.scores) / len(cell.scores)
        return scores


def answer_key(value: Any) -> str:
    """A text that is equal for answers that differ only in case, width and white space."""
    return canonical_json(_folded(value)).decode()


def read_results(store: Store, dataset: Dataset, evaluator: str | None = None) -> Results:
    """Read the stored results on the tasks of a dataset.

    Rollouts of another input are ignored, and so are scores against another label.

    Args:
        store: The store.
        dataset: The dataset.
        evaluator: The evaluator to compare by; by default the one in [0, 1] with most scores.
    """
    labels: dict[str, list[float]] = defaultdict(list)
    for label in store.labels.list(criterion=""):
        labels[label.rollout_id].append(label.value)
    found: list[tuple[Rollout, list[Score], list[float]]] = []
    inputs = {task.id: content_hash(task.input) for task in dataset.tasks}
    cursor: str | None = None
    while True:
        page, cursor = store.rollouts.list(limit=PAGE, cursor=cursor)
        mine = [
            rollout
            for rollout in page
            if rollout.status in FINAL
            and inputs.get(rollout.task_id) == content_hash(rollout.input)
        ]
        scores = store.scores.of([rollout.id for rollout in mine])
        found += [(rollout, scores[rollout.id], labels.get(rollout.id, [])) for rollout in mine]
        if cursor is None:
            break
    return results_of(dataset.tasks, found, evaluator)


def results_of(
    tasks: Sequence[Task],
    found: Iterable[tuple[Rollout, Sequence[Score], Sequence[float]]],
    evaluator: str | None = None,
) -> Results:
    """Arrange rollouts, with their scores and people's labels, by task and candidate."""
    rollouts = list(found)
    by_id = {task.id: task for task in tasks}
    if evaluator is None:
        counts = Counter(
            s.evaluator
            for _, scores, _ in rollouts
            for s in scores
            if s.value is not None and not s.unit
        )
        evaluator = max(counts, key=lambda name: (counts[name], name), default="")
    name_of = _names([rollout for rollout, _, _ in rollouts])
    cells: dict[tuple[str, str], Cell] = defaultdict(Cell)
    scored: dict[str, None] = {}
    for rollout, scores, labels in rollouts:
        task = by_id[rollout.task_id]
        name = name_of[rollout.candidate_id, _version(rollout)]
        cell = cells[task.id, name]
        if rollout.status == "succeeded" and rollout.output is not None:
            cell.answers.append((answer_key(rollout.output), rollout.output))
        if [rollout.expected, rollout.metadata] != [task.expected, task.metadata]:
            continue
        cell.labels += labels
        for score in scores:
            if score.value is None or score.unit:
                continue
            if score.evaluator == evaluator:
                cell.scores.append(min(1.0, max(0.0, score.value)))
                scored[name] = None
            else:
                cell.others.setdefault(score.evaluator, []).append(score.value)
    return Results(evaluator, tuple(tasks), tuple(sorted(scored)), dict(cells))


def _version(rollout: Rollout) -> str:
    return rollout.queue.removeprefix(EVAL) if rollout.queue.startswith(EVAL) else ""


def _names(rollouts: Sequence[Rollout]) -> Mapping[tuple[str, str], str]:
    """Name of each candidate and version of the agent's source."""
    versions: dict[str, dict[str, None]] = defaultdict(dict)
    for rollout in rollouts:
        versions[rollout.candidate_id][_version(rollout)] = None
    return {
        (candidate, version): candidate
        if not version or len(found.keys() - {""}) == 1
        else f"{candidate}@{version}"
        for candidate, found in versions.items()
        for version in found
    }


def _folded(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(unicodedata.normalize("NFKC", value).casefold().split())
    if isinstance(value, list):
        return [_folded(item) for item in value]
    if isinstance(value, dict):
        return {key: _folded(item) for key, item in value.items()}
    return value
