"""The race: candidates compared with their parents on growing sets of tasks.

A child runs the tasks of its parent, so that the difficulty of the tasks cancels out of their
difference (common random numbers; Maron & Moore 1994). All algorithms answer three questions in the
same way:

- Is the child worse? An e-process (`stats.EProcess`) bets on each difference in turn that it is.
  The child is dropped for good when the e-value reaches `1 / ERROR`. Of the children that are no
  worse, at most a share of `ERROR` is dropped, however often the e-value is checked (Ville 1939).
- How good is it? `Estimate` fits all scores jointly and shrinks a child towards its parent.
- Is it worth more rollouts? A child that may still lead runs on, in parts that double (Karnin et
  al. 2013), as long as it gains over its parent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from ratchet.learn.estimate import Estimate, Standing
from ratchet.learn.work import Evaluation
from ratchet.stats import EProcess
from ratchet.types import Candidate, Task
from ratchet.types.wording import counted

ERROR = 0.1
"""Upper bound on the share of children that are dropped as worse although they are no worse than
their parents."""

OPTIMISM = 1.0
"""Standard deviations above the estimate in the optimistic bound of `may_lead`."""

SCORE_TOLERANCE = 1e-9
"""Differences below this count as zero."""


class RaceEntry:
    """A candidate in a race.

    Args:
        number: Position in the order of proposals; 0 for the entry that the race starts with.
        candidate: The candidate.
        parent: The entry that it was derived from and is compared with.
    """

    def __init__(self, number: int, candidate: Candidate, parent: RaceEntry | None = None) -> None:
        self.number = number
        self.candidate = candidate
        self.parent = parent
        self.evaluations: dict[str, Evaluation] = {}
        """By task id, in arrival order."""
        self.scores: dict[str, float] = {}
        """Objective by task id, in the same order; a missing score counts as 0."""

    @property
    def id(self) -> str:
        """The candidate's id."""
        return self.candidate.id

    def add(self, evaluations: Iterable[Evaluation]) -> dict[str, float]:
        """Add evaluations; returns the new scores by task id."""
        scores = {}
        for evaluation in evaluations:
            task = evaluation.task.id
            self.evaluations[task] = evaluation
            scores[task] = self.scores[task] = evaluation.worth
        return scores

    def mean(self) -> float:
        """Mean score; 0 without scores."""
        return math.fsum(self.scores.values()) / len(self.scores) if self.scores else 0.0

    def failing(self, best: float = 1.0) -> list[str]:
        """Ids of the tasks below the best possible score, lowest score first."""
        failing = [task for task, score in self.scores.items() if score < best - SCORE_TOLERANCE]
        return sorted(failing, key=self.scores.__getitem__)

    def differences(self) -> list[float]:
        """Its score minus its parent's on each task that both ran, in its own order."""
        base = self.parent.scores if self.parent else {}
        return [score - base[task] for task, score in self.scores.items() if task in base]

    def gained(self) -> str:
        """One sentence comparing it with its parent on the tasks that both ran."""
        base = self.parent.scores if self.parent else {}
        shared = self.scores.keys() & base.keys()
        if not shared:
            return ""
        after = math.fsum(self.scores[t] for t in shared) / len(shared)
        before = math.fsum(base[t] for t in shared) / len(shared)
        tasks = f"{counted(len(shared), 'train task')}" if len(shared) > 1 else "1 train task"
        return f"{after:.3g} instead of its parent's {before:.3g} on {tasks}."


AnyEntry = TypeVar("AnyEntry", bound=RaceEntry)


class RaceResult(msgspec.Struct, Generic[AnyEntry], frozen=True):
    """The selected entry, with its mean and the first entry's on the same val tasks."""

    entry: AnyEntry
    first_val: float
    best_val: float


class Race(Generic[AnyEntry]):
    """Entries of a race and the estimate of their worth."""

    def __init__(self) -> None:
        self.estimate = Estimate()

    @property
    def top(self) -> float:
        """The highest possible score, as far as observed."""
        return self.estimate.top

    def add(self, entry: AnyEntry, evaluations: Sequence[Evaluation]) -> dict[str, float]:
        """Add an entry's evaluations; returns the new scores by task id."""
        scores = entry.add(evaluations)
        if scores:
            self.estimate.add(entry.id, entry.parent.id if entry.parent else None, scores)
        return scores

    def standing(self, entry: AnyEntry) -> Standing:
        """Estimated worth of an entry that has scores."""
        return self.estimate.standing(entry.id)

    def best(self, entries: Iterable[AnyEntry]) -> AnyEntry:
        """The entry with the highest estimate; the oldest among equals."""
        return max(entries, key=lambda entry: (self.standing(entry).mean, -entry.number))

    def may_lead(self, entry: AnyEntry, leader: AnyEntry) -> bool:
        """Whether an entry's optimistic estimate reaches that of the current leader."""
        standing = self.standing(entry)
        return standing.mean + OPTIMISM * standing.deviation >= self.standing(leader).mean

    def is_worse(self, entry: AnyEntry, tasks: int) -> bool:
        """Whether an entry has been shown to be worse than its parent.

        Args:
            entry: The entry, with its scores so far.
            tasks: Number of tasks it may run in total.
        """
        scale = max(1.0, self.estimate.highest)
        return is_worse([gain / scale for gain in self.gains(entry)], tasks)

    def gains(self, entry: AnyEntry) -> list[float]:
        """Differences to the parent's scores, corrected for the parent's luck.

        A parent was selected for its scores, so some of them are luck where answers vary from run
        to run; a child that is better by a little scores below them. Differences without any gain
        are returned as they are: they do not show that the child does anything better.
        """
        differences = entry.differences()
        if entry.parent is None or not any(
            difference > SCORE_TOLERANCE for difference in differences
        ):
            return differences
        luck = max(0.0, self.estimate.luck(entry.parent.id))
        return [difference + luck for difference in differences]

    def choose(
        self,
        first: AnyEntry,
        finalists: Sequence[AnyEntry],
        val: Mapping[str, Mapping[str, float]],
        *,
        is_last: bool = True,
    ) -> RaceResult[AnyEntry]:
        """The entry with the highest estimate over train and val; the first if none holds on val.

        The highest of many noisy means is mostly chance, so the shrunken estimate decides. Train
        scores are biased, since the search selected on them: an entry that scores below the first
        on val is rejected, unless a later search continues from it and compares again. A small
        gain on few val tasks looks like a loss almost as often as like a gain: refusing it each
        time would drop a chain of them.

        Args:
            first: The baseline, which must have scores on val.
            finalists: The finalists.
            val: Scores on val by candidate id and task id.
            is_last: Whether no other comparison follows.
        """
        own = val[first.id]
        for entry in (first, *finalists):
            scores = {f"val/{task}": score for task, score in val.get(entry.id, {}).items()}
            if scores:
                self.estimate.add(entry.id, entry.parent.id if entry.parent else None, scores)
        best = first
        for entry in finalists:
            on_val = val.get(entry.id, {})
            gains = [score - own[task] for task, score in on_val.items() if task in own]
            holds = gains and (not is_last or math.fsum(gains) >= -SCORE_TOLERANCE)
            if holds and self.standing(entry).mean > self.standing(best).mean + SCORE_TOLERANCE:
                best = entry
        shared = [task for task in val[best.id] if task in own]
        return RaceResult(
            best,
            math.fsum(own[task] for task in shared) / len(shared),
            math.fsum(val[best.id][task] for task in shared) / len(shared),
        )


def is_worse(differences: Iterable[float], tasks: int) -> bool:
    """Whether the mean of the differences is shown to be below 0, at error rate `ERROR`.

    Args:
        differences: Child minus parent, each in [-1, 1]; values outside are clipped.
        tasks: Number of differences expected in total; affects only the size of the bets.
    """
    process = EProcess(threshold=1.0 / ERROR, horizon=max(1, tasks))
    for difference in differences:
        process.observe(max(-1.0, min(1.0, -difference)))
        if process.reached:
            return True
    return False


def next_part(evaluated: int, first: int, limit: int) -> int:
    """Number of tasks to run next: as many as have already run, but at least `first`."""
    return max(0, min(max(evaluated, first), limit - evaluated))


def untried(entry: RaceEntry, tasks: Sequence[Task]) -> list[Task]:
    """The tasks that an entry has not run."""
    return [task for task in tasks if task.id not in entry.evaluations]
