"""The end of a search: the finalists meet the baseline on val, and the best estimate wins.

The highest of many noisy means is mostly luck. So the finalists are compared on val tasks that the
search has not seen, and the choice is made by the shrunken estimate over train and val together.
Half of the val tasks come first; who cannot win any more, by what is known by then, does not run
the rest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from ratchet.learn.evolve.budget import SearchLedger, SearchPlan
from ratchet.learn.evolve.judging import Judging
from ratchet.learn.evolve.population import Member
from ratchet.learn.lab import Lab
from ratchet.learn.work import Evaluation
from ratchet.types import Candidate, InputError, Task

MOST = 10
"""Finalists at most."""


class FinalComparison:
    """The comparison on val.

    Args:
        lab: Where the search works.
        plan: Numbers it keeps to.
        judging: What is known of the candidates.
        ledger: What the search has committed.
    """

    def __init__(self, lab: Lab, plan: SearchPlan, judging: Judging, ledger: SearchLedger) -> None:
        self._judging = judging
        self._plan = plan
        self._ledger = ledger
        self._val = plan.val
        self._tasks = lab.shuffled("evolve/val", lab.val)
        self._baseline = lab.baseline
        self._asked: dict[str, set[str]] = {lab.baseline.id: set()}
        self._under_way: Counter[str] = Counter()
        """Parts that run, by candidate id."""
        self._values: dict[str, dict[str, float]] = {lab.baseline.id: {}}
        self._uncounted: dict[str, dict[str, float]] = {}
        """What members scored on val that no estimate holds yet, by their ids."""
        self._finalists: list[Member] | None = None

    def reserve(self) -> int:
        """Rollouts that are still to be kept for it."""
        asked = sum(len(tasks) for tasks in self._asked.values())
        return max(0, self._plan.reserve - asked)

    def baseline_tasks(self, most: int) -> list[Task]:
        """Val tasks that the baseline has still to run, so many at most."""
        return self._left(self._baseline.id, self._plan.val)[:most]

    def tasks_ahead(self, member: Member) -> list[Task]:
        """Val tasks that a member is sure to run if it is a finalist; none for a second one."""
        others = self._asked.keys() - {self._baseline.id, member.id}
        return [] if others else self._left(member.id, math.ceil(self._val / 2))

    def next_parts(self) -> list[tuple[Candidate, list[Task]]]:
        """Candidates and tasks to run now; none for who runs already, or when it is over."""
        if self._finalists is None:
            self._finalists = self._choose()
        parts = []
        alive = self._alive()
        for member in (self._judging.baseline, *alive):
            if not self._under_way[member.id]:
                # In halves, so that who cannot win runs no more; who leads will most likely.
                tasks = self._left(member.id, math.ceil(self._val / 2))
                if not tasks or member in alive[:1]:
                    tasks = self._left(member.id, self._val)
                if tasks:
                    parts.append((member.candidate, tasks))
        return parts

    def started(self, candidate: Candidate, tasks: Sequence[Task]) -> None:
        """Rollouts are under way."""
        self._asked.setdefault(candidate.id, set()).update(task.id for task in tasks)
        self._under_way[candidate.id] += 1

    def take(self, candidate: Candidate, evaluations: Sequence[Evaluation]) -> None:
        """Take what a candidate scored."""
        self._under_way[candidate.id] -= 1
        values = {e.task.id: e.value for e in evaluations if e.value is not None}
        self._values.setdefault(candidate.id, {}).update(values)
        named = {f"val/{task}": value for task, value in values.items()}
        if named:
            self._uncounted.setdefault(candidate.id, {}).update(named)
        self._count()

    def _count(self) -> None:
        """Let the estimates hold what was scored on val.

        Val is less kind than train, on which members came to lead: whoever alone has met it would
        only seem worse than the others.
        """
        several = len(self._values.keys() - {self._baseline.id}) > 1
        for member_id in list(self._uncounted):
            if several or member_id == self._baseline.id:
                named = self._uncounted.pop(member_id)
                self._judging.race.estimate.add(member_id, None, named)

    def gave_up(self, candidate: Candidate) -> None:
        """Rollouts were not allowed any more; what is known has to do."""
        self._under_way[candidate.id] -= 1

    def result(self) -> tuple[Candidate, float, float]:
        """The best candidate, the baseline's mean on val, and the best one's on the same tasks.

        Raises:
            InputError: The evaluator never said anything of the source on val.
        """
        own = self._values[self._baseline.id]
        if not own:
            raise InputError(
                "No val task has a score: the objective's evaluator failed on every rollout of the"
                " source.",
                hint="See why: ratchet eval.",
            )
        choice = self._judging.race.choose(
            self._judging.baseline, self._finalists or [], self._values
        )
        return choice.entry.candidate, choice.first_val, choice.best_val

    def _choose(self) -> list[Member]:
        standing = self._judging.race.standing
        members = [m for m in self._judging.population.members if m.parents]
        members.sort(key=lambda m: (-standing(m).mean, m.number))
        least = standing(self._judging.baseline).mean
        better = [m for m in members if standing(m).mean > least]
        return better[: self._affordable(better)]

    def _affordable(self, members: Sequence[Member]) -> int:
        """How many finalists there may be: what the search left over is spent here."""
        left = min(self._ledger.left(), 10**9)
        most = len(members)
        count = min(self._plan.finalists, most)

        def fits(val: int, count: int) -> bool:
            ids = [self._baseline.id, *(member.id for member in members[:count])]
            return sum(max(0, val - len(self._asked.get(one, ()))) for one in ids) <= left

        while self._val < len(self._tasks) and fits(self._val + 1, count):
            self._val += 1
        while count < min(most, MOST) and fits(self._val, count + 1):
            count += 1
        return count

    def _alive(self) -> list[Member]:
        """Finalists that may still win, the one that leads first."""
        finalists, race = self._finalists or [], self._judging.race
        if not finalists:
            return []
        leader = race.best(finalists)
        return [leader, *(m for m in finalists if m is not leader and race.may_lead(m, leader))]

    def _left(self, candidate_id: str, limit: int) -> list[Task]:
        asked = self._asked.get(candidate_id, set())
        return [task for task in self._tasks[:limit] if task.id not in asked]
