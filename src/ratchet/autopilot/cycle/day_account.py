"""Pays for judges on live traffic out of the day's dollars."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable
from uuid import uuid4

from ratchet.autopilot.cycle.policy import day_of
from ratchet.autopilot.cycle_sections import AutopilotSection
from ratchet.llm import Account, Reply
from ratchet.store import Store
from ratchet.types import Cost, Spending


class DayAccount:
    """The day's dollars of an agent's autopilot, for spending outside a cycle's learning.

    Args:
        store: Knows what was spent, and keeps what is.
        agent: The agent.
        policy: The policy with the day's dollars.
        clock: Unix seconds.
    """

    def __init__(
        self, store: Store, agent: str, policy: AutopilotSection, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._agent = agent
        self._policy = policy
        self._clock = clock
        self._purpose = f"live judges/{uuid4().hex}"
        self._taken: defaultdict[str, float] = defaultdict(float)
        """Dollars that this process reserved, by day."""
        self._lock = threading.Lock()

    def account(self) -> Account:
        """Today's remaining dollars."""
        day = day_of(self._policy, self._clock())

        def record(kind: str, reply: Reply) -> None:
            # In a thread: the event loop must not wait for the store.
            usd = reply.cost.known_usd
            asyncio.get_running_loop().run_in_executor(None, self._take, day, usd)

        return Account(
            self._policy.dollars_per_day,
            name="Today's budget (dollars_per_day)",
            hint="It continues tomorrow, or with a higher dollars_per_day under [autopilot].",
            spent=Cost(known_usd=self._store.cycles.spent(self._agent, day).dollars),
            record=record,
        )

    def _take(self, day: str, dollars: float) -> None:
        with self._lock:
            self._taken[day] += dollars
            spending = Spending(dollars=self._taken[day])
            self._store.cycles.spend(self._agent, day, self._purpose, spending)
