"""Which candidate runs which train tasks next.

Those who race run on, the most promising first. Who leads, and who may prove better, is measured on
more and more tasks meanwhile: the luckiest of many on a dozen tasks is a poor parent, and a leader
that solves all that it was shown says nothing of what is left to improve.
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
"""Share of the search's rollouts that those who may lead get before new candidates do. Else a coach
with drafts to spare would keep who leads unknown but for the tasks that made it lead."""

ROLLOUTS_A_TASK = 16
"""Rollouts of the search for which whoever may lead is to have run one more task."""

CHECK_SHARE = 0.1
"""Share of the rollouts left that may go to seeing whether a leader has left nothing to find."""

Part: TypeAlias = tuple[Member, list[str]]
"""A member, and the train tasks that it is to run."""


class TaskAllocation:
    """The rollouts of a search on train tasks.

    Args:
        order: Ids of the train tasks, in the order in which they come into play.
        plan: Numbers that the search keeps to.
        judging: What is known of the candidates.
        breeding: Knows which parents are to show more.
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
        """Rollouts begun."""
        self._sharpened = 0
        """Those of candidates that were kept already."""

    def began(self, member: Member, rollouts: int) -> None:
        """A member runs tasks."""
        self.begun += rollouts
        if member.state == "kept":
            self._sharpened += rollouts

    def dropped(self, rollouts: int) -> None:
        """A new candidate was refused before it ran."""
        self.begun -= rollouts

    def next(self, left: int, promised: int, *, waiting_too: bool = False) -> Part | None:
        """The part that is to begin next; None when there is none.

        Args:
            left: Rollouts that the search may still commit.
            promised: How many of them proposals under way will need.
            waiting_too: Whether those may run who wait for new drafts, since there are none.
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
                continue  # the comparison on val makes more of what is left over
            tasks = tasks[:left]
            if len(tasks) < min(2, self._plan.first) and not member.scores:
                return None
            if tasks:
                return member, tasks
        return self._sharper(left - promised)

    def promise(self, member: Member) -> tuple[float, int]:
        """How good a member may yet be; of those of which nothing is known, the oldest first."""
        if member.scores:
            standing = self._judging.race.standing(member)
        else:
            assert member.parent is not None
            standing = self._judging.race.standing(member.parent)
        return standing.mean + standing.deviation, -member.number

    def untried(self, member: Member) -> list[str]:
        """Train tasks that a member did not run: first its parent's, then those that most ran."""
        parent = member.parent.scores if member.parent else {}
        counts = self._judging.runs_by_task
        place = {task: number for number, task in enumerate(self.order)}
        left = [task for task in self.order if task not in member.evaluations]
        return sorted(left, key=lambda t: (t not in parent, -counts.get(t, 0), place[t]))

    def _sharper(self, left: int) -> Part | None:
        """A member that was kept, and further tasks by which it is known better."""
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
        """The member that leads and the one that may most likely prove better (LUCB)."""
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
        """Train tasks that a member that may lead is to have run by now.

        More as the search goes on, and all once it may have found what it looks for.
        """
        every = len(self.order)
        if member is self._judging.population.best() and self._may_be_all(member):
            missing = every - len(member.evaluations)
            if CHECK_SHARE * left >= missing:
                return every
        return min(every, max(2 * self._plan.first, self.begun // ROLLOUTS_A_TASK))

    def _may_be_all(self, member: Member) -> bool:
        """Whether a member leaves next to nothing on half of the train tasks."""
        rest = [self._judging.top - score for score in member.scores.values()]
        return 2 * len(rest) >= len(self.order) and is_little(rest)
