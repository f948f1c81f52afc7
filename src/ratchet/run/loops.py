"""The async executor: attempts run as tasks of event loops, in a few worker processes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ratchet.run.agent import AgentSpec
from ratchet.run.attempt import timed_out
from ratchet.run.ends import AttemptClock, cut_off
from ratchet.run.inprocess import GRACE_S
from ratchet.run.messages import KNOWN_CANDIDATES, AttemptDone, RunAttempt, StopAttempt, WorkerSetup
from ratchet.run.worker_pool import WorkerPool
from ratchet.run.worker_process import WorkerProcess
from ratchet.types import Claim, Outcome, Resource

if TYPE_CHECKING:
    from ratchet.observe.redaction import RedactionRules

SILENCE_S = 2.0
"""How long past its time-out and its grace an attempt may stay unanswered: then its loop stands
still, and its process is killed."""

_Key = tuple[str, int]


class LoopExecutor:
    """Runs async agents as tasks of event loops in worker processes, many at once in each.

    One loop keeps one core busy at most, and a client library's own work on a call is some
    milliseconds: so there are as many as cores and slots make sense of. A crash or a loop that an
    agent blocks ends one process: what ran beside is run again, alone, so that only the culprit's
    attempt is reported `crashed` or `timed_out`. Workers outlive a killed parent until they have
    stored what they were running. A sync agent runs in threads of the workers.

    Args:
        agent: Where the agent is; each worker loads it itself.
        store_url: The store that workers write to when their parent is gone, or a server's address.
        store_key: The server's key; the agent does not get to see it.
        state: Folder for logs and scratch files.
        slots: How many attempts run at once, in all workers together.
        workers: How many processes.
        timeout_s: Seconds that one attempt may take.
        memory_bytes: Private memory that one worker may use.
        keep_open: A file descriptor that workers hold open while they live, such as a lock's.
        redaction: What workers whose parent is gone take out of what they store; what is built in
            when left out.
    """

    def __init__(
        self,
        agent: AgentSpec,
        *,
        store_url: str,
        store_key: str = "",
        state: Path,
        slots: int,
        workers: int,
        timeout_s: float,
        memory_bytes: int,
        keep_open: int | None = None,
        redaction: RedactionRules | None = None,
    ) -> None:
        setup = WorkerSetup(
            agent=agent,
            store_url=store_url,
            store_key=store_key,
            timeout_s=timeout_s,
            memory_bytes=memory_bytes,
            at_once=slots,
            scratch=str(state / "tmp"),
            redaction={} if redaction is None else msgspec.to_builtins(redaction),
        )
        self._worker_pool = WorkerPool(setup, state / "logs", keep_open)
        self._slots = slots
        self._worker_slots = [
            _WorkerSlot(self._worker_pool, number, timeout_s) for number in range(workers)
        ]
        self._apart = _WorkerSlot(self._worker_pool, workers, timeout_s)
        """For attempts that have to run alone; its worker is started when the first comes."""
        self._alone = asyncio.Lock()
        self._suspects: set[str] = set()
        """Tasks that ended a process: they run alone from then on."""
        self._starting: set[asyncio.Task[None]] = set()

    @property
    def slots(self) -> int:
        """How many attempts run at once."""
        return self._slots

    async def start(self) -> None:
        """Start the first worker, which tells whether the agent loads; the others follow.

        Raises:
            AgentError: It does not.
        """
        self._worker_pool.prepare()
        first, *others = self._worker_slots
        for slot in others:
            self._soon(slot.open())
        try:
            await first.open()
        except BaseException:
            await self.close()
            raise

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Run one attempt to its end, in the worker that has the least to do."""
        if claim.rollout.task_id in self._suspects:
            return await self._run_alone(claim, resources)
        # Those that start are asked only when no other is there.
        slot = min(self._worker_slots, key=lambda slot: (not slot.ready, slot.load, slot.number))
        try:
            return await slot.run(claim, resources)
        except _Lost as lost:
            self._soon(slot.open())
            if lost.shared:
                return await self._run_alone(claim, resources)
            return self._blame(claim, lost)

    async def _run_alone(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        async with self._alone:
            try:
                outcome = await self._apart.run(claim, resources)
            except _Lost as lost:
                return self._blame(claim, lost)
            if outcome.cause == "memory":
                self._suspects.add(claim.rollout.task_id)
            return outcome

    def _blame(self, claim: Claim, lost: _Lost) -> Outcome:
        self._suspects.add(claim.rollout.task_id)
        return cut_off(claim, lost.status, lost.error, lost.clock)

    def _soon(self, opening: Coroutine[Any, Any, None]) -> None:
        """Start a worker beside the work; who needs it and has no other hears of a failure."""
        task = asyncio.create_task(opening)
        self._starting.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._starting.discard(task)
            if not task.cancelled():
                task.exception()

        task.add_done_callback(ended)

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Tell the workers that these outcomes are in the store, so that they forget them."""
        self._worker_pool.stored(outcomes)

    async def close(self) -> None:
        """End every worker."""
        for task in list(self._starting):
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        for slot in (*self._worker_slots, self._apart):
            await slot.close()
        await self._worker_pool.close()


class _Lost(Exception):
    """A worker ended, or stood still, while attempts ran in it."""

    def __init__(
        self, status: Literal["crashed", "timed_out"], error: str, shared: bool, clock: AttemptClock
    ) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.shared = shared
        """Whether another attempt may have been the cause."""
        self.clock = clock


class _Running:
    """An attempt under way in a worker."""

    def __init__(self) -> None:
        self.clock = AttemptClock()
        self.ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()


class _WorkerSlot:
    """The place of one worker: it has one, or gets one when it is needed."""

    def __init__(self, worker_pool: WorkerPool, number: int, timeout_s: float) -> None:
        self.number = number
        self._worker_pool = worker_pool
        self._timeout_s = timeout_s
        self._opening = asyncio.Lock()
        self._worker: WorkerProcess | None = None
        self._reading: asyncio.Task[None] | None = None
        self._running: dict[_Key, _Running] = {}
        self._log_from = 0
        """Where in the log begins what those print that run now."""
        self._known: deque[str] = deque(maxlen=KNOWN_CANDIDATES)
        """Candidates whose resources the worker has, as it keeps them itself."""

    @property
    def ready(self) -> bool:
        """Whether a worker is there."""
        return self._worker is not None

    @property
    def load(self) -> int:
        """How many attempts run there."""
        return len(self._running)

    async def open(self) -> None:
        """Start a worker unless one is there.

        Raises:
            AgentError: None starts.
        """
        async with self._opening:
            if self._worker is None:
                worker = await self._worker_pool.start(self.number)
                self._known.clear()
                self._worker = worker
                self._reading = asyncio.create_task(self._read(worker))

    async def run(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Run an attempt beside others.

        Raises:
            _Lost: The worker ended, or stopped answering.
            AgentError: There is no worker, and none starts.
        """
        await self.open()
        worker = self._worker
        if worker is None:
            return await self.run(claim, resources)  # it ended as soon as it had started
        candidate = claim.rollout.candidate_id
        work = RunAttempt(claim, None if candidate in self._known else dict(resources))
        if work.resources is not None:
            self._known.append(candidate)
        if not self._running:
            self._log_from = worker.mark_log()
        key = (claim.rollout.id, claim.fence)
        running = self._running[key] = _Running()
        worker.post(work)
        try:
            limit_s = self._timeout_s + GRACE_S + SILENCE_S
            done, _ = await asyncio.wait({running.ended}, timeout=limit_s)
            if not done:
                self._lose(worker, "timed_out", timed_out(self._timeout_s))
            return await running.ended
        except asyncio.CancelledError:
            if worker is self._worker:
                worker.post(StopAttempt(key))
            raise
        finally:
            self._running.pop(key, None)

    async def close(self) -> None:
        """Stop listening; the worker_pool ends the worker."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self, worker: WorkerProcess) -> None:
        """Hand out what the worker says, until it is gone."""
        while isinstance(message := await worker.receive(), AttemptDone):
            outcome = message.outcome
            running = self._running.get((outcome.rollout_id, outcome.fence))
            if outcome.cause == "memory":
                # A heap at its limit fails what runs beside, too, and what comes next.
                if running is not None and self._waiting() == [running]:
                    running.ended.set_result(outcome)
                self._lose(worker, "crashed", outcome.error, shared=True)
                break
            self._worker_pool.keeps(worker, outcome)
            if running is not None and not running.ended.done():
                running.ended.set_result(outcome)
        how = await worker.ended()
        error = f"The process running the agent {how}.{worker.log_tail(self._log_from)}"
        self._lose(worker, "crashed", error)
        await self._worker_pool.end(worker)

    def _lose(
        self,
        worker: WorkerProcess,
        status: Literal["crashed", "timed_out"],
        error: str,
        shared: bool = False,
    ) -> None:
        """The worker is gone, or to go: everybody who waits for it learns why."""
        if worker is not self._worker:
            return
        self._worker = None
        worker.kill()
        waiting = self._waiting()
        for one in waiting:
            one.ended.set_exception(_Lost(status, error, shared or len(waiting) > 1, one.clock))

    def _waiting(self) -> list[_Running]:
        """The attempts that have not ended."""
        return [one for one in self._running.values() if not one.ended.done()]
