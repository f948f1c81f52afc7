"""Make the frozen set of a fixed problem, and correct it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ratchet.curate.problems.resemblance import masked, words_of
from ratchet.curate.problems.symptoms import as_text
from ratchet.curate.split import input_key
from ratchet.store import Store
from ratchet.types import (
    Correction,
    FrozenSet,
    InputError,
    Problem,
    Run,
    Task,
    content_hash,
)
from ratchet.types.frozen_set import FROZEN_TASKS
from ratchet.types.label import RIGHT_FROM

NEIGHBOURS = 5
"""Tasks of a set that are kept for neighbours, where there are as many."""


def freeze(
    problem: Problem,
    failures: Sequence[Task],
    neighbours: Sequence[Task],
    *,
    store: Store,
    project: str,
    answered: bool,
    loss: float,
    now: float,
) -> FrozenSet:
    """Store the frozen set of a problem that was fixed; if it already has one, that stays.

    Failures come first, and neighbours fill the rest: at least a quarter of the set, if there are
    enough. Of tasks with the same input or id, the first is taken.

    Args:
        problem: The problem.
        failures: Tasks in which it occurred, those that matter most first.
        neighbours: Tasks like them that were right, the nearest first.
        store: The store.
        project: The project's identity.
        answered: Whether the objective needs an expected answer: others cannot be scored.
        loss: The problem's share × loss before it was fixed.
        now: Unix seconds.

    Raises:
        InputError: No failure is left that can be scored.
    """
    id = content_hash([project, problem.id, problem.release_id, "frozen"])
    stored = store.frozen_sets.get(id)
    if stored is not None:
        return stored
    taken: set[bytes | str] = set()
    failed = _distinct(failures, taken, answered)
    right = _distinct(neighbours, taken, answered)
    if not failed:
        raise InputError(
            f"Problem {problem.id[:12]} ({problem.title}) has no failure to freeze"
            + (" with an expected answer, which the objective needs." if answered else "."),
            hint="Give corrections: ratchet feedback --correction." if answered else None,
        )
    failed = failed[: FROZEN_TASKS - min(NEIGHBOURS, len(right))]
    frozen = FrozenSet(
        id=id,
        project=project,
        problem_id=problem.id,
        title=problem.title,
        tasks=(*failed, *right[: FROZEN_TASKS - len(failed)]),
        loss=loss,
        created_at=now,
    )
    store.frozen_sets.put(frozen)
    return frozen


def freeze_fixed(
    store: Store, problem: Problem, run: Run, *, loss: float, now: float
) -> FrozenSet | None:
    """Store the frozen set of a problem that a run's candidate fixed; None when it leaves none.

    Its failures are the run's tasks that were made of the problem's traces, those first that the
    candidate gets right; its neighbours are the tasks most like them that the candidate gets right.
    Where every task that the run has scored has an expected answer, so has every task of the set.

    Args:
        store: The store.
        problem: The problem.
        run: The run.
        loss: The problem's share × loss before it was fixed.
        now: Unix seconds.
    """
    experiment = store.experiments.get(run.experiment_id) if run.experiment_id else None
    if experiment is None or experiment.decision is None:
        return None
    scored = store.scores.by_task(run.id, run.best_id, experiment.decision.metric)
    means = {id: score.mean for id, score in scored.items() if score.mean is not None}
    tasks = store.datasets.get(run.dataset_version).tasks
    traces = {occurrence.trace_id for occurrence in store.problems.occurrences(problem.id)}
    failures = [task for task in tasks if traces.intersection(task.origin.sources)]
    if not failures:
        return None
    words = frozenset().union(*(_words(task) for task in failures))
    others = [task for task in tasks if task not in failures]
    neighbours = [task for task in others if means.get(task.id, 0.0) >= RIGHT_FROM]
    if all(task.expected is not None for task in tasks if task.id in means):
        failures = [task for task in failures if task.expected is not None]
        if not failures:
            return None
    return freeze(
        problem,
        sorted(failures, key=lambda task: -means.get(task.id, 0.0)),
        sorted(neighbours, key=lambda task: -len(_words(task) & words)),
        store=store,
        project=run.project,
        answered=False,
        loss=loss,
        now=now,
    )


def _words(task: Task) -> frozenset[str]:
    return frozenset(words_of(masked(as_text(task.input))))


def corrected(
    frozen: FrozenSet, task_id: str, expected: Any, *, by: str, reason: str, at: float
) -> FrozenSet:
    """The next version of a set, with another expected answer of a task, or without the task.

    Args:
        frozen: The set.
        task_id: The task.
        expected: The right answer; None removes the task.
        by: The person.
        reason: Why, in a sentence.
        at: Unix seconds.

    Raises:
        InputError: The set has no such task, its answer is that already, or nobody or no reason is
            named.
    """
    task = next((task for task in frozen.tasks if task.id == task_id), None)
    if task is None:
        raise InputError(
            f"Frozen set {frozen.id[:12]} has no task {task_id!r}; it has"
            f" {', '.join(repr(task.id) for task in frozen.tasks) or 'none'}."
        )
    if not by.strip() or not reason.strip():
        raise InputError(
            "A correction of a frozen set must say who makes it and why, so that it can be traced."
        )
    if expected is not None and expected == task.expected:
        raise InputError(f"Task {task_id!r} expects that answer already.")
    tasks = tuple(
        msgspec.structs.replace(other, expected=expected) if other is task else other
        for other in frozen.tasks
        if other is not task or expected is not None
    )
    correction = Correction(
        task_id=task_id, before=task.expected, after=expected, by=by, reason=reason, at=at
    )
    return msgspec.structs.replace(
        frozen,
        tasks=tasks,
        corrections=(*frozen.corrections, correction),
        version=frozen.version + 1,
    )


def _distinct(tasks: Iterable[Task], taken: set[bytes | str], answered: bool) -> list[Task]:
    """Those that can be scored and whose id and input are not taken yet; they are then."""
    kept = []
    for task in tasks:
        keys: set[bytes | str] = {input_key(task.input), task.id}
        if taken.isdisjoint(keys) and (task.expected is not None or not answered):
            taken |= keys
            kept.append(task)
    return kept
