"""The runner: takes rollouts from the queue, has them executed, and stores how they ended."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from ratchet.run.executor import Executor
from ratchet.types import FINAL, Candidate, Claim, Outcome, Resource, Rollout, RolloutStatus

if TYPE_CHECKING:
    from ratchet.store import Store  # most of a worker's start would go by importing it

LEASE_S = 60.0
"""How long a claim holds without a heartbeat."""

POLL_S = 0.05
"""How often the store is asked about rollouts that somebody else is running."""

DRAIN_S = 3.0
"""How long running attempts may still end when the runner is left before its work is done."""

AHEAD_S = 0.1
"""Seconds of work that are claimed ahead."""

MAX_AHEAD = 256

QUEUED_AT_ONCE = 256
"""Rollouts put into the queue in one transaction."""

GATHER_S = 0.005
"""How long an outcome waits for others to share its transaction, at most."""

OnFinish = Callable[[Rollout], None]


class Runner:
    """Runs the rollouts of one queue. Use it as `async with Runner(...) as runner`.

    Several tasks may await `run` at once; they share the executor's slots. Leaving the block stops
    what still runs after DRAIN_S and gives it back to the queue, uncounted.

    Args:
        store: Where rollouts are queued and outcomes go.
        queue: The queue's name.
        executor: Where attempts run.
        lease_s: Seconds that a claim holds without a heartbeat.
    """

    def __init__(
        self, store: Store, queue: str, executor: Executor, *, lease_s: float = LEASE_S
    ) -> None:
        self._store = store
        self._queue = queue
        self._executor = executor
        self._lease_s = lease_s
        # Told apart for ever: two runners of a process, and processes of the same number.
        self._worker = f"{socket.gethostname()}/{os.getpid()}/{uuid4().hex[:12]}"
        self._wanted: dict[str, asyncio.Future[Rollout]] = {}
        self._resources: dict[str, Mapping[str, Resource]] = {}
        self._held: dict[tuple[str, int], asyncio.Task[None] | None] = {}
        """What is claimed, by rollout id and fence, with the slot that runs it, if one does."""
        self._ready: deque[Claim] = deque()
        """What is claimed and waits for a slot."""
        self._slots: set[asyncio.Task[None]] = set()
        """The slots at work: each runs what is ready, one after another."""
        self._leaving = False
        self._typical_s = 1.0
        """Moving average of how long attempts take."""
        self._ended: list[tuple[Claim, Outcome]] = []
        self._more = asyncio.Event()
        self._to_store = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._unstarted: list[tuple[str, int]] = []
        """Claims that came back when the runner was being left already."""
        self._failure: BaseException | None = None
        """What ended a task of the runner: nothing that is wanted from then on would come."""

    async def __aenter__(self) -> Runner:
        await self._executor.start()
        loops = (self._claim_loop(), self._store_loop(), self._heartbeat_loop())
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
        claiming = self._tasks[0]
        claiming.cancel()
        self._leaving = True
        if self._slots:
            await asyncio.wait(set(self._slots), timeout=DRAIN_S)
        tasks = (*self._tasks, *self._slots)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        held = [*self._held, *self._unstarted]
        try:
            # What had ended but was not stored yet is kept; what was cut off is given back.
            await asyncio.to_thread(self._store_ended, self._ended)
            if held:
                await asyncio.to_thread(self._store.rollouts.release, held, time.time())
        finally:
            await self._executor.close()

    @property
    def slots(self) -> int:
        """How many attempts run at once."""
        return self._executor.slots

    async def run(
        self,
        rollouts: Sequence[Rollout],
        candidates: Iterable[Candidate],
        on_finish: OnFinish | None = None,
    ) -> dict[str, Rollout]:
        """Have rollouts run to their ends. What ended before is not run again.

        Args:
            rollouts: What to run; ids that the store knows already are taken from there.
            candidates: The candidates that they run with.
            on_finish: Called with each rollout as it ends, those that ended before included.

        Returns:
            The ended rollouts by id.

        Raises:
            StoreError: The store cannot be written.
            AgentError: No worker can load the agent any more.
        """
        for candidate in candidates:
            self._resources[candidate.id] = candidate.resources
        done: dict[str, Rollout] = {}
        waiting: dict[str, asyncio.Future[Rollout]] = {}
        try:
            for start in range(0, len(rollouts), QUEUED_AT_ONCE):
                # In parts: the first ones run while the others are being queued.
                part = rollouts[start : start + QUEUED_AT_ONCE]
                for rollout in await self._queue_up(part):
                    if rollout.status in FINAL:
                        done[rollout.id] = rollout
                        if on_finish:
                            on_finish(rollout)
                    else:
                        waiting[rollout.id] = self._wanted.setdefault(
                            rollout.id, asyncio.get_running_loop().create_future()
                        )
                self._more.set()
            for future in asyncio.as_completed(waiting.values()):
                rollout = await future
                done[rollout.id] = rollout
                if on_finish:
                    on_finish(rollout)
        finally:
            for future in waiting.values():
                if future.done() and not future.cancelled():
                    future.exception()  # heard: one failure of the runner fails them all
        return done

    async def _queue_up(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Put rollouts into the queue; return them as the store knows them."""
        new = await asyncio.to_thread(self._store.rollouts.create, rollouts, time.time())
        if self._failure is not None:
            raise self._failure
        if new == len(rollouts):
            return list(rollouts)
        known = await asyncio.to_thread(self._store.rollouts.get, [r.id for r in rollouts])
        return [known[rollout.id] for rollout in rollouts]

    def recover(self) -> int:
        """Requeue what runners of this queue left behind that are known to have ended.

        Only to be called by somebody who knows that: the holder of the queue's lock.

        Returns:
            How many rollouts were requeued.
        """
        dead = {attempt.worker for attempt in self._store.rollouts.running(self._queue)}
        dead.discard(self._worker)
        expired = self._store.rollouts.expire(time.time(), queue=self._queue, dead_workers=dead)
        return len(expired)

    async def _claim_loop(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            while self._wanted:
                ahead = self._ahead()
                free = self._executor.slots + ahead - len(self._held)
                if free < max(1, ahead // 2):
                    break  # an attempt that ends sets _more
                claims = await self._claim(free)
                self._held.update(((claim.rollout.id, claim.fence), None) for claim in claims)
                self._ready.extend(claims)
                self._fill_slots()
                if not claims:
                    if not await self._look_elsewhere():
                        break
                    await asyncio.sleep(POLL_S)

    async def _claim(self, limit: int) -> list[Claim]:
        claiming = asyncio.ensure_future(
            asyncio.to_thread(
                self._store.rollouts.claim,
                self._queue,
                self._worker,
                limit,
                self._lease_s,
                time.time(),
            )
        )
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            # The transaction goes on in its thread: what it takes has to be given back.
            self._unstarted = [(claim.rollout.id, claim.fence) for claim in await claiming]
            raise

    def _ahead(self) -> int:
        """How many rollouts to claim beyond those that run.

        Enough for AHEAD_S of work, so that slots need not wait for the store, and at least one a
        slot; not more, since what is claimed here cannot run elsewhere.
        """
        slots = self._executor.slots
        return min(max(slots, int(slots * AHEAD_S / max(self._typical_s, 1e-3))), MAX_AHEAD)

    async def _look_elsewhere(self) -> bool:
        """Settle wanted rollouts that somebody else ended; tell whether some are still wanted."""
        mine = {rollout_id for rollout_id, _ in self._held}
        mine.update(claim.rollout.id for claim, _ in self._ended)
        elsewhere = [rollout_id for rollout_id in self._wanted if rollout_id not in mine]
        if not elsewhere:
            return False
        for rollout in (await asyncio.to_thread(self._store.rollouts.get, elsewhere)).values():
            if rollout.status in FINAL:
                self._settle(rollout)
        return bool(self._wanted)

    def _fill_slots(self) -> None:
        """Start slots while there is something ready for them."""
        if self._leaving or self._failure is not None:
            return
        free = self._executor.slots - len(self._slots)
        for _ in range(min(free, len(self._ready))):
            slot = asyncio.create_task(self._slot())
            self._slots.add(slot)
            slot.add_done_callback(self._slot_ended)

    async def _slot(self) -> None:
        """Run what is ready, one after another, until nothing is."""
        while self._ready and not self._leaving:
            claim = self._ready.popleft()
            key = (claim.rollout.id, claim.fence)
            if key not in self._held:
                continue  # its lease was lost while it waited
            self._held[key] = asyncio.current_task()
            resources = await self._resources_of(claim.rollout.candidate_id)
            outcome = await self._executor.execute(claim, resources)
            self._typical_s += 0.1 * (outcome.duration_s - self._typical_s)
            self._held.pop(key, None)
            self._ended.append((claim, outcome))
            self._to_store.set()
            self._more.set()

    def _slot_ended(self, slot: asyncio.Task[None]) -> None:
        self._slots.discard(slot)
        self._task_ended(slot)
        self._fill_slots()

    async def _resources_of(self, candidate_id: str) -> Mapping[str, Resource]:
        resources = self._resources.get(candidate_id)
        if resources is None:
            candidate = await asyncio.to_thread(self._store.candidates.get, candidate_id)
            resources = self._resources[candidate_id] = candidate.resources
        return resources

    async def _store_loop(self) -> None:
        # Group commit: while one transaction is under way, the next batch gathers.
        while True:
            await self._to_store.wait()
            await asyncio.sleep(min(GATHER_S, self._typical_s / 10))
            self._to_store.clear()
            batch, self._ended = self._ended, []
            storing = asyncio.ensure_future(asyncio.to_thread(self._store_ended, batch))
            try:
                rollouts = await asyncio.shield(storing)
            except asyncio.CancelledError:
                await storing
                raise
            except Exception:
                self._ended = batch + self._ended  # tried once more when the runner is left
                raise
            self._executor.stored([outcome for _, outcome in batch])
            for rollout in rollouts:
                self._settle(rollout)
            self._more.set()

    def _store_ended(self, batch: Sequence[tuple[Claim, Outcome]]) -> list[Rollout]:
        """Store a batch of outcomes; return the rollouts that are final now."""
        outcomes = [outcome for _, outcome in batch]
        results = self._store.rollouts.finish(outcomes, time.time()) if outcomes else {}
        final: list[Rollout] = []
        ask: list[str] = []
        for claim, outcome in batch:
            status = results[outcome.rollout_id, outcome.fence]
            if status is None:
                ask.append(outcome.rollout_id)  # refused: somebody else ended it, or will
            elif status in FINAL:
                final.append(_after(claim.rollout, outcome, status))
        if ask:
            now = self._store.rollouts.get(ask).values()
            final.extend(rollout for rollout in now if rollout.status in FINAL)
        return final

    async def _heartbeat_loop(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / 4)
            held = list(self._held)
            if not held:
                continue
            still = await asyncio.to_thread(
                self._store.rollouts.heartbeat, held, self._lease_s, time.time()
            )
            for key in set(held) - still:
                task = self._held.pop(key, None)
                if task is not None:
                    task.cancel()  # cancelled, or lost to another runner: its outcome has no takers
            self._more.set()

    def _settle(self, rollout: Rollout) -> None:
        future = self._wanted.pop(rollout.id, None)
        if future is not None and not future.done():
            future.set_result(rollout)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """A task of the runner failed: everyone who waits learns why."""
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        self._failure = error
        for future in self._wanted.values():
            if not future.done():
                future.set_exception(error)
        self._wanted.clear()


def _after(rollout: Rollout, outcome: Outcome, status: RolloutStatus) -> Rollout:
    return msgspec.structs.replace(
        rollout,
        status=status,
        output=outcome.output,
        error=outcome.error,
        cost_usd=outcome.cost_usd,
        duration_s=outcome.duration_s,
        started_at=outcome.started_at,
        ended_at=outcome.ended_at,
    )
