"""The process executor: attempts run in worker processes, one at a time in each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ratchet.run.agent import AgentSpec
from ratchet.run.attempt import timed_out
from ratchet.run.ends import AttemptClock, cut_off
from ratchet.run.messages import AttemptDone, RunAttempt, WorkerSetup
from ratchet.run.worker_pool import WorkerPool
from ratchet.run.worker_process import WorkerProcess
from ratchet.types import AgentError, AttemptStatus, Claim, Outcome, Resource

if TYPE_CHECKING:
    from ratchet.observe.redaction import RedactionRules

KILL_AFTER_S = 0.5
"""How long past its time-out an attempt may end by itself before its worker is killed."""


class ProcessExecutor:
    """Runs attempts in worker processes: a hang, a crash or a memory hog stays alone.

    Args:
        agent: Where the agent is; each worker loads it itself.
        store_url: The store that workers write to when their parent is gone, or a server's address.
        store_key: The server's key; the agent does not get to see it.
        gateway: Address of a server whose gateway the agent's model calls are to go through. The
            variables that lead there change with each attempt: a library's client that was made
            while the agent was imported does not notice.
        state: Folder for logs and scratch files.
        slots: How many workers.
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
        gateway: str = "",
        state: Path,
        slots: int,
        timeout_s: float,
        memory_bytes: int,
        keep_open: int | None = None,
        redaction: RedactionRules | None = None,
    ) -> None:
        self._setup = WorkerSetup(
            agent=agent,
            store_url=store_url,
            store_key=store_key,
            gateway=gateway,
            timeout_s=timeout_s,
            memory_bytes=memory_bytes,
            scratch=str(state / "tmp"),
            redaction={} if redaction is None else msgspec.to_builtins(redaction),
        )
        self._worker_pool = WorkerPool(self._setup, state / "logs", keep_open)
        self._slots = slots
        self._idle: asyncio.LifoQueue[WorkerProcess | int] = asyncio.LifoQueue()

    @property
    def slots(self) -> int:
        """How many attempts run at once."""
        return self._slots

    async def start(self) -> None:
        """Start the workers; the first tells whether the agent loads.

        Raises:
            AgentError: It does not.
        """
        self._worker_pool.prepare()
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._slots):
                    group.create_task(self._start_into_idle(number))
        except BaseExceptionGroup as errors:
            await self.close()
            reasons, others = errors.split(AgentError)
            if reasons is None or others is not None:
                raise
            raise reasons.exceptions[0] from None
        except BaseException:
            await self.close()
            raise

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Run one attempt to its end in the next free worker."""
        free = await self._idle.get()
        try:
            if not isinstance(free, int) and free.gone():
                # It ended between two attempts, which is not the fault of the next one.
                await self._worker_pool.end(free)
                free = free.number
            worker = await self._worker_pool.start(free) if isinstance(free, int) else free
        except BaseException:
            self._idle.put_nowait(free)
            raise
        try:
            ended = await self._run_in(worker, claim, resources)
        except BaseException:
            await self._worker_pool.end(worker)
            self._idle.put_nowait(worker.number)
            raise
        if worker.usable:
            self._idle.put_nowait(worker)
        else:
            await self._worker_pool.end(worker)
            self._idle.put_nowait(worker.number)
        return ended

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Tell the workers that these outcomes are in the store, so that they forget them."""
        self._worker_pool.stored(outcomes)

    async def close(self) -> None:
        """End every worker."""
        await self._worker_pool.close()

    async def _run_in(
        self, worker: WorkerProcess, claim: Claim, resources: Mapping[str, Resource]
    ) -> Outcome:
        clock, log_from = AttemptClock(), worker.mark_log()
        known = worker.candidate == claim.rollout.candidate_id
        worker.candidate = claim.rollout.candidate_id

        def stopped(status: AttemptStatus, error: str) -> Outcome:
            worker.usable = False
            return cut_off(claim, status, error, clock)

        try:
            async with asyncio.timeout(self._setup.timeout_s + KILL_AFTER_S):
                await worker.send(RunAttempt(claim, None if known else dict(resources)))
                message = await worker.receive()
        except TimeoutError:
            worker.kill()
            return stopped("timed_out", timed_out(self._setup.timeout_s))
        except OSError:
            message = None
        if isinstance(message, AttemptDone):
            worker.usable = message.outcome.cause != "memory"
            self._worker_pool.keeps(worker, message.outcome)
            return message.outcome
        how = await worker.ended()
        return stopped(
            "crashed", f"The process running the agent {how}.{worker.log_tail(log_from)}"
        )

    async def _start_into_idle(self, number: int) -> None:
        self._idle.put_nowait(await self._worker_pool.start(number))
