"""The final selection: finalists and baseline are compared on val; the best estimate wins.

The highest of many noisy means is mostly chance. So the finalists are compared on val tasks that
the search has not used, and selected by the shrunken estimate over train and val together. Half of
the val tasks run first; finalists that can no longer win skip the rest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from ratchet.learn.evolve.budget import SearchLedger, SearchPlan
from ratchet.learn.evolve.judging import Judging
from ratchet.learn.evolve.population import Member
from ratchet.learn.lab import Lab
from ratchet.learn.work import Evaluation, require_scores, scores_of
from ratchet.types import Candidate, Task

MOST = 10
"""Maximum number of finalists."""


class FinalComparison:
    """The comparison on val.

    Args:
        lab: The lab to search in.
        plan: Sizes of the search.
        judging: State of the candidates.
        ledger: Committed spending.
    """

    def __init__(self, lab: Lab, plan: SearchPlan, judging: Judging, ledger: SearchLedger) -> None:
        self._judging = judging
        self._plan = plan
        self._ledger = ledger
        self._val = plan.val
        self._tasks = lab.shuffled("evolve/val", lab.val)
        self._baseline = lab.baseline
        self._is_last = lab.is_last
        self._asked: dict[str, set[str]] = {lab.baseline.id: set()}
        self._under_way: Counter[str] = Counter()
        """Number of parts in flight, by candidate id."""
        self._values: dict[str, dict[str, float]] = {lab.baseline.id: {}}
        self._of_baseline: list[Evaluation] = []
        self._uncounted: dict[str, dict[str, float]] = {}
        """Val scores not yet added to the estimates, by member id."""
        self._finalists: list[Member] | None = None

    def reserve(self) -> int:
        """Rollouts that must still be reserved for the comparison."""
        asked = sum(len(tasks) for tasks in self._asked.values())
        return max(0, self._plan.reserve - asked)

    def baseline_tasks(self, most: int) -> list[Task]:
        """Val tasks that the baseline has yet to run, at most this many."""
        return self._left(self._baseline.id, self._plan.val)[:most]

    def tasks_ahead(self, member: Member) -> list[Task]:
        """Val tasks that a member will run if it is a finalist; none for a second member."""
        others = self._asked.keys() - {self._baseline.id, member.id}
        return [] if others else self._left(member.id, math.ceil(self._val / 2))

    def next_parts(self) -> list[tuple[Candidate, list[Task]]]:
        """Candidates and tasks to run now; none for candidates in flight, or when it is over."""
        if self._finalists is None:
            self._finalists = self._choose()
        parts = []
        alive = self._alive()
        for member in (self._judging.baseline, *alive):
            if not self._under_way[member.id]:
                # In halves, so that candidates that cannot win stop early; the leader will run them
                # all.
                tasks = self._left(member.id, math.ceil(self._val / 2))
                if not tasks or member in alive[:1]:
                    tasks = self._left(member.id, self._val)
                if tasks:
                    parts.append((member.candidate, tasks))
        return parts

    def started(self, candidate: Candidate, tasks: Sequence[Task]) -> None:
        """Record rollouts in flight."""
        self._asked.setdefault(candidate.id, set()).update(task.id for task in tasks)
        self._under_way[candidate.id] += 1

    def take(self, candidate: Candidate, evaluations: Sequence[Evaluation]) -> None:
        """Record a candidate's evaluations."""
        self._under_way[candidate.id] -= 1
        if candidate.id == self._baseline.id:
            self._of_baseline += evaluations
        values = scores_of(evaluations)
        self._values.setdefault(candidate.id, {}).update(values)
        named = {f"val/{task}": value for task, value in values.items()}
        if named:
            self._uncounted.setdefault(candidate.id, {}).update(named)
        self._count()

    def _count(self) -> None:
        """Add the val scores to the estimates.

        Val scores are lower than the train scores that members were selected on: a member that
        alone has val scores would seem worse than the others.
        """
        several = len(self._values.keys() - {self._baseline.id}) > 1
        for member_id in list(self._uncounted):
            if several or member_id == self._baseline.id:
                named = self._uncounted.pop(member_id)
                self._judging.race.estimate.add(member_id, None, named)

    def gave_up(self, candidate: Candidate) -> None:
        """Record that no more rollouts are allowed; the scores so far must do."""
        self._under_way[candidate.id] -= 1

    def result(self) -> tuple[Candidate, float, float]:
        """The best candidate, the baseline's mean on val, and the best one's on the same tasks.

        Raises:
            InputError: The source has no score on val.
        """
        require_scores(self._of_baseline, "val")
        choice = self._judging.race.choose(
            self._judging.baseline, self._finalists or [], self._values, is_last=self._is_last
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
        """Number of finalists that the rest of the budget covers."""
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
        """Finalists that may still win, the leader first."""
        finalists, race = self._finalists or [], self._judging.race
        if not finalists:
            return []
        leader = race.best(finalists)
        return [leader, *(m for m in finalists if m is not leader and race.may_lead(m, leader))]

    def _left(self, candidate_id: str, limit: int) -> list[Task]:
        asked = self._asked.get(candidate_id, set())
        return [task for task in self._tasks[:limit] if task.id not in asked]
