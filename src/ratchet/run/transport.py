"""Transports: how a runner reaches its queue, in a store or on a server."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from ratchet.run.retries import CallRetries
from ratchet.types import Candidate, Claim, InputError, Outcome, Rollout, RolloutStatus, StoreError

if TYPE_CHECKING:
    from ratchet.client import AsyncClient

AttemptKey: TypeAlias = tuple[str, int]
"""Rollout id and fence, which identify an attempt."""

FinishResults: TypeAlias = Mapping[AttemptKey, RolloutStatus | None]
"""Result of each reported outcome: the rollout's status, or None where it was rejected."""

Queues: TypeAlias = str | Sequence[str]
"""A queue; or several, which take turns. A name that ends with /* stands for all with that
prefix."""

POLL_INTERVAL_S = 0.25
"""Interval at which a waiting claim polls a store."""


class RunnerTransport(ABC):
    """Operations of a runner on its queue, in a store or on a server.

    Every method raises StoreError when the store or the server cannot be reached, read or written.
    """

    @abstractmethod
    async def create(self, rollouts: Sequence[Rollout]) -> int:
        """Queue rollouts; return the number of new ones."""

    @abstractmethod
    async def get(self, ids: Sequence[str]) -> Mapping[str, Rollout]:
        """Existing rollouts by id."""

    @abstractmethod
    async def candidate(self, id: str) -> Candidate:
        """The candidate with that id.

        Raises:
            InputError: It does not exist.
        """

    @abstractmethod
    async def claim(
        self, queue: Queues, worker: str, limit: int, lease_s: float, *, wait_s: float = 0.0
    ) -> list[Claim]:
        """Claim the oldest queued rollouts; wait up to `wait_s` seconds if there are none.

        If the call is cancelled, its claims are released.
        """

    @abstractmethod
    async def heartbeat(self, pairs: Sequence[AttemptKey], lease_s: float) -> set[AttemptKey]:
        """Renew leases; return the attempts that still hold theirs."""

    @abstractmethod
    async def finish(self, outcomes: Sequence[Outcome]) -> FinishResults:
        """Report outcomes. Idempotent for the same outcome."""

    @abstractmethod
    async def release(self, pairs: Sequence[AttemptKey]) -> None:
        """Return attempts to the queue without counting a failure."""

    def hurry(self) -> None:
        """The runner is closing: stop retrying soon."""
        return


class RolloutStore(Protocol):
    """Rollout methods of a `Store` or a `Client` that a runner needs."""

    def create(self, items: Sequence[Rollout], now: float) -> int:
        """Queue rollouts."""

    def get(self, ids: Sequence[str]) -> dict[str, Rollout]:
        """Existing rollouts by id."""

    def claim(
        self, queue: Queues, worker: str, limit: int, lease_s: float, now: float
    ) -> list[Claim]:
        """Claim the oldest queued rollouts."""

    def heartbeat(self, pairs: Sequence[AttemptKey], lease_s: float, now: float) -> set[AttemptKey]:
        """Renew leases."""

    def finish(
        self, outcomes: Sequence[Outcome], now: float
    ) -> dict[AttemptKey, RolloutStatus | None]:
        """Report outcomes."""

    def release(self, pairs: Sequence[AttemptKey], now: float) -> set[AttemptKey]:
        """Return attempts to the queue."""


class CandidateStore(Protocol):
    """Candidate methods of a `Store` or a `Client` that a runner needs."""

    def get(self, id: str) -> Candidate:
        """The candidate with that id."""


class QueueStore(Protocol):
    """Blocking store of a runner: a `Store` or a `Client`."""

    @property
    def rollouts(self) -> RolloutStore:
        """Rollouts and their queue."""

    @property
    def candidates(self) -> CandidateStore:
        """Candidates of rollouts."""


class StoreTransport(RunnerTransport):
    """Transport to a blocking store; each call runs in a thread."""

    def __init__(self, store: QueueStore) -> None:
        self._store = store

    async def create(self, rollouts: Sequence[Rollout]) -> int:
        """Queue rollouts."""
        return await asyncio.to_thread(self._store.rollouts.create, rollouts, time.time())

    async def get(self, ids: Sequence[str]) -> Mapping[str, Rollout]:
        """Existing rollouts by id."""
        return await asyncio.to_thread(self._store.rollouts.get, ids)

    async def candidate(self, id: str) -> Candidate:
        """The candidate with that id."""
        return await asyncio.to_thread(self._store.candidates.get, id)

    async def claim(
        self, queue: Queues, worker: str, limit: int, lease_s: float, *, wait_s: float = 0.0
    ) -> list[Claim]:
        """Claim the oldest queued rollouts; polls while it waits."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while True:
            claims = await self._claim(queue, worker, limit, lease_s)
            left = deadline - loop.time()
            if claims or left <= 0:
                return claims
            await asyncio.sleep(min(left, POLL_INTERVAL_S))

    async def _claim(self, queue: Queues, worker: str, limit: int, lease_s: float) -> list[Claim]:
        claim = self._store.rollouts.claim
        claiming = asyncio.ensure_future(
            asyncio.to_thread(claim, queue, worker, limit, lease_s, time.time())
        )
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            # The transaction goes on in its thread, so its claims have to be released.
            with suppress(StoreError):  # else their leases expire
                await self.release([(claim.rollout.id, claim.fence) for claim in await claiming])
            raise

    async def heartbeat(self, pairs: Sequence[AttemptKey], lease_s: float) -> set[AttemptKey]:
        """Renew leases."""
        return await asyncio.to_thread(self._store.rollouts.heartbeat, pairs, lease_s, time.time())

    async def finish(self, outcomes: Sequence[Outcome]) -> FinishResults:
        """Report outcomes."""
        return await asyncio.to_thread(self._store.rollouts.finish, outcomes, time.time())

    async def release(self, pairs: Sequence[AttemptKey]) -> None:
        """Return attempts to the queue."""
        if pairs:
            await asyncio.to_thread(self._store.rollouts.release, pairs, time.time())


MAX_REASON = 1_000
"""Characters of the server's reason in the error of an outcome that it rejected."""


class ServerTransport(RunnerTransport):
    """Transport to a server, which long-polls its queue for claims."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(self, rollouts: Sequence[Rollout]) -> int:
        """Queue rollouts."""
        return await self._client.rollouts.create(rollouts)

    async def get(self, ids: Sequence[str]) -> Mapping[str, Rollout]:
        """Existing rollouts by id."""
        return await self._client.rollouts.get(ids)

    async def candidate(self, id: str) -> Candidate:
        """The candidate with that id."""
        return await self._client.candidates.get(id)

    async def claim(
        self, queue: Queues, worker: str, limit: int, lease_s: float, *, wait_s: float = 0.0
    ) -> list[Claim]:
        """Claim the oldest queued rollouts.

        A cancellation closes the connection, and the server releases the claims of the request.
        Claims already in transit are released when their leases expire.
        """
        return await self._client.rollouts.claim(queue, worker, limit, lease_s, wait_s=wait_s)

    async def heartbeat(self, pairs: Sequence[AttemptKey], lease_s: float) -> set[AttemptKey]:
        """Renew leases."""
        return await self._client.rollouts.heartbeat(pairs, lease_s)

    async def finish(self, outcomes: Sequence[Outcome]) -> FinishResults:
        """Report outcomes. An outcome that the server rejects does not block the others."""
        try:
            return await self._client.rollouts.finish(outcomes)
        except InputError as error:
            if len(outcomes) == 1:
                return await self._client.rollouts.finish([_as_failed(outcomes[0], error)])
        middle = len(outcomes) // 2
        first = await self.finish(outcomes[:middle])
        return {**first, **await self.finish(outcomes[middle:])}

    async def release(self, pairs: Sequence[AttemptKey]) -> None:
        """Return attempts to the queue."""
        await self._client.rollouts.release(pairs)


def _as_failed(outcome: Outcome, error: InputError) -> Outcome:
    """A failed outcome without the parts that the server may have rejected."""
    message = f"Its outcome ({outcome.status}) was refused. {str(error)[:MAX_REASON]}"
    return msgspec.structs.replace(
        outcome, status="failed", output=None, error=message, spans=(), scores=()
    )


class RunnerWatcher:
    """Receives progress events of a runner; the methods of this base class do nothing."""

    def claimed(self, number: int) -> None:
        """The runner has claimed this many rollouts."""

    def ended(self, outcome: Outcome, status: RolloutStatus | None) -> None:
        """An attempt ended and was reported.

        Args:
            outcome: The attempt's outcome.
            status: The rollout's new status; None if the outcome was rejected, since the rollout
                was cancelled or claimed by another runner.
        """

    def lost(self, number: int) -> None:
        """This many attempts were stopped: cancelled, or claimed by another runner."""

    def away(self, error: StoreError) -> None:
        """The store is unreachable; called once per outage."""

    def back(self, after_s: float) -> None:
        """The store is reachable again, after an outage of this many seconds."""


class RetryingTransport(RunnerTransport):
    """Retries calls of another transport without limit while the store or server is unreachable.

    Args:
        transport: The transport that makes the calls.
        watcher: Its `away` and `back` are called once per outage.
    """

    def __init__(self, transport: RunnerTransport, watcher: RunnerWatcher) -> None:
        self._transport = transport
        self._retries = CallRetries(watcher.away, watcher.back)

    async def create(self, rollouts: Sequence[Rollout]) -> int:
        """Queue rollouts."""
        return await self._retries.call(lambda: self._transport.create(rollouts))

    async def get(self, ids: Sequence[str]) -> Mapping[str, Rollout]:
        """Existing rollouts by id."""
        return await self._retries.call(lambda: self._transport.get(ids))

    async def candidate(self, id: str) -> Candidate:
        """The candidate with that id."""
        return await self._retries.call(lambda: self._transport.candidate(id))

    async def claim(
        self, queue: Queues, worker: str, limit: int, lease_s: float, *, wait_s: float = 0.0
    ) -> list[Claim]:
        """Claim the oldest queued rollouts."""
        return await self._retries.call(
            lambda: self._transport.claim(queue, worker, limit, lease_s, wait_s=wait_s)
        )

    async def heartbeat(self, pairs: Sequence[AttemptKey], lease_s: float) -> set[AttemptKey]:
        """Renew leases."""
        return await self._retries.call(lambda: self._transport.heartbeat(pairs, lease_s))

    async def finish(self, outcomes: Sequence[Outcome]) -> FinishResults:
        """Report outcomes."""
        return await self._retries.call(lambda: self._transport.finish(outcomes))

    async def release(self, pairs: Sequence[AttemptKey]) -> None:
        """Return attempts to the queue."""
        await self._retries.call(lambda: self._transport.release(pairs))

    def hurry(self) -> None:
        """Stop retrying soon."""
        self._transport.hurry()
        self._retries.hurry()
