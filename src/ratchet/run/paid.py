"""Runs rollouts within an account or a maximum number: no more than what is left covers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from ratchet.llm import Account
from ratchet.store import Store
from ratchet.types import FINAL, BudgetExhausted, Candidate, Rollout
from ratchet.types.wording import counted

KIND = "rollout"
"""Kind of work under which an account remembers the cost."""


class RolloutRunner(Protocol):
    """Runs rollouts to completion; implemented by `Runner`."""

    async def run(
        self,
        rollouts: Sequence[Rollout],
        candidates: Sequence[Candidate],
        on_finish: Callable[[Rollout], None] | None = None,
    ) -> dict[str, Rollout]:
        """Run the rollouts; returns the ended ones by id."""
        ...


async def run_paid(
    runner: RolloutRunner,
    account: Account,
    rollouts: Sequence[Rollout],
    candidates: Sequence[Candidate],
    on_finish: Callable[[Rollout], None] | None = None,
    *,
    free: frozenset[str] = frozenset(),
) -> dict[str, Rollout]:
    """Run rollouts and pay for them.

    Args:
        runner: Runs them.
        account: Pays for them.
        rollouts: The rollouts.
        candidates: Their candidates.
        on_finish: Called when one ends.
        free: Ids of those that were paid for before.

    Returns:
        The ended rollouts by id.

    Raises:
        BudgetExhausted: What is left does not cover another. Those that ran are kept.
    """
    ended: dict[str, Rollout] = {}
    free_rollouts = [rollout for rollout in rollouts if rollout.id in free]
    due = [rollout for rollout in rollouts if rollout.id not in free]
    while free_rollouts or due:
        count = await account.admit(KIND, len(due)) if due else 0
        new, due = due[:count], due[count:]
        reservation = account.reserve(KIND, count)
        costs = []
        try:
            finished = await runner.run([*free_rollouts, *new], candidates, on_finish)
            costs = [finished[rollout.id].cost for rollout in new]
        finally:
            account.end(reservation, KIND, costs)
        ended.update(finished)
        free_rollouts = []
    return ended


class PaidRunner:
    """A runner whose rollouts are paid from an account, except those that ended before.

    Args:
        runner: Runs them.
        account: Pays for them.
        store: Knows which have ended.
    """

    def __init__(self, runner: RolloutRunner, account: Account, store: Store) -> None:
        self._runner = runner
        self._account = account
        self._store = store
        self.slots = int(getattr(runner, "slots", 1))

    async def run(
        self,
        rollouts: Sequence[Rollout],
        candidates: Sequence[Candidate],
        on_finish: Callable[[Rollout], None] | None = None,
    ) -> dict[str, Rollout]:
        """Run the rollouts; returns the ended ones by id.

        Raises:
            BudgetExhausted: What is left does not cover another. Those that ran are kept.
        """
        stored = await asyncio.to_thread(
            self._store.rollouts.get, [rollout.id for rollout in rollouts]
        )
        free = frozenset(id for id, rollout in stored.items() if rollout.status in FINAL)
        return await run_paid(
            self._runner, self._account, rollouts, candidates, on_finish, free=free
        )


class CappedRunner:
    """A runner that adds a limited number of rollouts to the store, for all callers together.

    Args:
        runner: Runs them.
        store: Knows which it has.
        queue: Of the rollouts that count, also those of an earlier attempt.
        most: The number.
        since: Unix time from which on rollouts of any queue count.
    """

    def __init__(
        self, runner: RolloutRunner, store: Store, queue: str, most: int, since: float
    ) -> None:
        self._runner = runner
        self._store = store
        self._queue = queue
        self._most = most
        self._since = since
        self.slots = int(getattr(runner, "slots", 1))

    async def run(
        self,
        rollouts: Sequence[Rollout],
        candidates: Sequence[Candidate],
        on_finish: Callable[[Rollout], None] | None = None,
    ) -> dict[str, Rollout]:
        """Run the rollouts; returns the ended ones by id.

        Raises:
            BudgetExhausted: They are more than what is left. Those that ran before are kept.
        """
        ids = list(dict.fromkeys(rollout.id for rollout in rollouts))
        new, spent = await asyncio.to_thread(self._new_and_spent, ids)
        if new and spent + new > self._most:
            raise BudgetExhausted(
                f"This run has used {spent} of its {counted(self._most, 'rollout')}, and the next "
                f"step needs {new}.",
                hint="The results so far are kept. Allow more rollouts, or use fewer tasks.",
            )
        return await self._runner.run(rollouts, candidates, on_finish)

    def _new_and_spent(self, ids: Sequence[str]) -> tuple[int, int]:
        counts = self._store.rollouts.counts
        spent = max(
            sum(counts(queue=self._queue).values()), sum(counts(since=self._since).values())
        )
        return len(ids) - len(self._store.rollouts.get(ids)), spent
