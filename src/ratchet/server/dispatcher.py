"""Dispatcher: long-polls the queue for runners and batches the outcomes they report."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from ratchet.llm import with_price
from ratchet.server.batcher import Batcher
from ratchet.server.runners import RunnerRegistry
from ratchet.store import Store
from ratchet.store.queue import Answers, Pair
from ratchet.store.turns import QUEUE_WILDCARD
from ratchet.types import FINAL, Claim, FleetRunner, Outcome, RatchetError, Rollout

if TYPE_CHECKING:
    from ratchet.server.services import Services

log = logging.getLogger("ratchet.server")

POLL_INTERVAL_S = 1.0
"""Interval at which a waiting claim polls the store, since another server may have queued work."""

REAP_S = 5.0
"""Interval between checks for expired leases, in seconds."""

GATHER_S = 0.01
"""Seconds that a caller waits for further rollouts to end once the first has ended."""

MAX_BATCH = 1_000
"""Maximum number of outcomes or claims in one transaction."""

MAX_BATCHERS = 1_000
"""Maximum number of batchers to cache; beyond it, idle ones are dropped."""


class RolloutDispatcher:
    """Serves claims and outcomes of rollouts to all runners of this server."""

    def __init__(self, store: Store, services: Services) -> None:
        self._store = store
        self._services = services
        self._waiting: defaultdict[str, deque[asyncio.Event]] = defaultdict(deque)
        """Waiting claims by each queue that they name."""
        self._awaited: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        """Callers that wait for the end of rollouts, by rollout id."""
        self._runners = RunnerRegistry()
        self._claims: dict[
            tuple[tuple[str, ...], float], Batcher[tuple[str, int], list[Claim]]
        ] = {}
        self._finishing = Batcher(self._finish, size=len, max_size=MAX_BATCH)
        self._reaping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the background check for expired leases."""
        self._reaping = asyncio.create_task(self._reap())

    async def close(self) -> None:
        """Stop the background check and store what is pending."""
        if self._reaping is not None:
            self._reaping.cancel()
            await asyncio.wait({self._reaping})
        await self._finishing.drain()
        for batcher in self._claims.values():
            await batcher.drain()

    async def create(self, rollouts: Sequence[Rollout]) -> int:
        """Queue rollouts and wake waiting claims."""
        created = await self._services.in_thread(self._store.rollouts.create, rollouts, time.time())
        queued: defaultdict[str, int] = defaultdict(int)
        for rollout in rollouts:
            if rollout.status == "queued":
                queued[rollout.queue] += 1
        for queue, number in queued.items():
            self._wake(queue, number)
        if created:
            self._services.metrics.rollouts_created(created)
            self._services.activity_log.event(
                "rollouts.created", {"created": created, "queues": dict(queued)}
            )
        return created

    async def claim(
        self, queues: Sequence[str], worker: str, limit: int, lease_s: float, wait_s: float
    ) -> list[Claim]:
        """Claim rollouts, waiting up to `wait_s` seconds when the queues are empty.

        When the client disconnects in this time, the call is cancelled and its claims are released.
        """
        deadline = time.monotonic() + wait_s
        unique_queues = tuple(dict.fromkeys(queues))
        while True:
            self._runners.saw(worker, unique_queues)
            # Registered before the query, so that rollouts queued in between wake this claim.
            woken = asyncio.Event()
            for queue in unique_queues:
                self._waiting[queue].append(woken)
            try:
                claims = await self._take(unique_queues, worker, limit, lease_s)
                left = deadline - time.monotonic()
                if claims or left <= 0 or self._services.closing.is_set():
                    return claims
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, POLL_INTERVAL_S)):
                        await woken.wait()
            except asyncio.CancelledError:
                self._runners.left(worker)
                raise
            finally:
                for queue in unique_queues:
                    self._waiting[queue].remove(woken)
                    if not self._waiting[queue]:
                        del self._waiting[queue]

    async def _take(
        self, queues: tuple[str, ...], worker: str, limit: int, lease_s: float
    ) -> list[Claim]:
        batcher = self._batcher(queues, lease_s)
        taking = batcher.submit((worker, limit))
        try:
            claims = await asyncio.shield(taking)
        except asyncio.CancelledError:
            # The transaction still completes: release its claims, which no runner would run.
            claims = await taking
            await self.release([(claim.rollout.id, claim.fence) for claim in claims])
            raise
        if claims:
            self._services.metrics.rollouts_claimed(len(claims))
        token = self._services.gatekeeper.token
        return [
            msgspec.structs.replace(claim, token=token(claim.rollout.id, claim.fence))
            for claim in claims
        ]

    def _batcher(
        self, queues: tuple[str, ...], lease_s: float
    ) -> Batcher[tuple[str, int], list[Claim]]:
        """Batcher of the claims that name the same queues, which share transactions."""
        batcher = self._claims.get((queues, lease_s))
        if batcher is None:
            if len(self._claims) >= MAX_BATCHERS:
                self._claims = {
                    key: existing for key, existing in self._claims.items() if not existing.idle
                }

            async def claim(requests: Sequence[tuple[str, int]]) -> list[list[Claim]]:
                return await self._services.in_thread(
                    self._store.rollouts.claim_each, queues, requests, lease_s, time.time()
                )

            batcher = Batcher(claim, size=lambda item: item[1], max_size=MAX_BATCH)
            self._claims[queues, lease_s] = batcher
        return batcher

    async def finish(self, outcomes: Sequence[Outcome]) -> Answers:
        """End attempts. Reporting a stored outcome again is accepted."""
        flush_attempt = self._services.flush_attempt
        await asyncio.gather(
            *(flush_attempt(outcome.rollout_id, outcome.fence) for outcome in outcomes)
        )
        # Shielded: a client that disconnects must not cancel the shared transaction.
        return await asyncio.shield(self._finishing.submit(outcomes))

    async def release(self, pairs: Sequence[Pair]) -> set[Pair]:
        """Release attempts and wake waiting claims."""
        if not pairs:
            return set()
        released = await self._services.in_thread(self._store.rollouts.release, pairs, time.time())
        if released:
            self._wake_all()
        return released

    async def cancel(self, ids: Sequence[str]) -> int:
        """Cancel rollouts."""
        cancelled = await self._services.in_thread(self._store.rollouts.cancel, ids, time.time())
        if cancelled:
            self._tell_ended(ids)
            self._services.activity_log.event("rollouts.cancelled", {"ids": list(ids)[:100]})
        return cancelled

    async def heartbeat(self, pairs: Sequence[Pair], lease_s: float) -> set[Pair]:
        """Extend leases."""
        return await self._services.in_thread(
            self._store.rollouts.heartbeat, pairs, lease_s, time.time()
        )

    async def ended(self, ids: Sequence[str], wait_s: float) -> tuple[list[str], list[str]]:
        """Wait up to `wait_s` seconds until one of these rollouts has ended.

        Returns:
            The ids of those that have ended, and of those that are not in the store.
        """
        deadline = time.monotonic() + wait_s
        woken = asyncio.Event()
        for id in ids:
            self._awaited[id].add(woken)
        try:
            while True:
                statuses = await self._services.in_thread(self._store.rollouts.statuses, ids)
                ended = [id for id in ids if statuses.get(id) in FINAL]
                unknown = [id for id in ids if id not in statuses]
                left = deadline - time.monotonic()
                if ended or unknown or left <= 0 or self._services.closing.is_set():
                    return ended, unknown
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, POLL_INTERVAL_S)):
                        await woken.wait()
                    # Others that end at the same time share the answer.
                    await asyncio.sleep(GATHER_S)
                woken.clear()
        finally:
            for id in ids:
                self._awaited[id].discard(woken)
                if not self._awaited[id]:
                    del self._awaited[id]

    async def runners(self) -> Sequence[FleetRunner]:
        """The runners that claim from this server."""
        running = await self._services.in_thread(self._store.rollouts.running)
        return self._runners.present({attempt.worker for attempt in running})

    def waiting(self, queue: str) -> int:
        """Number of callers that wait for rollouts of a queue."""
        return len(self._waiting.get(queue, ()))

    def stop_waiting(self) -> None:
        """Wake every waiting caller, because the server is shutting down."""
        self._wake_all()
        self._tell_ended(list(self._awaited))

    def _wake(self, queue: str, number: int) -> None:
        parts = queue.split("/")[:-1]
        patterns = ["/".join(parts[: n + 1]) + QUEUE_WILDCARD for n in range(len(parts))]
        for pattern in (queue, *patterns):
            waiters = self._waiting.get(pattern)
            for _ in range(min(number, len(waiters) if waiters else 0)):
                assert waiters is not None
                # Moved to the end, so that the next wake-up goes to the next waiter.
                first = waiters.popleft()
                first.set()
                waiters.append(first)

    def _tell_ended(self, ids: Iterable[str]) -> None:
        for id in ids:
            for woken in self._awaited.get(id, ()):
                woken.set()

    def _wake_all(self) -> None:
        for waiters in self._waiting.values():
            for woken in waiters:
                woken.set()

    async def _finish(self, batch: Sequence[Sequence[Outcome]]) -> list[Answers]:
        outcomes = [outcome for part in batch for outcome in part]
        answers = await self._services.in_thread(self._store_ends, outcomes)
        ended = [(pair, status) for pair, status in answers.items() if status is not None]
        if any(status == "queued" for _, status in ended):
            self._wake_all()
        self._tell_ended(id for (id, _), status in ended if status in FINAL)
        if ended:
            self._services.metrics.rollouts_finished([status for _, status in ended])
            self._services.activity_log.event(
                "rollouts.finished",
                {"rollouts": [{"id": id, "status": status} for (id, _), status in ended[:100]]},
            )
        return [{(o.rollout_id, o.fence): answers[o.rollout_id, o.fence] for o in p} for p in batch]

    def _store_ends(self, outcomes: Sequence[Outcome]) -> Answers:
        outcomes = [_priced(self._services.redactor.outcome(outcome)) for outcome in outcomes]
        answers = self._store.rollouts.finish(outcomes, time.time())
        refused = [o for o in outcomes if answers[o.rollout_id, o.fence] is None]
        if refused:
            # A client that did not receive the response reports again.
            answers.update(self._store.rollouts.already(refused))
        return answers

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(REAP_S)
            try:
                expired = await self._services.in_thread(self._store.rollouts.expire, time.time())
            except RatchetError as error:
                log.warning("Expired leases could not be checked: %s", error)
                continue
            if expired:
                self._wake_all()
                self._tell_ended(expired)  # an expired rollout may have had its last delivery
                self._services.activity_log.event("rollouts.expired", {"ids": expired[:100]})


def _priced(outcome: Outcome) -> Outcome:
    """Add the cost in dollars to each model call's span that lacks it."""
    spans = tuple(with_price(span) for span in outcome.spans)
    return msgspec.structs.replace(outcome, spans=spans) if spans else outcome
