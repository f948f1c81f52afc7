"""Who waits for the repository's own tests, who is tested next, and how far others run ahead."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ratchet.learn.evolve.budget import SearchPlan
from ratchet.learn.evolve.judging import Judging
from ratchet.learn.evolve.population import Member

AT_ONCE = 2
"""Members whose tests run at once: rollouts of others are to go on beside them."""

AHEAD = 2
"""How many times as many candidates may begin while one waits for tests as may be unjudged at once.
"""


class TestQueue:
    """The second stage of the checks, in a search.

    Args:
        judging: What is known of the candidates.
        plan: Numbers that the search keeps to.
    """

    __test__ = False

    def __init__(self, judging: Judging, plan: SearchPlan) -> None:
        self._judging = judging
        self._plan = plan
        self._begun = 0
        self._since: dict[int, int] = {}
        """How many candidates had begun when a member began to wait, by its number."""

    def waiting(self) -> list[Member]:
        """Members that have shown something and run no more before their code passes tests."""
        return [m for m in self._judging.racing if self._judging.waits_for_tests(m)]

    def next(
        self, under_way: Collection[Member], promise: Callable[[Member], Any], *, over: bool
    ) -> list[Member]:
        """Members to test now, the most promising first.

        Args:
            under_way: Those whose tests run.
            promise: What to order them by.
            over: Whether the search has ended: then only who lacks nothing else is tested.
        """
        chosen: list[Member] = []
        for member in sorted(self.waiting(), key=promise, reverse=True):
            if len(under_way) + len(chosen) >= AT_ONCE:
                break
            if member in under_way:
                continue
            # Since it ran, another one may have left it behind.
            self._judging.decide(member)
            lacks = len(member.evaluations) < self._judging.enough(member)
            if member.state == "racing" and not (over and lacks):
                chosen.append(member)
        return chosen

    def began(self) -> None:
        """A candidate has begun to run."""
        self._begun += 1

    def may_begin(self) -> int:
        """Candidates that may still begin while some wait.

        What those would teach, the others lack; and where rollouts are quicker than tests, the
        whole budget would be spent without it. Who waits longest sets the limit.
        """
        since = [self._since.setdefault(m.number, self._begun) for m in self.waiting()]
        ahead = self._begun - min(since, default=self._begun)
        return AHEAD * self._plan.breadth - ahead
