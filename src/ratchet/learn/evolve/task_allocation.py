"""Allocates train tasks to candidates: which one runs which tasks next.

Racing members run on, the most promising first. Meanwhile the leader and its rivals run more and
more tasks: the highest of many noisy means over a dozen tasks is a poor parent, and a leader that
solves all its tasks leaves critiques without failures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ratchet.learn.evolve.breeding import Breeding
from ratchet.learn.evolve.budget import SearchPlan
from ratchet.learn.evolve.ending import is_little
from ratchet.learn.evolve.judging import Judging
from ratchet.learn.evolve.population import Member
from ratchet.learn.race import next_part

SHARPEN = 0.35
"""Share of the search's rollouts that go to leaders and their rivals before new candidates.
Otherwise a coach with drafts to spare would leave the leader measured only on the tasks that made
it lead."""

ROLLOUTS_A_TASK = 16
"""Number of the search's rollouts per additional task of the leader and its rivals."""

CHECK_SHARE = 0.1
"""Share of the remaining rollouts for verifying that a leader has nothing left to gain."""

Part: TypeAlias = tuple[Member, list[str]]
"""A member, and the train tasks to run."""


class TaskAllocation:
    """The rollouts of a search on train tasks.

    Args:
        order: Ids of the train tasks, in the order in which they come into use.
        plan: Sizes of the search.
        judging: State of the candidates.
        breeding: Determines which parents need more scores.
    """

    def __init__(
        self,
        order: Sequence[str],
        plan: SearchPlan,
        judging: Judging,
        breeding: Breeding,
    ) -> None:
        self.order = list(order)
        self._plan = plan
        self._judging = judging
        self._breeding = breeding
        self.begun = 0
        """Number of rollouts started."""
        self._sharpened = 0
        """Of those, rollouts of members already accepted."""

    def began(self, member: Member, rollouts: int) -> None:
        """Record a member's tasks as started."""
        self.begun += rollouts
        if member.state == "kept":
            self._sharpened += rollouts

    def dropped(self, rollouts: int) -> None:
        """Record that a new candidate was refused before it ran."""
        self.begun -= rollouts

    def next(self, left: int, promised: int, *, waiting_too: bool = False) -> Part | None:
        """The part to start next; None if there is none.

        Args:
            left: Rollouts that the search may still commit.
            promised: Rollouts of those that proposals in progress will need.
            waiting_too: Whether paused members may run, because no new drafts are due.
        """
        if left < 1:
            return None
        if self._sharpened < SHARPEN * self.begun and (part := self._sharper(left)):
            return part
        racing = [
            member
            for member in self._judging.racing
            if not member.under_way
            and not self._judging.is_untested(member)
            and (waiting_too or not self._judging.waits(member))
        ]
        for member in sorted(racing, key=self.promise, reverse=True):
            tasks = self._tasks_for(member)
            if waiting_too and len(tasks) > left:
                continue  # the rest is better spent on the comparison on val
            tasks = tasks[:left]
            if len(tasks) < min(2, self._plan.first) and not member.scores:
                return None
            if tasks:
                return member, tasks
        return self._sharper(left - promised)

    def promise(self, member: Member) -> tuple[float, int]:
        """Sort key by optimistic worth; among members without scores, oldest first."""
        if member.scores:
            standing = self._judging.race.standing(member)
        else:
            assert member.parent is not None
            standing = self._judging.race.standing(member.parent)
        return standing.mean + standing.deviation, -member.number

    def untried(self, member: Member) -> list[str]:
        """Train tasks that a member has not run: its parent's first, then those run most often."""
        parent = member.parent.scores if member.parent else {}
        counts = self._judging.runs_by_task
        place = {task: number for number, task in enumerate(self.order)}
        left = [task for task in self.order if task not in member.evaluations]
        return sorted(left, key=lambda t: (t not in parent, -counts.get(t, 0), place[t]))

    def _sharper(self, left: int) -> Part | None:
        """An accepted member, and further tasks to sharpen its estimate."""
        rivals = self._rivals()
        others = [m for m in self._judging.population.members if m not in rivals]
        for member in (*rivals, *others):
            limit = self._breeding.wanted_tasks(member)
            if member in rivals:
                limit = max(limit, self._coverage(member, left))
            if not member.under_way and len(member.evaluations) < limit:
                count = next_part(len(member.evaluations), self._plan.first, limit)
                if left >= count:
                    return member, self.untried(member)[:count]
        return None

    def _rivals(self) -> list[Member]:
        """The leader, and the member most likely to overtake it (LUCB)."""
        best = self._judging.population.best()
        race = self._judging.race
        may = [
            member
            for member in self._judging.population.members
            if member is not best and member.parents and race.may_lead(member, best)
        ]
        others = [max(may, key=self.promise)] if may else []
        return [best, *others] if best.parents else others

    def _tasks_for(self, member: Member) -> list[str]:
        if not member.evaluations:
            return list(member.first)
        return self.untried(member)[: self._judging.next_count(member)]

    def _coverage(self, member: Member, left: int) -> int:
        """Number of train tasks that a leader or rival should have run by now.

        Grows during the search; all tasks once it may have found a solution.
        """
        every = len(self.order)
        if member is self._judging.population.best() and self._may_be_all(member):
            missing = every - len(member.evaluations)
            if CHECK_SHARE * left >= missing:
                return every
        return min(every, max(2 * self._plan.first, self.begun // ROLLOUTS_A_TASK))

    def _may_be_all(self, member: Member) -> bool:
        """Whether a member's gap is negligible on half of the train tasks."""
        rest = [self._judging.top - score for score in member.scores.values()]
        return 2 * len(rest) >= len(self.order) and is_little(rest)
