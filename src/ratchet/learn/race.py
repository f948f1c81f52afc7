"""The race: candidates compared on growing sets of tasks, each with the one that it was made from.

A child runs the tasks of its parent, so that their difference is free of how hard the tasks are
(common random numbers; Maron & Moore 1994). Three questions are asked, each in one way by all
algorithms:

- Is it worse? An e-process bets on each difference in turn that it is (`stats.EProcess`). The child
  is dropped for good when the stake has grown to `1 / ERROR`. Of children that are no worse at most
  that share is dropped so, however often one looks (Ville 1939).
- How good is it? `Estimate` fits all scores at once and shrinks a child towards its parent.
- Is it worth the next rollouts? Whoever may lead runs on, in parts that double (Karnin et al.
  2013), as long as it gains over its parent, or promises more gain per rollout than a new draft
  does. Who does not waits; its turn may come later.
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

ERROR = 0.1
"""Largest share of children, no worse than their parents, that may be dropped as worse."""

OPTIMISM = 1.0
"""Standard deviations above its estimate up to which a candidate may still prove to be."""

EVEN = 1e-9
"""Differences below this are none."""


class RaceEntry:
    """A candidate in a race.

    Args:
        number: In the order of proposals; 0 for the one that the race begins with.
        candidate: The candidate.
        parent: The entry that it was made from and is compared with.
    """

    def __init__(self, number: int, candidate: Candidate, parent: RaceEntry | None = None) -> None:
        self.number = number
        self.candidate = candidate
        self.parent = parent
        self.evaluations: dict[str, Evaluation] = {}
        """By task id, in the order in which they came; those without a score too."""
        self.scores: dict[str, float] = {}
        """Objective by task id, in the same order."""

    @property
    def id(self) -> str:
        """The candidate's id."""
        return self.candidate.id

    def add(self, evaluations: Iterable[Evaluation]) -> dict[str, float]:
        """Take what was measured; returns the scores among it, by task id."""
        scores = {}
        for evaluation in evaluations:
            task = evaluation.task.id
            self.evaluations[task] = evaluation
            if evaluation.value is not None:
                scores[task] = self.scores[task] = evaluation.value
        return scores

    def mean(self) -> float:
        """Mean of its scores; 0 without any."""
        return math.fsum(self.scores.values()) / len(self.scores) if self.scores else 0.0

    def failing(self, best: float = 1.0) -> list[str]:
        """Tasks that it ran and did not do as well as can be, worst first."""
        found = [
            task
            for task in self.evaluations
            if task not in self.scores or self.scores[task] < best - EVEN
        ]
        return sorted(found, key=lambda task: self.scores.get(task, -math.inf))

    def differences(self) -> list[float]:
        """Its scores minus its parent's on the tasks that both ran, in its own order."""
        base = self.parent.scores if self.parent else {}
        return [score - base[task] for task, score in self.scores.items() if task in base]

    def gained(self) -> str:
        """How it compares with its parent on the tasks that both ran, in a sentence."""
        base = self.parent.scores if self.parent else {}
        shared = self.scores.keys() & base.keys()
        if not shared:
            return ""
        after = math.fsum(self.scores[t] for t in shared) / len(shared)
        before = math.fsum(base[t] for t in shared) / len(shared)
        tasks = f"{len(shared)} train tasks" if len(shared) > 1 else "1 train task"
        return f"{after:.3g} instead of its parent's {before:.3g} on {tasks}."


AnyEntry = TypeVar("AnyEntry", bound=RaceEntry)


class RaceResult(msgspec.Struct, Generic[AnyEntry], frozen=True):
    """The entry that was chosen, with the means of the first and its own on the same val tasks."""

    entry: AnyEntry
    first_val: float
    best_val: float


class Race(Generic[AnyEntry]):
    """Entries, and what is known of them."""

    def __init__(self) -> None:
        self.estimate = Estimate()

    @property
    def top(self) -> float:
        """The best score there can be, as far as one knows."""
        return self.estimate.top

    def add(self, entry: AnyEntry, evaluations: Sequence[Evaluation]) -> dict[str, float]:
        """Take what an entry scored; returns the scores by task id."""
        scores = entry.add(evaluations)
        if scores:
            self.estimate.add(entry.id, entry.parent.id if entry.parent else None, scores)
        return scores

    def standing(self, entry: AnyEntry) -> Standing:
        """How good an entry that has scores seems to be."""
        return self.estimate.standing(entry.id)

    def best(self, entries: Iterable[AnyEntry]) -> AnyEntry:
        """The one that seems best, the oldest of equals."""
        return max(entries, key=lambda one: (self.standing(one).mean, -one.number))

    def may_lead(self, entry: AnyEntry, leader: AnyEntry) -> bool:
        """Whether an entry may yet prove better than the one that leads."""
        standing = self.standing(entry)
        return standing.mean + OPTIMISM * standing.deviation >= self.standing(leader).mean

    def is_worse(self, entry: AnyEntry, tasks: int) -> bool:
        """Whether an entry is shown to be worse than its parent.

        Args:
            entry: With the scores that it has so far.
            tasks: How many it may come to run.
        """
        scale = max(1.0, self.estimate.highest)
        return is_worse([one / scale for one in entry.differences()], tasks)

    def is_worth(self, entry: AnyEntry, cost: int, *, share: float, draft: int) -> bool:
        """Whether an entry gained over its parent so far, or promises more than a new draft does.

        Args:
            entry: One with scores, and with a parent that has some.
            cost: Rollouts that it would run next.
            share: Share of drafts that prove better than their parents.
            draft: Rollouts that a draft runs first.
        """
        assert entry.parent is not None
        if math.fsum(entry.differences()) > EVEN:
            return True
        # Where half of the drafts are better, a draft promises what the estimate expects of one.
        return self.estimate.hope(entry.id, entry.parent.id) * draft > 2.0 * share * cost

    def choose(
        self, first: AnyEntry, others: Sequence[AnyEntry], val: Mapping[str, Mapping[str, float]]
    ) -> RaceResult[AnyEntry]:
        """The best by train and val together, which have to be with it, or else the first.

        The highest of many noisy means is mostly luck, so the shrunken estimate decides. Train, on
        which it was chosen, flatters: where val speaks against an entry, it is out.

        Args:
            first: The baseline, which has to have scores on val.
            others: The finalists.
            val: Scores on val by candidate id, and task id.
        """
        own = val[first.id]
        for entry in (first, *others):
            scores = {f"val/{task}": score for task, score in val.get(entry.id, {}).items()}
            if scores:
                self.estimate.add(entry.id, entry.parent.id if entry.parent else None, scores)
        best = first
        for entry in others:
            held = val.get(entry.id, {})
            gains = [score - own[task] for task, score in held.items() if task in own]
            holds = gains and math.fsum(gains) >= -EVEN
            if holds and self.standing(entry).mean > self.standing(best).mean + EVEN:
                best = entry
        shared = [task for task in val[best.id] if task in own]
        return RaceResult(
            best,
            math.fsum(own[task] for task in shared) / len(shared),
            math.fsum(val[best.id][task] for task in shared) / len(shared),
        )


def is_worse(differences: Iterable[float], tasks: int) -> bool:
    """Whether differences show that their mean is below 0, at `ERROR`.

    Args:
        differences: Child minus parent, each in [-1, 1]; what is beyond counts as the end of it.
        tasks: How many there may be in the end; it only steers the bets.
    """
    process = EProcess(threshold=1.0 / ERROR, horizon=max(1, tasks))
    for difference in differences:
        process.observe(max(-1.0, min(1.0, -difference)))
        if process.reached:
            return True
    return False


def next_part(known: int, first: int, limit: int) -> int:
    """How many tasks to run next: as many as are known already, at least the first part."""
    return max(0, min(max(known, first), limit - known))


def untried(entry: RaceEntry, tasks: Sequence[Task]) -> list[Task]:
    """Those of the tasks that an entry has not run."""
    return [task for task in tasks if task.id not in entry.evaluations]
