"""The runner: claims rollouts from a queue, has an executor run them, and stores their outcomes."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING
from uuid import uuid4

from ratchet._waiting import WAITS
from ratchet.run.candidate_cache import CandidateCache
from ratchet.run.executor import Executor
from ratchet.run.outcomes import Batch, OutcomeBatcher, preparation, records_calls
from ratchet.run.pending import Idleness, PendingRollouts, after
from ratchet.run.transport import (
    FinishResults,
    Queues,
    RunnerTransport,
    RunnerWatcher,
    StoreTransport,
)
from ratchet.types import FINAL, Candidate, Claim, InputError, Outcome, Rollout, StoreError
from ratchet.worker.attempt import cut_off

if TYPE_CHECKING:
    from ratchet.observe.redaction import Redactor
    from ratchet.store import Store

LEASE_S = 60.0
"""Duration of a lease without a heartbeat."""

POLL_INTERVAL_S = 0.05
"""Interval at which rollouts that run elsewhere are polled."""

LONG_POLL_S = 20.0
"""Time that one claim waits for rollouts to be queued."""

DRAIN_TIMEOUT_S = 3.0
"""Default time for running attempts to end when the runner closes."""

AWAITED = "rollouts of the agent"
"""What a run says that it is waiting for."""

QUEUED_AT_ONCE = 256
"""Rollouts queued in one transaction."""

OnFinish = Callable[[Rollout], None]


class Runner:
    """Runs the rollouts of one queue. Use it as `async with Runner(...) as runner`.

    `run` queues the caller's rollouts and runs them to their ends; several tasks may await it
    concurrently, and share the executor's slots. `serve` runs whatever is queued. Leaving the block
    stops attempts that still run after `drain_s`, and releases them to the queue without counting
    a failure.

    Args:
        store: The store that holds the queue, or a transport to one.
        queue: The queue's name; or those of several, which take turns. A name that ends with /*
            stands for every queue with that prefix.
        executor: Runs the attempts.
        lease_s: Seconds that a lease lasts without a heartbeat.
        drain_s: Seconds that running attempts get to end when the runner closes.
        watcher: Receives progress events.
        redactor: Removes secrets from spans and errors before they leave this process. Default:
            all built-in rules for a store, and none for a transport, whose server redacts.
    """

    def __init__(
        self,
        store: Store | RunnerTransport,
        queue: Queues,
        executor: Executor,
        *,
        lease_s: float = LEASE_S,
        drain_s: float | None = None,
        watcher: RunnerWatcher | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self._transport = store if isinstance(store, RunnerTransport) else StoreTransport(store)
        self._store = None if isinstance(store, RunnerTransport) else store
        self._queue = queue
        self._executor = executor
        self._lease_s = lease_s
        self._drain_s = drain_s
        self._watcher = watcher or RunnerWatcher()
        # Unique even across restarts and within a process.
        self.name = f"{socket.gethostname()}/{os.getpid()}/{uuid4().hex[:12]}"
        self._pending = PendingRollouts()
        self._serving = False
        """Whether to claim whatever is queued."""
        self._idleness = Idleness()
        self._wait_s = LONG_POLL_S
        self._candidates = CandidateCache(self._transport)
        self._claimed: dict[tuple[str, int], asyncio.Task[None] | None] = {}
        """Claimed attempts, each with the task of the slot that runs it, or None."""
        self._ready: deque[Claim] = deque()
        """Claimed attempts that wait for a slot."""
        self._slots: set[asyncio.Task[None]] = set()
        """Tasks that run ready attempts, one after another."""
        self._closing = False
        self._cut = asyncio.Event()
        self._typical_s = 1.0
        """Moving average of the durations of attempts."""
        prepare = preparation(redactor, for_store=self._store is not None)
        self._batcher = OutcomeBatcher(self._transport, self._reported, prepare=prepare)
        self._more = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._failed = asyncio.Event()
        self._failure: BaseException | None = None
        """The error that ended a task of the runner, if one did."""

    async def __aenter__(self) -> Runner:
        await self._executor.start()
        loops = (self._claim_loop(), self._batcher.run(), self._heartbeat_loop())
        self._tasks = [asyncio.create_task(loop) for loop in loops]
        for task in self._tasks:
            task.add_done_callback(self._task_ended)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closing = True
        await self._drain()
        tasks = (*self._tasks, *self._slots)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, self._candidates.close(), return_exceptions=True)
        try:
            # Store the outcomes that there are; release the attempts that were stopped.
            await self._batcher.flush()
            if self._claimed:
                await self._transport.release(list(self._claimed))
        finally:
            await self._executor.close()

    @property
    def slots(self) -> int:
        """Number of concurrent attempts."""
        return self._executor.slots

    def cut(self) -> None:
        """Stop running attempts without waiting for `drain_s`, and release them."""
        self._cut.set()

    async def run(
        self,
        rollouts: Sequence[Rollout],
        candidates: Iterable[Candidate],
        on_finish: OnFinish | None = None,
    ) -> dict[str, Rollout]:
        """Run rollouts to their ends. Those that have ended before do not run again.

        Args:
            rollouts: Rollouts to run; the store's version is used for ids that it has already. One
                that has ended is returned as it is.
            candidates: The candidates of the rollouts.
            on_finish: Called with each rollout as it ends, also with those that ended before.

        Returns:
            The ended rollouts by id.

        Raises:
            StoreError: The store cannot be written.
            AgentError: No worker loads the agent any more.
        """
        for candidate in candidates:
            self._candidates.add(candidate)
        ended = {rollout.id: rollout for rollout in rollouts if rollout.status in FINAL}
        if on_finish:
            for rollout in ended.values():
                on_finish(rollout)
        new = [rollout for rollout in rollouts if rollout.id not in ended]
        waiting: dict[str, asyncio.Future[Rollout]] = {}
        try:
            for start in range(0, len(new), QUEUED_AT_ONCE):
                # In batches: the first run while the others are being queued.
                part = new[start : start + QUEUED_AT_ONCE]
                for rollout in await self._queue_up(part):
                    if rollout.status in FINAL:
                        ended[rollout.id] = rollout
                        if on_finish:
                            on_finish(rollout)
                    else:
                        waiting[rollout.id] = self._pending.add(rollout.id)
                self._more.set()
            with WAITS.on(AWAITED):
                for future in asyncio.as_completed(waiting.values()):
                    rollout = await future
                    WAITS.came(AWAITED)
                    ended[rollout.id] = rollout
                    if on_finish:
                        on_finish(rollout)
        finally:
            for future in waiting.values():
                if future.done() and not future.cancelled():
                    future.exception()  # retrieved: one failure of the runner fails them all
        return ended

    async def serve(self, stop: asyncio.Event, *, max_idle_s: float | None = None) -> None:
        """Run whatever is queued until `stop` is set; leaving the runner's block then drains it.

        A rollout whose candidate cannot be fetched fails; the others go on.

        Args:
            stop: Ends the call when set.
            max_idle_s: End also after this idle time in seconds. A claim that is not answered yet
                extends it.

        Raises:
            AgentError: No worker loads the agent any more.
            StoreError: The store cannot be read or written, and the transport does not retry.
            ConfigError: The server rejects the API key.
        """
        self._idleness.busy()
        self._wait_s = LONG_POLL_S if max_idle_s is None else min(LONG_POLL_S, max_idle_s)
        self._serving = True
        self._more.set()
        ends: list[asyncio.Task[object]] = [
            asyncio.create_task(stop.wait()),
            asyncio.create_task(self._failed.wait()),
        ]
        if max_idle_s is not None:
            ends.append(asyncio.create_task(self._idleness.lasts(max_idle_s, self._is_busy)))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._serving = False
            for end in ends:
                end.cancel()
        if self._failure is not None:
            raise self._failure

    def _is_busy(self) -> bool:
        return bool(self._claimed) or self._batcher.pending

    async def _queue_up(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Queue rollouts; return them as they are in the store."""
        new = await self._transport.create(rollouts)
        if self._failure is not None:
            raise self._failure
        if new == len(rollouts):
            return list(rollouts)
        stored = await self._transport.get([r.id for r in rollouts])
        return [stored[rollout.id] for rollout in rollouts]

    def recover(self) -> int:
        """Requeue the rollouts of all other runners of this queue.

        Only for the holder of the queue's lock, who knows that the other runners have ended. Does
        nothing with a transport: the server requeues rollouts when their leases expire.

        Returns:
            Number of requeued rollouts.
        """
        if self._store is None:
            return 0
        queues = (self._queue,) if isinstance(self._queue, str) else self._queue
        return sum(requeue(self._store, queue, self.name) for queue in queues)

    async def _claim_loop(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            while self._pending or self._serving:
                ahead = claimed_ahead(self._executor.slots, self._typical_s, serving=self._serving)
                free = self._executor.slots + ahead - len(self._claimed)
                if free < max(1, ahead // 2):
                    break  # the end of an attempt sets _more
                wait_s = self._wait_s if self._serving and not self._pending else 0.0
                claims = await self._transport.claim(
                    self._queue, self.name, free, self._lease_s, wait_s=wait_s
                )
                self._claimed.update(((claim.rollout.id, claim.fence), None) for claim in claims)
                self._ready.extend(claims)
                self._fill_slots()
                if claims:
                    self._idleness.busy()
                    self._watcher.claimed(len(claims))
                    continue
                self._idleness.claimed_nothing()
                if not self._serving and not await self._poll_elsewhere():
                    break
                await asyncio.sleep(POLL_INTERVAL_S)

    async def _poll_elsewhere(self) -> bool:
        """Resolve pending rollouts that ended elsewhere; return whether some are still pending."""
        mine = self._batcher.waiting.union(rollout_id for rollout_id, _ in self._claimed)
        elsewhere = self._pending.except_for(mine)
        if not elsewhere:
            return False
        for rollout in (await self._transport.get(elsewhere)).values():
            if rollout.status in FINAL:
                self._pending.settle(rollout)
        return bool(self._pending)

    def _fill_slots(self) -> None:
        """Start a slot for each ready attempt while slots are free."""
        if self._closing or self._failure is not None:
            return
        free = self._executor.slots - len(self._slots)
        for _ in range(min(free, len(self._ready))):
            slot = asyncio.create_task(self._slot())
            self._slots.add(slot)
            slot.add_done_callback(self._slot_ended)

    async def _slot(self) -> None:
        """Run ready attempts, one after another, until there are none."""
        while self._ready and not self._closing:
            claim = self._ready.popleft()
            key = (claim.rollout.id, claim.fence)
            if key not in self._claimed:
                continue  # its lease was lost while it waited
            self._claimed[key] = asyncio.current_task()
            try:
                resources = await self._candidates.resources(claim.rollout.candidate_id)
            except InputError as error:
                outcome = cut_off(claim, "failed", f"Its candidate cannot be fetched. {error}")
            else:
                outcome = await self._executor.execute(claim, resources)
                self._typical_s += 0.1 * ((outcome.duration_s or 0.0) - self._typical_s)
            self._claimed.pop(key, None)
            self._batcher.add(claim, outcome, self._typical_s)
            self._more.set()

    def _slot_ended(self, slot: asyncio.Task[None]) -> None:
        self._slots.discard(slot)
        self._task_ended(slot)
        self._fill_slots()

    async def _reported(self, batch: Batch, answers: FinishResults) -> None:
        """Notify executor, watcher and callers that outcomes were stored or rejected."""
        self._executor.stored([outcome for _, outcome in batch])
        unresolved: list[str] = []
        for claim, outcome in batch:
            status = answers[outcome.rollout_id, outcome.fence]
            self._watcher.ended(outcome, status)
            if outcome.rollout_id not in self._pending:
                continue
            if status in FINAL and _is_simple(claim, outcome):
                self._pending.settle(after(claim.rollout, outcome, status))
            elif status in FINAL or status is None:
                # Only the store has the cost of all attempts, or the rollout ended elsewhere.
                unresolved.append(outcome.rollout_id)
        if unresolved:
            for rollout in (await self._transport.get(unresolved)).values():
                if rollout.status in FINAL:
                    self._pending.settle(rollout)
        self._idleness.busy()
        self._more.set()

    async def _heartbeat_loop(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / 4)
            claimed = list(self._claimed)
            if not claimed:
                continue
            still = await self._transport.heartbeat(claimed, self._lease_s)
            lost = 0
            for key in set(claimed) - still:
                if key not in self._claimed:
                    continue  # it has ended meanwhile
                lost += 1
                task = self._claimed.pop(key)
                if task is not None:
                    task.cancel()  # cancelled, or claimed elsewhere: its outcome would be rejected
            if lost:
                self._watcher.lost(lost)
            self._more.set()

    async def _drain(self) -> None:
        """Stop claiming, release attempts that have not begun, and wait a while for the others."""
        claiming = self._tasks[0]
        claiming.cancel()
        await asyncio.wait({claiming})
        waiting = [key for key, task in self._claimed.items() if task is None]
        self._ready.clear()
        for key in waiting:
            del self._claimed[key]
        releasing = asyncio.ensure_future(self._release(waiting))
        if self._slots:
            limit_s = DRAIN_TIMEOUT_S if self._drain_s is None else self._drain_s
            cut = asyncio.create_task(self._cut.wait())
            slots = asyncio.create_task(asyncio.wait(set(self._slots)))
            ends: set[asyncio.Task[object]] = {cut, slots}
            await asyncio.wait(ends, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
        self._transport.hurry()
        await releasing

    async def _release(self, keys: Sequence[tuple[str, int]]) -> None:
        try:
            if keys:
                await self._transport.release(keys)
        except StoreError:
            self._claimed.update(dict.fromkeys(keys))  # retried at the end

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """Pass the error of a task of the runner to all callers."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failure = error
            self._failed.set()
            self._pending.fail(error)


def _is_simple(claim: Claim, outcome: Outcome) -> bool:
    """Whether the claim and the outcome alone determine the ended rollout."""
    return (
        claim.fence == 1
        and outcome.status == "succeeded"
        and outcome.cost_usd == 0.0
        and not claim.token  # else the gateway may have recorded calls
        and not records_calls(outcome)
    )


AHEAD_S = 0.1
"""Seconds of work to claim ahead."""

MAX_AHEAD = 256


def claimed_ahead(slots: int, typical_s: float, *, serving: bool) -> int:
    """Number of rollouts to claim in addition to those running.

    Enough for AHEAD_S of work, so that slots need not wait for the store, and at least one per slot
    unless serving; not more, since rollouts that are claimed here cannot run elsewhere.

    Args:
        slots: Attempts at once.
        typical_s: Typical duration of an attempt, in seconds.
        serving: Whether other runners may share the queue.
    """
    enough = int(slots * AHEAD_S / max(typical_s, 1e-3))
    return min(enough if serving else max(slots, enough), MAX_AHEAD)


def requeue(store: Store, queue: str, own: str) -> int:
    """Requeue the rollouts that all other runners of a queue hold.

    Args:
        store: The store that holds the queue.
        queue: The queue's name.
        own: Name of the calling runner, whose rollouts stay.

    Returns:
        Number of requeued rollouts.
    """
    dead = {attempt.worker for attempt in store.rollouts.running(queue)}
    dead.discard(own)
    return len(store.rollouts.expire(time.time(), queue=queue, dead_workers=dead))
