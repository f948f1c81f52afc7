"""Wanted: the rollouts that somebody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import msgspec

from ratchet.types import Outcome, Rollout, RolloutStatus


class Wanted:
    """A future for each rollout that somebody waits for; who waits for the same shares it."""

    def __init__(self) -> None:
        self._futures: dict[str, asyncio.Future[Rollout]] = {}

    def __bool__(self) -> bool:
        return bool(self._futures)

    def __contains__(self, rollout_id: str) -> bool:
        return rollout_id in self._futures

    def add(self, rollout_id: str) -> asyncio.Future[Rollout]:
        """Want a rollout; the future tells how it ended."""
        new = asyncio.get_running_loop().create_future()
        return self._futures.setdefault(rollout_id, new)

    def but(self, others: Collection[str]) -> list[str]:
        """What is wanted and not among the others."""
        return [rollout_id for rollout_id in self._futures if rollout_id not in others]

    def settle(self, rollout: Rollout) -> None:
        """A rollout has ended."""
        future = self._futures.pop(rollout.id, None)
        if future is not None and not future.done():
            future.set_result(rollout)

    def fail(self, error: BaseException) -> None:
        """None of them will end here."""
        for future in self._futures.values():
            if not future.done():
                future.set_exception(error)
        self._futures.clear()


def after(rollout: Rollout, outcome: Outcome, status: RolloutStatus) -> Rollout:
    """A rollout after the outcome that ended it, when that was its only attempt and cost nothing.

    What others cost, and how often they failed, is only in the store.
    """
    return msgspec.structs.replace(
        rollout,
        status=status,
        output=outcome.output,
        error=outcome.error,
        duration_s=outcome.duration_s,
        started_at=outcome.started_at,
        ended_at=outcome.ended_at,
    )
