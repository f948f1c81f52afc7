"""The runner: takes rollouts from the queue, has them executed, and stores how they ended."""

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

from ratchet.run.attempt import cut_off
from ratchet.run.candidate_cache import CandidateCache
from ratchet.run.executor import Executor
from ratchet.run.outcomes import Batch, OutcomeBatcher, preparation, records_calls
from ratchet.run.pending import Idleness, PendingRollouts, after
from ratchet.run.transport import FinishResults, RunnerTransport, RunnerWatcher, StoreTransport
from ratchet.types import FINAL, Candidate, Claim, InputError, Outcome, Rollout, StoreError

if TYPE_CHECKING:
    from ratchet.observe.redaction import Redactor
    from ratchet.store import Store

LEASE_S = 60.0
"""How long a claim holds without a heartbeat."""

POLL_S = 0.05
"""How often the store is asked about rollouts that somebody else is running."""

WAIT_S = 20.0
"""How long one claim waits for something to be queued."""

DRAIN_S = 3.0
"""How long running attempts may still end when the runner is left before its work is done."""

QUEUED_AT_ONCE = 256
"""Rollouts put into the queue in one transaction."""

OnFinish = Callable[[Rollout], None]


class Runner:
    """Runs the rollouts of one queue. Use it as `async with Runner(...) as runner`.

    `run` has rollouts of the caller's run to their ends; several tasks may await it at once, and
    share the executor's slots. `serve` runs whatever is queued. Leaving the block stops what still
    runs after `drain_s` and gives it back to the queue, uncounted.

    Args:
        store: Where rollouts are queued and outcomes go: a store, or a line to one.
        queue: The queue's name.
        executor: Where attempts run.
        lease_s: Seconds that a claim holds without a heartbeat.
        drain_s: Seconds that running attempts may still take when the runner is left.
        watcher: Told what happens.
        redactor: Takes secrets out of spans and errors before they leave this process. Left out:
            all built-in rules for a store, and none for a line, whose server redacts.
    """

    def __init__(
        self,
        store: Store | RunnerTransport,
        queue: str,
        executor: Executor,
        *,
        lease_s: float = LEASE_S,
        drain_s: float | None = None,
        watcher: RunnerWatcher | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self._line = store if isinstance(store, RunnerTransport) else StoreTransport(store)
        self._store = None if isinstance(store, RunnerTransport) else store
        self._queue = queue
        self._executor = executor
        self._lease_s = lease_s
        self._drain_s = drain_s
        self._watcher = watcher or RunnerWatcher()
        # Told apart for ever: two runners of a process, and processes of the same number.
        self.name = f"{socket.gethostname()}/{os.getpid()}/{uuid4().hex[:12]}"
        self._wanted = PendingRollouts()
        self._serving = False
        """Whether whatever is queued is wanted."""
        self._idleness = Idleness()
        self._wait_s = WAIT_S
        self._candidates = CandidateCache(self._line)
        self._held: dict[tuple[str, int], asyncio.Task[None] | None] = {}
        """What is claimed, by rollout id and fence, with the slot that runs it, if one does."""
        self._ready: deque[Claim] = deque()
        """What is claimed and waits for a slot."""
        self._slots: set[asyncio.Task[None]] = set()
        """The slots at work: each runs what is ready, one after another."""
        self._leaving = False
        self._cut = asyncio.Event()
        self._typical_s = 1.0
        """Moving average of how long attempts take."""
        prepare = preparation(redactor, for_store=self._store is not None)
        self._reports = OutcomeBatcher(self._line, self._reported, prepare=prepare)
        self._more = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._failed = asyncio.Event()
        self._failure: BaseException | None = None
        """What ended a task of the runner: nothing that is wanted from then on would come."""

    async def __aenter__(self) -> Runner:
        await self._executor.start()
        loops = (self._claim_loop(), self._reports.run(), self._heartbeat_loop())
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
        self._leaving = True
        await self._drain()
        tasks = (*self._tasks, *self._slots)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, self._candidates.close(), return_exceptions=True)
        try:
            # What had ended but was not stored yet is kept; what was cut off is given back.
            await self._reports.flush()
            if self._held:
                await self._line.release(list(self._held))
        finally:
            await self._executor.close()

    @property
    def slots(self) -> int:
        """How many attempts run at once."""
        return self._executor.slots

    def cut(self) -> None:
        """Leave at once: running attempts are stopped and given back."""
        self._cut.set()

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
            self._candidates.give(candidate)
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
                        waiting[rollout.id] = self._wanted.add(rollout.id)
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

    async def serve(self, stop: asyncio.Event, *, max_idle_s: float | None = None) -> None:
        """Run whatever is queued, until told to stop; then leave the block, which drains.

        A rollout whose candidate cannot be had fails, and the others go on.

        Args:
            stop: Set by whoever wants it to end.
            max_idle_s: End also after so many seconds in which there was nothing to do. What was
                not answered yet is waited for a while longer.

        Raises:
            AgentError: No worker can load the agent any more.
            StoreError: The store cannot be read or written, and the line is not a patient one.
            ConfigError: The server refuses the key.
        """
        self._idleness.busy()
        self._wait_s = WAIT_S if max_idle_s is None else min(WAIT_S, max_idle_s)
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
        return bool(self._held) or self._reports.pending

    async def _queue_up(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Put rollouts into the queue; return them as the store knows them."""
        new = await self._line.create(rollouts)
        if self._failure is not None:
            raise self._failure
        if new == len(rollouts):
            return list(rollouts)
        known = await self._line.get([r.id for r in rollouts])
        return [known[rollout.id] for rollout in rollouts]

    def recover(self) -> int:
        """Requeue what runners of this queue left behind that are known to have ended.

        Only to be called by somebody who knows that: the holder of the queue's lock. At the end of
        a line it is the server that does so, when leases run out.

        Returns:
            How many rollouts were requeued.
        """
        return 0 if self._store is None else requeued(self._store, self._queue, self.name)

    async def _claim_loop(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            while self._wanted or self._serving:
                ahead = claimed_ahead(self._executor.slots, self._typical_s, serving=self._serving)
                free = self._executor.slots + ahead - len(self._held)
                if free < max(1, ahead // 2):
                    break  # an attempt that ends sets _more
                wait_s = self._wait_s if self._serving and not self._wanted else 0.0
                claims = await self._line.claim(
                    self._queue, self.name, free, self._lease_s, wait_s=wait_s
                )
                self._held.update(((claim.rollout.id, claim.fence), None) for claim in claims)
                self._ready.extend(claims)
                self._fill_slots()
                if claims:
                    self._idleness.busy()
                    self._watcher.claimed(len(claims))
                    continue
                self._idleness.in_vain()
                if not self._serving and not await self._look_elsewhere():
                    break
                await asyncio.sleep(POLL_S)

    async def _look_elsewhere(self) -> bool:
        """Settle wanted rollouts that somebody else ended; tell whether some are still wanted."""
        mine = self._reports.waiting.union(rollout_id for rollout_id, _ in self._held)
        elsewhere = self._wanted.but(mine)
        if not elsewhere:
            return False
        for rollout in (await self._line.get(elsewhere)).values():
            if rollout.status in FINAL:
                self._wanted.settle(rollout)
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
            try:
                resources = await self._candidates.resources(claim.rollout.candidate_id)
            except InputError as error:
                outcome = cut_off(claim, "failed", f"What it runs with cannot be had. {error}")
            else:
                outcome = await self._executor.execute(claim, resources)
                self._typical_s += 0.1 * ((outcome.duration_s or 0.0) - self._typical_s)
            self._held.pop(key, None)
            self._reports.add(claim, outcome, self._typical_s)
            self._more.set()

    def _slot_ended(self, slot: asyncio.Task[None]) -> None:
        self._slots.discard(slot)
        self._task_ended(slot)
        self._fill_slots()

    async def _reported(self, batch: Batch, answers: FinishResults) -> None:
        """Outcomes are stored, or were refused: tell everyone whom it concerns."""
        self._executor.stored([outcome for _, outcome in batch])
        ask: list[str] = []
        for claim, outcome in batch:
            status = answers[outcome.rollout_id, outcome.fence]
            self._watcher.ended(outcome, status)
            if outcome.rollout_id not in self._wanted:
                continue
            if status in FINAL and _is_simple(claim, outcome):
                self._wanted.settle(after(claim.rollout, outcome, status))
            elif status in FINAL or status is None:
                # The store knows what all of its attempts cost; or somebody else ended it.
                ask.append(outcome.rollout_id)
        if ask:
            for rollout in (await self._line.get(ask)).values():
                if rollout.status in FINAL:
                    self._wanted.settle(rollout)
        self._idleness.busy()
        self._more.set()

    async def _heartbeat_loop(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / 4)
            held = list(self._held)
            if not held:
                continue
            still = await self._line.heartbeat(held, self._lease_s)
            lost = 0
            for key in set(held) - still:
                if key not in self._held:
                    continue  # it ended meanwhile
                lost += 1
                task = self._held.pop(key)
                if task is not None:
                    task.cancel()  # cancelled, or lost to another runner: its outcome has no takers
            if lost:
                self._watcher.lost(lost)
            self._more.set()

    async def _drain(self) -> None:
        """Take no more, give back what has not begun, and let what runs end if it does so soon."""
        claiming = self._tasks[0]
        claiming.cancel()
        await asyncio.wait({claiming})
        waiting = [key for key, task in self._held.items() if task is None]
        self._ready.clear()
        for key in waiting:
            del self._held[key]
        giving_back = asyncio.ensure_future(self._give_back(waiting))
        if self._slots:
            limit_s = DRAIN_S if self._drain_s is None else self._drain_s
            cut = asyncio.create_task(self._cut.wait())
            slots = asyncio.create_task(asyncio.wait(set(self._slots)))
            ends: set[asyncio.Task[object]] = {cut, slots}
            await asyncio.wait(ends, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
        self._line.hurry()
        await giving_back

    async def _give_back(self, keys: Sequence[tuple[str, int]]) -> None:
        try:
            if keys:
                await self._line.release(keys)
        except StoreError:
            self._held.update(dict.fromkeys(keys))  # tried once more at the end

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """A task of the runner failed: everyone who waits learns why."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failure = error
            self._failed.set()
            self._wanted.fail(error)


def _is_simple(claim: Claim, outcome: Outcome) -> bool:
    """Whether the claim and the outcome say all of how the rollout ended."""
    return (
        claim.fence == 1
        and outcome.status == "succeeded"
        and outcome.cost_usd == 0.0
        and not claim.token  # else the gateway may have recorded calls
        and not records_calls(outcome)
    )


AHEAD_S = 0.1
"""Seconds of work that are claimed ahead."""

MAX_AHEAD = 256


def claimed_ahead(slots: int, typical_s: float, *, serving: bool) -> int:
    """How many rollouts to claim beyond those that run.

    Enough for AHEAD_S of work, so that slots need not wait for the store, and for rollouts of one's
    own at least one a slot; not more, since what is claimed here cannot run elsewhere.

    Args:
        slots: Attempts at once.
        typical_s: Seconds that an attempt takes.
        serving: Whether other runners may want them too.
    """
    enough = int(slots * AHEAD_S / max(typical_s, 1e-3))
    return min(enough if serving else max(slots, enough), MAX_AHEAD)


def requeued(store: Store, queue: str, own: str) -> int:
    """Requeue what runners of a queue left behind that are known to have ended.

    Args:
        store: Where the queue is.
        queue: Its name.
        own: The name of the runner that asks, and lives.

    Returns:
        How many rollouts were requeued.
    """
    dead = {attempt.worker for attempt in store.rollouts.running(queue)}
    dead.discard(own)
    return len(store.rollouts.expire(time.time(), queue=queue, dead_workers=dead))
