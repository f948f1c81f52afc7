"""Proposals: changes to a dataset with reasons, for a person or a policy to accept."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from ratchet.curate.refinement.core_set import core_set
from ratchet.curate.refinement.coverage import MIN_LIVE_INPUTS, Coverage, measure_coverage
from ratchet.curate.refinement.duplicates import contradict, nearly_same_input, same_input
from ratchet.curate.refinement.label_errors import (
    MIN_CANDIDATES,
    RIGHT_SCORE,
    Suspect,
    Suspects,
    find_suspects,
)
from ratchet.curate.refinement.label_parts import ABSENT_PART, with_part
from ratchet.curate.refinement.results import Results, answer_key
from ratchet.types import Dataset, InputError, Task, content_hash
from ratchet.types.wording import counted

Kind: TypeAlias = Literal["remove", "relabel", "review", "core set"]
Ground: TypeAlias = Literal[
    "duplicate",
    "near-duplicate",
    "contradiction",
    "wrong label",
    "disagreement",
    "uninformative",
    "core set",
]

SUSPICIOUS = 0.5
"""Minimum probability of a wrong label to propose another answer."""

DOUBTFUL = 0.3
"""Probability of a wrong label from which a person is asked: the lowest at which no run of
`benchmarks/parts/datasets/planted_labels.py` has more than two false alarms. It finds .91 of the
wrong labels, 0.5 found .88."""

CORE_SHARE = 0.1
"""Share of the train and val tasks in a core set."""

CORE_TASKS = 100
"""Minimum number of train and val tasks for which a core set is proposed."""

SCORE_TOLERANCE = 1e-9


class RefinementProposal(msgspec.Struct, frozen=True, kw_only=True):
    """A change, or a question to a person."""

    id: str
    """Depends only on the change itself."""
    kind: Kind
    ground: Ground
    """The kind of finding."""
    tasks: tuple[str, ...]
    """Ids of the tasks that it removes, relabels or asks about, or that form the core set."""
    reason: str
    """In a sentence."""
    expected: Any = None
    """The new answer of a relabelled task."""
    confidence: float | None = None
    """Probability that the change is right; None when unknown."""


class TaskEstimate(msgspec.Struct, frozen=True):
    """The item-response estimates for a task."""

    task: str
    difficulty: float
    """In standard deviations of the candidates' ability."""
    discrimination: float
    wrong: float
    """Probability that the label is wrong."""
    mean: float
    """Mean score over the candidates."""


class Refinement(msgspec.Struct, frozen=True):
    """All proposals for a dataset."""

    name: str
    version: str
    evaluator: str
    candidates: int
    """Number of candidates that were scored."""
    proposals: tuple[RefinementProposal, ...]
    estimates: tuple[TaskEstimate, ...]
    """Empty when too few candidates were scored."""
    coverage: Coverage | None
    """None when there are too few live inputs."""
    notes: tuple[str, ...]
    """What could not be determined, and why."""


def refine(dataset: Dataset, results: Results, live: Sequence[Any] = ()) -> Refinement:
    """Propose changes to a dataset.

    Test tasks are never removed or relabelled for their results, nor selected for a core set: a
    proof on tasks that the candidates themselves selected would be biased. A person is asked.

    Args:
        dataset: The dataset.
        results: Results of candidates on it.
        live: Inputs of live traffic, oldest first.

    Raises:
        InputError: The dataset has no tasks.
    """
    if not dataset.tasks:
        raise InputError(f"The dataset {dataset.name!r} has no tasks, so nothing can be refined.")
    proposals = _duplicates(dataset)
    proposed = {task for proposal in proposals for task in proposal.tasks}
    suspects, notes = _suspects(results)
    proposals += _disagreements(results)
    estimates: list[TaskEstimate] = []
    if suspects is not None:
        labels = _wrong_labels(dataset, results, suspects, proposed)
        proposed |= {task for proposal in labels for task in proposal.tasks}
        proposals += labels
        proposals += _uninformative(dataset, results, proposed)
        proposals += _core_set(dataset, results, suspects, proposed)
        estimates = _estimates(results, suspects)
    coverage = measure_coverage(live, [task.input for task in dataset.tasks]) if live else None
    if coverage is None:
        notes.append(
            f"Coverage is unknown: {counted(len(live), 'input')} of live traffic are stored, but "
            f"{MIN_LIVE_INPUTS} are needed."
        )
    return Refinement(
        dataset.name,
        dataset.version,
        results.evaluator,
        len(results.candidates),
        tuple(proposals),
        tuple(estimates),
        coverage,
        tuple(notes),
    )


def _proposal(
    kind: Kind,
    ground: Ground,
    tasks: Sequence[str],
    reason: str,
    *,
    expected: Any = None,
    confidence: float | None = None,
) -> RefinementProposal:
    id = content_hash([kind, ground, list(tasks), expected])[:8]
    return RefinementProposal(
        id=id,
        kind=kind,
        ground=ground,
        tasks=tuple(tasks),
        reason=reason,
        expected=expected,
        confidence=confidence,
    )


def _duplicates(dataset: Dataset) -> list[RefinementProposal]:
    proposals = []
    order = {"test": 0, "val": 1, "train": 2}

    def rank(task: Task) -> tuple[bool, int]:
        return task.expected is None, order[dataset.splits[task.id]]

    for group in same_input(dataset.tasks):
        if contradict(group):
            answers = "; ".join(f"{t.id}: {_shown(t.expected)}" for t in group[:4])
            reason = f"The same input has different expected answers ({answers})."
            proposals.append(_proposal("review", "contradiction", [t.id for t in group], reason))
            continue
        staying, *copies = sorted(group, key=rank)
        reason = (
            f"The input is the same as that of {staying.id}, which stays in"
            f" {dataset.splits[staying.id]}."
        )
        ids = [task.id for task in copies]
        proposals.append(_proposal("remove", "duplicate", ids, reason, confidence=1.0))
    removed = {task for proposal in proposals for task in proposal.tasks}
    left = [task for task in dataset.tasks if task.id not in removed]
    for group in nearly_same_input(left):
        if contradict(group):
            continue  # a small difference that matters
        staying, *copies = sorted(group, key=rank)
        reason = (
            f"The input is nearly identical to that of {staying.id}, which stays in"
            f" {dataset.splits[staying.id]}."
        )
        proposals.append(
            _proposal("remove", "near-duplicate", [task.id for task in copies], reason)
        )
    return proposals


def _suspects(results: Results) -> tuple[Suspects | None, list[str]]:
    """The item-response model, or the reason why there is none."""
    count = len(results.candidates)
    unknown = "wrong labels, difficulty and the core set are unknown"
    if not count:
        return None, [f"No rollout of these tasks has a score: {unknown}. Run ratchet eval."]
    if count < MIN_CANDIDATES:
        some = "1 candidate has" if count == 1 else f"{count} candidates have"
        return None, [f"{some} been scored, but {MIN_CANDIDATES} are needed: {unknown}."]
    values = [value for cell in results.cells.values() for value in cell.scores]
    if max(values) - min(values) < SCORE_TOLERANCE:
        same = f"Every score of {results.evaluator} is {values[0]:g}"
        return None, [f"{same}, so neither candidates nor tasks can be told apart: {unknown}."]
    suspects = find_suspects(results)
    if suspects is None:
        return None, [f"No task was run by enough candidates: {unknown}."]
    notes = []
    if left := len(results.tasks) - len(suspects.rows):
        some = "1 task was" if left == 1 else f"{left} tasks were"
        notes.append(f"{some} run by too few candidates, so nothing is known about them.")
    if suspects.too_hard:
        names = ", ".join(".".join(path) or results.evaluator for path in suspects.too_hard)
        notes.append(
            f"Labels that most candidates contradict are not suspected, in {names}: even the better"
            " half of the candidates is wrong there more often than right. Better candidates can"
            " tell more."
        )
    return suspects, notes


def _disagreements(results: Results) -> list[RefinementProposal]:
    """Tasks on whose rollouts people contradict one another."""
    proposals = []
    for task in results.tasks:
        labels = [
            value
            for candidate in results.candidates
            if (cell := results.cells.get((task.id, candidate))) is not None
            for value in cell.labels
        ]
        conflicts = sum(
            min(cell.labels) < RIGHT_SCORE <= max(cell.labels)
            for candidate in results.candidates
            if (cell := results.cells.get((task.id, candidate))) is not None
            and len(cell.labels) > 1
            and len(cell.scores) == 1
        )
        if conflicts:
            right = sum(value >= RIGHT_SCORE for value in labels)
            reason = (
                "People contradict one another about the same output: according to "
                f"{right} of {counted(len(labels), 'label')}, it is right."
            )
            proposals.append(_proposal("review", "disagreement", [task.id], reason))
    return proposals


def _wrong_labels(
    dataset: Dataset, results: Results, suspects: Suspects, proposed: set[str]
) -> list[RefinementProposal]:
    proposals = []
    for suspect in suspects.ranked:
        task = results.tasks[suspect.row]
        if suspect.wrong < DOUBTFUL:
            break
        if task.id in proposed or task.expected is None:
            continue
        reason = _why(suspect)
        clear = suspect.supporters > 1 and min(suspect.wrong, suspect.answer_share) >= SUSPICIOUS
        clear = clear and dataset.splits[task.id] != "test" and suspect.answer != ABSENT_PART
        expected = with_part(task.expected, suspect.path, suspect.answer) if clear else None
        if clear and answer_key(expected) != answer_key(task.expected):
            proposals.append(
                _proposal(
                    "relabel",
                    "wrong label",
                    [task.id],
                    reason,
                    expected=expected,
                    confidence=min(suspect.wrong, suspect.answer_share),
                )
            )
        else:
            proposals.append(
                _proposal("review", "wrong label", [task.id], reason, confidence=suspect.wrong)
            )
    return proposals


def _why(suspect: Suspect) -> str:
    parts = [f"{suspect.right} of {suspect.measured} candidates are right according to the label"]
    if suspect.supporters > 1:
        place = f"{'.'.join(suspect.path)} = " if suspect.path else ""
        answer = "leaving it out" if suspect.answer == ABSENT_PART else _shown(suspect.answer)
        parts.append(f"{suspect.supporters} agree on {place}{answer}")
    else:
        parts.append("strong candidates fail where weak ones succeed")
    if suspect.disagreeing:
        parts.append(f"{', '.join(suspect.disagreeing)} contradict the scores")
    return f"The label is wrong with probability {suspect.wrong:.2f}: {', '.join(parts)}."


def _uninformative(
    dataset: Dataset, results: Results, proposed: set[str]
) -> list[RefinementProposal]:
    import numpy as np

    scores = results.matrix()
    easy, hard = [], []
    for row, task in enumerate(results.tasks):
        known_scores = scores[row][~np.isnan(scores[row])]
        if (
            task.id in proposed
            or dataset.splits[task.id] == "test"
            or len(known_scores) < MIN_CANDIDATES
        ):
            continue
        if float(known_scores.min()) >= 1.0 - SCORE_TOLERANCE:
            easy.append(task.id)
        elif float(known_scores.max()) <= SCORE_TOLERANCE:
            hard.append(task.id)
    proposals = []
    if easy:
        reason = "All candidates solve them, so they no longer distinguish candidates."
        proposals.append(_proposal("remove", "uninformative", easy, reason))
    if hard:
        reason = (
            "No candidate solves them: they are too hard or impossible, or their labels are wrong."
        )
        proposals.append(_proposal("review", "uninformative", hard, reason))
    return proposals


def _core_set(
    dataset: Dataset, results: Results, suspects: Suspects, proposed: set[str]
) -> list[RefinementProposal]:
    rows: dict[str, list[int]] = {"train": [], "val": []}
    for at, row in enumerate(suspects.rows):
        id = results.tasks[row].id
        split = dataset.splits[id]
        if split in rows and id not in proposed:
            rows[split].append(at)
    count = sum(map(len, rows.values()))
    if count < CORE_TASKS:
        return []
    core = [
        results.tasks[suspects.rows[at]].id
        for some in rows.values()
        if some
        for at in core_set(suspects.response, max(1, math.ceil(CORE_SHARE * len(some))), some)
    ]
    reason = (
        f"These {len(core)} of {count} train and val tasks distinguish candidates best; accepting "
        f"them makes the dataset {dataset.name}-core."
    )
    return [_proposal("core set", "core set", core, reason)]


def _estimates(results: Results, suspects: Suspects) -> list[TaskEstimate]:
    import numpy as np

    scores, response = results.matrix(), suspects.response
    wrong = {suspect.row: suspect.wrong for suspect in suspects.ranked}
    return [
        TaskEstimate(
            task=results.tasks[row].id,
            difficulty=round(float(response.difficulty[at]), 4),
            discrimination=round(float(response.discrimination[at]), 4),
            wrong=round(wrong[row], 4),
            mean=round(float(np.nanmean(scores[row])), 4),
        )
        for at, row in enumerate(suspects.rows)
    ]


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"
