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
    """A candidate's results on a task, over its repetitions."""

    scores: list[float] = []
    """Scores of the measured evaluator."""
    answers: list[tuple[str, Any]] = []
    """Key and output of each rollout that returned; see `answer_key`."""
    others: dict[str, list[float]] = {}
    """Scores in [0, 1] of the other evaluators, by name."""
    labels: list[float] = []
    """People's verdicts on its rollouts, in [0, 1]."""


class Results(msgspec.Struct, frozen=True):
    """The results of rollouts on a dataset's tasks."""

    evaluator: str
    """The evaluator whose scores are compared."""
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
    gathered = _Gathered(dataset.tasks)
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
        for rollout in mine:
            gathered.add(rollout, scores[rollout.id], labels.get(rollout.id, ()))
        if cursor is None:
            return gathered.results(evaluator)


def results_of(
    tasks: Sequence[Task],
    runs: Iterable[tuple[Rollout, Sequence[Score], Sequence[float]]],
    evaluator: str | None = None,
) -> Results:
    """Arrange rollouts, with their scores and people's labels, by task and candidate."""
    gathered = _Gathered(tasks)
    for rollout, scores, labels in runs:
        gathered.add(rollout, scores, labels)
    return gathered.results(evaluator)


class _Gathered:
    """Results so far: scores, labels and outputs of rollouts, with equal outputs stored once."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = {task.id: task for task in tasks}
        self._cells: dict[tuple[str, str, str], Cell] = defaultdict(Cell)
        """By task, candidate and version of the agent's source; all scores are under `others`."""
        self._answers: dict[tuple[str, str], tuple[str, Any]] = {}
        self._counts: Counter[str] = Counter()
        self._versions: dict[str, dict[str, None]] = defaultdict(dict)

    def add(self, rollout: Rollout, scores: Sequence[Score], labels: Sequence[float]) -> None:
        """Add a rollout on one of the tasks."""
        task, version = self._tasks[rollout.task_id], _version(rollout)
        usable = [score for score in scores if score.value is not None and not score.unit]
        self._counts.update(score.evaluator for score in usable)
        self._versions[rollout.candidate_id][version] = None
        cell = self._cells[task.id, rollout.candidate_id, version]
        if rollout.status == "succeeded" and rollout.output is not None:
            key = answer_key(rollout.output)
            cell.answers.append(self._answers.setdefault((task.id, key), (key, rollout.output)))
        if [rollout.expected, rollout.metadata] != [task.expected, task.metadata]:
            return
        cell.labels += labels
        for score in usable:
            assert score.value is not None
            cell.others.setdefault(score.evaluator, []).append(score.value)

    def results(self, evaluator: str | None) -> Results:
        """The results; by default by the evaluator with most scores."""
        if evaluator is None:
            counts = self._counts
            evaluator = max(counts, key=lambda name: (counts[name], name), default="")
        cells: dict[tuple[str, str], Cell] = defaultdict(Cell)
        scored: dict[str, None] = {}
        for (task, candidate, version), version_cell in self._cells.items():
            name = _name(candidate, version, self._versions[candidate])
            cell = cells[task, name]
            cell.answers += version_cell.answers
            cell.labels += version_cell.labels
            for scorer, values in version_cell.others.items():
                if scorer == evaluator:
                    cell.scores += [min(1.0, max(0.0, value)) for value in values]
                    scored[name] = None
                else:
                    cell.others.setdefault(scorer, []).extend(values)
        tasks = tuple(self._tasks.values())
        return Results(evaluator, tasks, tuple(sorted(scored)), dict(cells))


def _version(rollout: Rollout) -> str:
    return rollout.queue.removeprefix(EVAL) if rollout.queue.startswith(EVAL) else ""


def _name(candidate: str, version: str, versions: Mapping[str, None]) -> str:
    """The candidate's id, with the version of the agent's source if there are several."""
    several = len(versions.keys() - {""}) > 1
    return f"{candidate}@{version}" if version and several else candidate


def _folded(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(unicodedata.normalize("NFKC", value).casefold().split())
    if isinstance(value, list):
        return [_folded(item) for item in value]
    if isinstance(value, dict):
        return {key: _folded(item) for key, item in value.items()}
    return value
