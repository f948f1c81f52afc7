"""Contenders: candidates that are compared on the same tasks, few of them at first.

A contender's score on the tasks that it has not run is predicted from its parent's: by how much it
changed those that the parent fails, and those that it solves, shrunk towards little change. Pairs
on shared tasks need far fewer rollouts than means of different ones, since most of what differs
between rollouts is the task (common random numbers; Maron & Moore 1994 race models in this way).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from ratchet.learn.work import Evaluation
from ratchet.types import Candidate, Task

SOLVED = 1.0 - 1e-9
"""A score from which on nothing is left to gain."""

STRENGTH = 2.0
"""How many tasks' worth of evidence the expectation of little change counts for."""

EXPECTED = {"failing": 0.05, "solved": -0.03}
"""What an edit is expected to change before it is tried. What fails may succeed the next time by
luck alone, what succeeds may fail."""

SPREAD = 0.15
"""Variance that is expected of the changes before any is seen."""


class Estimate(msgspec.Struct, frozen=True):
    """What a contender is worth on some tasks."""

    value: float
    """Mean score, predicted where it was not measured."""
    deviation: float
    """Standard deviation of the predicted part."""
    measured: int
    """Tasks that were measured."""


class Contender:
    """A candidate in a race.

    Args:
        number: In the order of proposals; 0 for the one that the race begins with.
        candidate: The candidate.
        parent: The contender that it was made from.
    """

    def __init__(self, number: int, candidate: Candidate, parent: Contender | None = None) -> None:
        self.number = number
        self.candidate = candidate
        self.parent = parent
        self.evaluations: dict[str, Evaluation] = {}
        """By task id, in the order they were asked for."""

    def add(self, evaluations: Iterable[Evaluation]) -> None:
        """Take what was measured."""
        for evaluation in evaluations:
            self.evaluations[evaluation.task.id] = evaluation

    def value(self, task_id: str) -> float | None:
        """Its score on a task; None when it has none."""
        evaluation = self.evaluations.get(task_id)
        return evaluation.value if evaluation is not None else None

    def values(self) -> dict[str, float]:
        """Its scores by task id."""
        return {
            task_id: evaluation.value
            for task_id, evaluation in self.evaluations.items()
            if evaluation.value is not None
        }

    def mean(self) -> float | None:
        """Mean of its scores; None without any."""
        values = self.values().values()
        return sum(values) / len(values) if values else None

    def untried(self, tasks: Sequence[Task]) -> list[Task]:
        """Those of the tasks that it has not run."""
        return [task for task in tasks if task.id not in self.evaluations]

    def failing(self) -> list[Evaluation]:
        """Evaluations that leave something to gain, the worst first."""
        left = [e for e in self.evaluations.values() if e.value is not None and e.value < SOLVED]
        return sorted(left, key=lambda e: e.value is not None and e.value)

    def gained(self) -> str:
        """How it compares with its parent on the tasks that both ran, in a sentence."""
        own, base = self.values(), self.parent.values() if self.parent else {}
        shared = own.keys() & base.keys()
        if not shared:
            return ""
        after = sum(own[t] for t in shared) / len(shared)
        before = sum(base[t] for t in shared) / len(shared)
        tasks = f"{len(shared)} train tasks" if len(shared) > 1 else "1 train task"
        return f"{after:.3f} instead of its parent's {before:.3f} on {tasks}."

    def lineage(self) -> list[Contender]:
        """Itself, its parent, and so on to the first."""
        line: list[Contender] = [self]
        while line[-1].parent is not None:
            line.append(line[-1].parent)
        return line


def estimate(contender: Contender, tasks: Sequence[Task]) -> Estimate:
    """What a contender is worth on tasks of which it may have run only some."""
    ids = [task.id for task in tasks]
    if not ids:
        return Estimate(0.0, math.sqrt(SPREAD), 0)
    predicted = _Prediction(contender)
    values = [predicted.at(task_id) for task_id in ids]
    missing = [task_id for task_id in ids if contender.value(task_id) is None]
    return Estimate(
        sum(values) / len(values),
        math.sqrt(predicted.variance(missing)) / len(values),
        len(ids) - len(missing),
    )


class _Prediction:
    """A contender's scores, predicted where they were not measured."""

    def __init__(self, contender: Contender) -> None:
        self._own = contender.values()
        self._base = _Prediction(contender.parent) if contender.parent else None
        self._mean = sum(self._own.values()) / len(self._own) if self._own else 0.5
        self._changes: dict[str, list[float]] = {"failing": [], "solved": []}
        if self._base is not None:
            for task_id, value in self._own.items():
                before = self._base.measured(task_id)
                if before is not None:
                    self._changes[_stratum(before)].append(value - before)

    def measured(self, task_id: str) -> float | None:
        """The score on a task; None when it was not run."""
        return self._own.get(task_id)

    def at(self, task_id: str) -> float:
        """The score on a task, measured or predicted."""
        if task_id in self._own:
            return self._own[task_id]
        if self._base is None:
            return self._mean
        known = self._base.measured(task_id)
        if known is not None:
            return self._within(known + self._change(_stratum(known)))
        # Predicted itself: as likely solved as that says, as far as scores are from 0 to 1.
        before = self._base.at(task_id)
        share = min(max(before, 0.0), 1.0)
        change = share * self._change("solved") + (1.0 - share) * self._change("failing")
        return self._within(before + change)

    def variance(self, missing: Sequence[str]) -> float:
        """Variance of the sum of what was predicted."""
        if self._base is None:
            return len(missing) ** 2 * SPREAD / (len(self._own) + 1)
        counts = {"failing": 0, "solved": 0}
        for task_id in missing:
            counts[_stratum(self._base.at(task_id))] += 1
        return sum(
            count**2 * self._spread(stratum) / (len(self._changes[stratum]) + 1)
            for stratum, count in counts.items()
        )

    def _within(self, value: float) -> float:
        """The score, no further out than scores go."""
        low = min(0.0, *self._own.values()) if self._own else 0.0
        high = max(1.0, *self._own.values()) if self._own else 1.0
        return min(max(value, low), high)

    def _change(self, stratum: str) -> float:
        changes = self._changes[stratum]
        return (sum(changes) + STRENGTH * EXPECTED[stratum]) / (len(changes) + STRENGTH)

    def _spread(self, stratum: str) -> float:
        changes = self._changes[stratum]
        center = sum(changes) / len(changes) if changes else 0.0
        squares = sum((change - center) ** 2 for change in changes)
        return (squares + STRENGTH * SPREAD) / (len(changes) + STRENGTH)


def _stratum(value: float) -> str:
    return "solved" if value >= SOLVED else "failing"


def telling(contender: Contender, tasks: Sequence[Task], shown: Iterable[str] = ()) -> list[Task]:
    """Tasks in an order in which a child of a contender is told apart soon.

    Tasks that the contender fails say what an edit gains, those that it solves what it breaks. The
    child should solve what the edit was made from (`shown`), and what was not shown as well: else
    it has only learned examples by heart. So they come in turn: two shown, one that fails and was
    not shown, one that is solved.

    Args:
        contender: The parent; only tasks that it has run are taken.
        tasks: Those to order.
        shown: Ids of the tasks that the edit was made from.
    """
    known = set(shown)
    groups: dict[str, list[Task]] = {"shown": [], "failing": [], "solved": []}
    for task in tasks:
        value = contender.value(task.id)
        if value is None:
            continue
        if value >= SOLVED:
            groups["solved"].append(task)
        else:
            groups["shown" if task.id in known else "failing"].append(task)
    turn = ("shown", "failing", "shown", "solved")
    ordered: list[Task] = []
    while any(groups.values()):
        for name in turn:
            if groups[name]:
                ordered.append(groups[name].pop(0))
    return ordered


class Choice(msgspec.Struct, frozen=True):
    """The contender that was chosen, and by how much it seems better than the first."""

    contender: Contender
    gain: float


def choose(
    first: Contender,
    others: Sequence[Contender],
    *,
    val: dict[int, dict[str, float]],
    first_val: dict[str, float],
    trust: float = 0.5,
    doubt: float = 2.0,
) -> Choice:
    """The best of some contenders by their gains over the first one, train and val together.

    Val tasks took no part in the search; train tasks did, so that the best on them is partly the
    luckiest, and counts less. Both are shrunk by `doubt` tasks without any gain.

    Args:
        first: The baseline.
        others: The contenders.
        val: Scores on val, by a contender's number and task id.
        first_val: Scores of the first on val.
        trust: What a train task counts for beside a val task.
        doubt: Tasks without gain that are added.
    """
    best = Choice(first, 0.0)
    base = first.values()
    for contender in others:
        own, held = contender.values(), val.get(contender.number, {})
        train_gains = [own[t] - base[t] for t in own.keys() & base.keys()]
        val_gains = [held[t] - first_val[t] for t in held.keys() & first_val.keys()]
        weight = trust * len(train_gains) + len(val_gains) + doubt
        gain = (trust * sum(train_gains) + sum(val_gains)) / weight
        if gain > best.gain + 1e-9:
            best = Choice(contender, gain)
    return best
