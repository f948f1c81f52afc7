"""Queues members for the repository's own tests, and limits new candidates while they wait."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ratchet.learn.evolve.budget import SearchPlan
from ratchet.learn.evolve.judging import Judging
from ratchet.learn.evolve.population import Member

AT_ONCE = 2
"""Number of members tested at once: other rollouts continue beside them."""

AHEAD = 2
"""Limit on candidates started while a member waits for tests, as a multiple of the proposals that
may be in flight.
"""


class TestQueue:
    """The queue for the second stage of the checks.

    Args:
        judging: State of the candidates.
        plan: Sizes of the search.
    """

    __test__ = False

    def __init__(self, judging: Judging, plan: SearchPlan) -> None:
        self._judging = judging
        self._plan = plan
        self._begun = 0
        self._since: dict[int, int] = {}
        """Number of candidates started before each member began to wait, by member number."""

    def waiting(self) -> list[Member]:
        """Promising members that may not run more until their code passes the tests."""
        return [m for m in self._judging.racing if self._judging.waits_for_tests(m)]

    def next(
        self, under_way: Collection[Member], promise: Callable[[Member], Any], *, over: bool
    ) -> list[Member]:
        """Members to test now, most promising first.

        Args:
            under_way: Members being tested.
            promise: Sort key.
            over: Whether the search has ended: then only members that lack nothing else are tested.
        """
        chosen: list[Member] = []
        for member in sorted(self.waiting(), key=promise, reverse=True):
            if len(under_way) + len(chosen) >= AT_ONCE:
                break
            if member in under_way:
                continue
            # Another member may have overtaken it since it ran.
            self._judging.decide(member)
            lacks = len(member.evaluations) < self._judging.enough(member)
            if member.state == "racing" and not (over and lacks):
                chosen.append(member)
        return chosen

    def began(self) -> None:
        """Record that a candidate started to run."""
        self._begun += 1

    def may_begin(self) -> int:
        """Number of candidates that may start while members wait for tests.

        New candidates cannot yet learn from the waiting members; if rollouts are faster than tests,
        the whole budget would be spent before they can. The longest wait sets the limit.
        """
        since = [self._since.setdefault(m.number, self._begun) for m in self.waiting()]
        ahead = self._begun - min(since, default=self._begun)
        return AHEAD * self._plan.breadth - ahead
