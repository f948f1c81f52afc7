"""Lines: how a runner talks to whoever hands out its rollouts."""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import msgspec

from ratchet.types import Candidate, Claim, InputError, Outcome, Rollout, RolloutStatus, StoreError

if TYPE_CHECKING:
    from ratchet.client import AsyncClient

AttemptKey: TypeAlias = tuple[str, int]
"""Rollout id and fence: names one attempt."""

FinishResults: TypeAlias = Mapping[AttemptKey, RolloutStatus | None]
"""What became of outcomes: the rollout's status after each, None where it was refused."""

LOOK_S = 0.25
"""How often a store is asked by those who wait for something to be queued."""


class RunnerTransport(ABC):
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
    async def heartbeat(self, pairs: Sequence[AttemptKey], lease_s: float) -> set[AttemptKey]:
        """Prolong leases; return the attempts that still run."""

    @abstractmethod
    async def finish(self, outcomes: Sequence[Outcome]) -> FinishResults:
        """End attempts. A second report of the same outcome does no harm."""

    @abstractmethod
    async def release(self, pairs: Sequence[AttemptKey]) -> None:
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

    def heartbeat(self, pairs: Sequence[AttemptKey], lease_s: float, now: float) -> set[AttemptKey]:
        """Prolong leases."""

    def finish(
        self, outcomes: Sequence[Outcome], now: float
    ) -> dict[AttemptKey, RolloutStatus | None]:
        """End attempts."""

    def release(self, pairs: Sequence[AttemptKey], now: float) -> set[AttemptKey]:
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


class StoreTransport(RunnerTransport):
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

    async def heartbeat(self, pairs: Sequence[AttemptKey], lease_s: float) -> set[AttemptKey]:
        """Prolong leases."""
        return await asyncio.to_thread(self._store.rollouts.heartbeat, pairs, lease_s, time.time())

    async def finish(self, outcomes: Sequence[Outcome]) -> FinishResults:
        """End attempts."""
        return await asyncio.to_thread(self._store.rollouts.finish, outcomes, time.time())

    async def release(self, pairs: Sequence[AttemptKey]) -> None:
        """Give attempts back."""
        if pairs:
            await asyncio.to_thread(self._store.rollouts.release, pairs, time.time())


MAX_REASON = 1_000
"""Characters of the server's reason that are kept in the outcome it refused."""


class ServerTransport(RunnerTransport):
    """To a server; waiting for work is left to it."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(self, rollouts: Sequence[Rollout]) -> int:
        """Queue rollouts."""
        return await self._client.rollouts.create(rollouts)

    async def get(self, ids: Sequence[str]) -> Mapping[str, Rollout]:
        """Rollouts by id."""
        return await self._client.rollouts.get(ids)

    async def candidate(self, id: str) -> Candidate:
        """The candidate of that id; its resources are fetched once."""
        return await self._client.candidates.get(id)

    async def claim(
        self, queue: str, worker: str, limit: int, lease_s: float, *, wait_s: float = 0.0
    ) -> list[Claim]:
        """Take the oldest queued rollouts.

        Cancelled, it hangs up, and the server gives back what it took for it. What was on its way
        in that moment is handed out again when its lease is over.
        """
        return await self._client.rollouts.claim(queue, worker, limit, lease_s, wait_s=wait_s)

    async def heartbeat(self, pairs: Sequence[AttemptKey], lease_s: float) -> set[AttemptKey]:
        """Prolong leases."""
        return await self._client.rollouts.heartbeat(pairs, lease_s)

    async def finish(self, outcomes: Sequence[Outcome]) -> FinishResults:
        """End attempts. One that the server does not take as it is does not hold up the others."""
        try:
            return await self._client.rollouts.finish(outcomes)
        except InputError as error:
            if len(outcomes) == 1:
                return await self._client.rollouts.finish([_as_failed(outcomes[0], error)])
        middle = len(outcomes) // 2
        first = await self.finish(outcomes[:middle])
        return {**first, **await self.finish(outcomes[middle:])}

    async def release(self, pairs: Sequence[AttemptKey]) -> None:
        """Give attempts back."""
        await self._client.rollouts.release(pairs)


def _as_failed(outcome: Outcome, error: InputError) -> Outcome:
    """The outcome without what the server may not have liked of it."""
    said = f"Its outcome ({outcome.status}) was refused. {str(error)[:MAX_REASON]}"
    return msgspec.structs.replace(
        outcome, status="failed", output=None, error=said, spans=(), scores=()
    )


Result = TypeVar("Result")

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0

HURRY_S = 10.0
"""How long is still tried when the runner is being left."""


class RunnerWatcher:
    """Hears what a runner does; this one does nothing about it."""

    def claimed(self, number: int) -> None:
        """So many rollouts were taken."""

    def ended(self, outcome: Outcome, status: RolloutStatus | None) -> None:
        """An attempt ended and was reported.

        Args:
            outcome: How it ended.
            status: The rollout's status now; None when the report was refused, since the rollout
                was cancelled or is another runner's.
        """

    def lost(self, number: int) -> None:
        """So many attempts were stopped: cancelled, or their leases are another runner's."""

    def away(self, error: StoreError) -> None:
        """The store cannot be reached; said once until it is back."""

    def back(self, after_s: float) -> None:
        """The store is back, after so many seconds."""


class RetryingTransport(RunnerTransport):
    """Asks again, for as long as it takes, when the other end is away.

    Args:
        line: The line itself.
        watcher: Told once that the other end is away, and once that it is back.
    """

    def __init__(self, line: RunnerTransport, watcher: RunnerWatcher) -> None:
        self._line = line
        self._watcher = watcher
        self._away_since: float | None = None
        self._answered = asyncio.Event()
        self._deadline: float | None = None

    async def create(self, rollouts: Sequence[Rollout]) -> int:
        """Queue rollouts."""
        return await self._ask(lambda: self._line.create(rollouts))

    async def get(self, ids: Sequence[str]) -> Mapping[str, Rollout]:
        """Rollouts by id."""
        return await self._ask(lambda: self._line.get(ids))

    async def candidate(self, id: str) -> Candidate:
        """The candidate of that id."""
        return await self._ask(lambda: self._line.candidate(id))

    async def claim(
        self, queue: str, worker: str, limit: int, lease_s: float, *, wait_s: float = 0.0
    ) -> list[Claim]:
        """Take the oldest queued rollouts."""
        return await self._ask(
            lambda: self._line.claim(queue, worker, limit, lease_s, wait_s=wait_s)
        )

    async def heartbeat(self, pairs: Sequence[AttemptKey], lease_s: float) -> set[AttemptKey]:
        """Prolong leases."""
        return await self._ask(lambda: self._line.heartbeat(pairs, lease_s))

    async def finish(self, outcomes: Sequence[Outcome]) -> FinishResults:
        """End attempts."""
        return await self._ask(lambda: self._line.finish(outcomes))

    async def release(self, pairs: Sequence[AttemptKey]) -> None:
        """Give attempts back."""
        await self._ask(lambda: self._line.release(pairs))

    def hurry(self) -> None:
        """Try for HURRY_S more, and then no longer."""
        self._deadline = time.monotonic() + HURRY_S
        self._line.hurry()
        self._wake()

    async def _ask(self, call: Callable[[], Awaitable[Result]]) -> Result:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                result = await call()
            except StoreError as error:
                if self._away_since is None:
                    self._away_since = time.monotonic()
                    self._watcher.away(error)
                wait_s = pause_s * random.uniform(0.5, 1.0)  # noqa: S311 - spreads runners out
                if self._deadline is not None and time.monotonic() + wait_s > self._deadline:
                    raise
            else:
                self._heard()
                return result
            # What one call finds out helps all that wait.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._answered.wait(), wait_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _heard(self) -> None:
        if self._away_since is not None:
            after_s = time.monotonic() - self._away_since
            self._away_since = None
            self._wake()
            self._watcher.back(after_s)

    def _wake(self) -> None:
        """Let all that wait try at once, and those who come later wait again."""
        self._answered.set()
        self._answered.clear()
