"""Lines: how a runner talks to whoever hands out its rollouts."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol, TypeAlias

from ratchet.types import Candidate, Claim, Outcome, Rollout, RolloutStatus, StoreError

Pair: TypeAlias = tuple[str, int]
"""Rollout id and fence: names one attempt."""

Answers: TypeAlias = Mapping[Pair, RolloutStatus | None]
"""What became of outcomes: the rollout's status after each, None where it was refused."""

LOOK_S = 0.25
"""How often a store is asked by those who wait for something to be queued."""


class Line(ABC):
    """What a runner needs of its store, whatever is at the other end.

    Every method raises StoreError when that cannot be reached, read or written.
    """

    @abstractmethod
    async def create(self, rollouts: Sequence[Rollout]) -> int:
        """Queue rollouts; return how many were new."""

    @abstractmethod
    async def get(self, ids: Sequence[str]) -> Mapping[str, Rollout]:
        """Rollouts by id, as far as they are known."""

    @abstractmethod
    async def candidate(self, id: str) -> Candidate:
        """The candidate of that id.

        Raises:
            InputError: There is none.
        """

    @abstractmethod
    async def claim(
        self, queue: str, worker: str, limit: int, lease_s: float, *, wait_s: float = 0.0
    ) -> list[Claim]:
        """Take the oldest queued rollouts; wait up to `wait_s` seconds when there are none.

        When it is cancelled, what it takes is given back.
        """

    @abstractmethod
    async def heartbeat(self, pairs: Sequence[Pair], lease_s: float) -> set[Pair]:
        """Prolong leases; return the attempts that still run."""

    @abstractmethod
    async def finish(self, outcomes: Sequence[Outcome]) -> Answers:
        """End attempts. A second report of the same outcome does no harm."""

    @abstractmethod
    async def release(self, pairs: Sequence[Pair]) -> None:
        """Give attempts back to the queue, uncounted."""

    def hurry(self) -> None:
        """The runner is being left: what cannot be done soon is an error from now on."""
        return


class RolloutStore(Protocol):
    """The rollouts of a store, as far as a runner uses them; `Client.rollouts` is one too."""

    def create(self, items: Sequence[Rollout], now: float) -> int:
        """Queue rollouts."""

    def get(self, ids: Sequence[str]) -> dict[str, Rollout]:
        """Rollouts by id."""

    def claim(self, queue: str, worker: str, limit: int, lease_s: float, now: float) -> list[Claim]:
        """Take the oldest queued rollouts."""

    def heartbeat(self, pairs: Sequence[Pair], lease_s: float, now: float) -> set[Pair]:
        """Prolong leases."""

    def finish(self, outcomes: Sequence[Outcome], now: float) -> dict[Pair, RolloutStatus | None]:
        """End attempts."""

    def release(self, pairs: Sequence[Pair], now: float) -> set[Pair]:
        """Give attempts back."""


class CandidateStore(Protocol):
    """The candidates of a store, as far as a runner uses them."""

    def get(self, id: str) -> Candidate:
        """The candidate of that id."""


class QueueStore(Protocol):
    """A store whose methods block, as far as a runner uses it: `Store` and `Client` are such."""

    @property
    def rollouts(self) -> RolloutStore:
        """The queue."""

    @property
    def candidates(self) -> CandidateStore:
        """What rollouts run with."""


class StoreLine(Line):
    """To a store whose methods block; each call runs in a thread."""

    def __init__(self, store: QueueStore) -> None:
        self._store = store

    async def create(self, rollouts: Sequence[Rollout]) -> int:
        """Queue rollouts."""
        return await asyncio.to_thread(self._store.rollouts.create, rollouts, time.time())

    async def get(self, ids: Sequence[str]) -> Mapping[str, Rollout]:
        """Rollouts by id."""
        return await asyncio.to_thread(self._store.rollouts.get, ids)

    async def candidate(self, id: str) -> Candidate:
        """The candidate of that id."""
        return await asyncio.to_thread(self._store.candidates.get, id)

    async def claim(
        self, queue: str, worker: str, limit: int, lease_s: float, *, wait_s: float = 0.0
    ) -> list[Claim]:
        """Take the oldest queued rollouts, looking again and again while it waits."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while True:
            claims = await self._claim(queue, worker, limit, lease_s)
            left = deadline - loop.time()
            if claims or left <= 0:
                return claims
            await asyncio.sleep(min(left, LOOK_S))

    async def _claim(self, queue: str, worker: str, limit: int, lease_s: float) -> list[Claim]:
        claim = self._store.rollouts.claim
        claiming = asyncio.ensure_future(
            asyncio.to_thread(claim, queue, worker, limit, lease_s, time.time())
        )
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            # The transaction goes on in its thread: what it takes has to be given back.
            with suppress(StoreError):  # else their leases run out
                await self.release([(claim.rollout.id, claim.fence) for claim in await claiming])
            raise

    async def heartbeat(self, pairs: Sequence[Pair], lease_s: float) -> set[Pair]:
        """Prolong leases."""
        return await asyncio.to_thread(self._store.rollouts.heartbeat, pairs, lease_s, time.time())

    async def finish(self, outcomes: Sequence[Outcome]) -> Answers:
        """End attempts."""
        return await asyncio.to_thread(self._store.rollouts.finish, outcomes, time.time())

    async def release(self, pairs: Sequence[Pair]) -> None:
        """Give attempts back."""
        if pairs:
            await asyncio.to_thread(self._store.rollouts.release, pairs, time.time())
