"""Worker pool: starts, watches and ends worker processes, and runs attempts in their slots."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from ratchet.bind import Binding
from ratchet.run.attempt_relay import AttemptRelays
from ratchet.run.denials import sentence, with_denials
from ratchet.run.worker_process import WorkerProcess
from ratchet.sandbox.acts import Act
from ratchet.sandbox.containment import AgentContainment
from ratchet.types import AgentError, Claim, Outcome, Resource
from ratchet.worker.attempt import AttemptClock, timed_out
from ratchet.worker.environment import binding_file_name
from ratchet.worker.inprocess import GRACE_S
from ratchet.worker.messages import (
    KNOWN_CANDIDATES,
    AgentUnusable,
    AttemptDone,
    AttemptKey,
    OutcomesStored,
    RunAttempt,
    StopAttempt,
    WorkerReady,
    WorkerSetup,
)

KILL_AFTER_S = 0.5
"""How long an attempt with its own worker may take after its time-out to end by itself."""

ANSWER_GRACE_S = 2.0
"""How long an attempt in a shared worker may stay unanswered after its time-out and grace: then
the event loop is blocked, and the worker is killed."""

START_TIMEOUT_S = 120.0
"""How long a worker may take to load the agent."""

WATCH_S = 0.5
"""Interval at which the sizes of the logs are checked."""

START_TRIES = 3
"""Attempts to start a worker before the executor gives up."""


class WorkerPool:
    """The worker processes of one executor.

    Args:
        setup: First message to each worker.
        logs: Folder for the workers' output.
        keep_open: File descriptor that workers hold open while they live, such as a lock's.
        relays: Lead model clients that live longer than an attempt to the gateway; None without.
        containment: What keeps the workers from acting outside; None to let them.
    """

    def __init__(
        self,
        setup: WorkerSetup,
        logs: Path,
        keep_open: int | None,
        relays: AttemptRelays | None = None,
        containment: AgentContainment | None = None,
    ) -> None:
        self._containment = containment
        self.setup = setup
        self.relays = relays
        self._logs = logs
        self._keep_open = keep_open
        self._all: set[WorkerProcess] = set()
        self._holders: dict[AttemptKey, WorkerProcess] = {}
        """The worker that retains each unstored outcome."""
        self._retired: set[WorkerProcess] = set()
        self._watch: asyncio.Task[None] | None = None

    def prepare(self) -> None:
        """Create the folders, and start watching the logs."""
        for folder in (self.setup.scratch, self._logs):
            os.makedirs(folder, exist_ok=True)
        self._watch = asyncio.create_task(self._watch_logs())

    async def start(self, number: int, binding: Binding | None = None) -> WorkerProcess:
        """Start a worker, and wait until it has loaded the agent.

        Args:
            number: Unique in the executor.
            binding: The one candidate that it serves; None for all.

        Raises:
            AgentError: The agent does not load, or no worker starts.
        """
        how = ""
        variables: dict[str, str] = {}
        hook_variables: dict[str, str] = {}
        if self.relays is not None:
            relay = self.relays.of(number)
            variables, hook_variables = relay.variables(), relay.hook_variables(os.environ)
        setup = msgspec.structs.replace(self.setup, binding=binding, import_variables=variables)
        for _ in range(START_TRIES):
            worker = WorkerProcess(
                number,
                self._logs / f"worker-{number}.log",
                self._keep_open,
                setup.agent.python,
                self._containment,
                hook_variables,
            )
            self._all.add(worker)
            try:
                async with asyncio.timeout(START_TIMEOUT_S):
                    await worker.open(setup)
                    message = await worker.receive()
            except TimeoutError:
                worker.kill()
                message, how = None, f"did not load the agent within {START_TIMEOUT_S:g} s"
            except OSError as error:
                message, how = None, f"could not be reached: {error}"
            except BaseException:
                await self.end(worker)
                raise
            if isinstance(message, WorkerReady):
                worker.loaded()
                return worker
            denied = [act for act in worker.denied() if act.end == "denied"]
            why = f" {sentence(denied)}" if denied else ""
            if isinstance(message, AgentUnusable):
                await self.end(worker)
                raise AgentError(f"{message.error}{why}")
            how = how or await worker.ended()
            tail = worker.log_tail(0) + why
            await self.end(worker)
        raise AgentError(
            f"A worker process for the agent {self.setup.agent.entry!r} {how} while starting."
            f"{tail}",
            hint=f"Its output is in {self._logs}.",
        )

    async def end(self, worker: WorkerProcess) -> None:
        """End a worker and its child processes."""
        self._all.discard(worker)
        worker.kill()
        await worker.ended()
        worker.close()
        await worker.release()
        self._sweep(worker)

    def hold(self, worker: WorkerProcess, outcome: Outcome) -> None:
        """Record that a worker retains an outcome until it is stored."""
        self._holders[outcome.rollout_id, outcome.fence] = worker

    def stored(self, outcomes: Iterable[Outcome]) -> None:
        """Let the workers forget these outcomes, which are in the store."""
        keys: dict[WorkerProcess, list[AttemptKey]] = {}
        for outcome in outcomes:
            key = (outcome.rollout_id, outcome.fence)
            worker = self._holders.pop(key, None)
            if worker is not None and worker in self._all:
                keys.setdefault(worker, []).append(key)
        for worker, attempt_keys in keys.items():
            worker.post(OutcomesStored(attempt_keys))
            if worker in self._retired:
                self.retire(worker)

    def retire(self, worker: WorkerProcess) -> None:
        """End an idle worker, once the outcomes that it retains are stored."""
        if worker in self._holders.values():
            self._retired.add(worker)
            return
        self._retired.discard(worker)
        # The slot's reading task notices, and cleans up after it.
        worker.kill()
        worker.close()

    async def close(self) -> None:
        """End every worker."""
        if self._watch is not None:
            self._watch.cancel()
        await asyncio.gather(*(self.end(worker) for worker in list(self._all)))

    async def _watch_logs(self) -> None:
        """Truncate large logs, so that an agent cannot fill the disk."""
        while True:
            await asyncio.sleep(WATCH_S)
            for worker in self._all:
                worker.trim_log()

    def _sweep(self, worker: WorkerProcess) -> None:
        """Delete the binding file of a worker that was killed."""
        for file in Path(self.setup.scratch).glob(f"{binding_file_name(worker.pid)}*"):
            file.unlink(missing_ok=True)


class WorkerLost(Exception):
    """A worker ended or stopped answering while attempts ran in it."""

    def __init__(
        self, status: Literal["crashed", "timed_out"], error: str, shared: bool, clock: AttemptClock
    ) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.shared = shared
        """Whether another attempt in the same worker may be the cause."""
        self.clock = clock
        self.denied: tuple[Act, ...] = ()
        """Acts outside its sandbox that it was denied."""


class _Running:
    """An attempt under way in a worker."""

    def __init__(self) -> None:
        self.clock = AttemptClock()
        self.ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()


class WorkerSlot:
    """One worker of a pool, replaced when it ends; the next attempt starts a missing one.

    Args:
        pool: Starts and ends the workers.
        number: Unique in the executor; names the worker's log.
    """

    def __init__(self, pool: WorkerPool, number: int) -> None:
        self.number = number
        self.load = 0
        """Attempts assigned to the slot."""
        self._pool = pool
        self._relay = pool.relays.of(number) if pool.relays is not None else None
        self._timeout_s = pool.setup.timeout_s
        self._shared = pool.setup.capacity > 1
        self._limit_s = self._timeout_s + (
            GRACE_S + ANSWER_GRACE_S if self._shared else KILL_AFTER_S
        )
        self._opening = asyncio.Lock()
        self._worker: WorkerProcess | None = None
        self._reading: dict[WorkerProcess, asyncio.Task[None]] = {}
        self._running: dict[AttemptKey, _Running] = {}
        self._log_start = 0
        """Position in the log at which the output of the running attempts begins."""
        self.binding: Binding | None = None
        """The only candidate that its worker serves; None for all."""
        self.turn = 0
        """Number of the last attempt that was assigned to the slot."""
        self._cached: deque[str] = deque(maxlen=KNOWN_CANDIDATES if self._shared else 1)
        """Candidates whose resources the worker has, in order of eviction."""

    @property
    def ready(self) -> bool:
        """Whether its worker has loaded the agent and is alive."""
        return self._worker is not None

    def bind(self, binding: Binding) -> None:
        """Serve one candidate from now on; another's worker ends. No attempt may be running."""
        if self.serves(binding):
            return
        self.binding = binding
        worker, self._worker = self._worker, None
        if worker is not None:
            self._pool.retire(worker)

    def serves(self, binding: Binding) -> bool:
        """Whether its worker is, or will be, for this candidate."""
        own = self.binding
        return own is not None and own.candidate_id == binding.candidate_id

    async def open(self) -> WorkerProcess:
        """Start a worker unless there is one.

        Raises:
            AgentError: No worker starts.
        """
        async with self._opening:
            while self._worker is None:
                binding = self.binding
                worker = await self._pool.start(self.number, binding)
                if binding is not self.binding:  # meanwhile the slot was given to another one
                    await self._pool.end(worker)
                    continue
                self._cached.clear()
                self._worker = worker
                self._watch(worker)
            return self._worker

    def _watch(self, worker: WorkerProcess) -> None:
        reading = self._reading[worker] = asyncio.create_task(self._read(worker))
        reading.add_done_callback(lambda _: self._reading.pop(worker))

    async def run(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Run an attempt.

        Raises:
            WorkerLost: The worker ended, or stopped answering.
            AgentError: There is no worker, and none starts.
        """
        self.load += 1
        try:
            if self._worker is not None and not self._running and self._worker.gone():
                # It ended between two attempts, which is not the fault of the next one.
                self._drop(self._worker)
            worker = await self.open()
            while worker is not self._worker:  # it ended while this attempt waited for the lock
                worker = await self.open()
            return await self._run_in(worker, claim, resources)
        finally:
            self.load -= 1

    async def _run_in(
        self, worker: WorkerProcess, claim: Claim, resources: Mapping[str, Resource]
    ) -> Outcome:
        candidate = claim.rollout.candidate_id
        work = RunAttempt(claim, None if candidate in self._cached else dict(resources))
        if work.resources is not None:
            self._cached.append(candidate)
        if not self._running:
            self._log_start = worker.mark_log()
        key = (claim.rollout.id, claim.fence)
        running = self._running[key] = _Running()
        if self._relay is not None:
            self._relay.lead_to(claim)
        worker.post(work)
        try:
            finished, _ = await asyncio.wait({running.ended}, timeout=self._limit_s)
            if not finished:
                self._lose(worker, "timed_out", timed_out(self._timeout_s))
            return await self._over(worker, await running.ended)
        except WorkerLost as lost:
            lost.denied = worker.denied()
            raise
        except asyncio.CancelledError:
            del self._running[key]
            if not self._shared:
                self._drop(worker)
                if reading := self._reading.get(worker):
                    await asyncio.wait({reading})
            elif worker is self._worker:
                worker.post(StopAttempt(key))
            raise
        finally:
            self._running.pop(key, None)
            if self._relay is not None:
                self._relay.lead_to(None)

    async def _over(self, worker: WorkerProcess, outcome: Outcome) -> Outcome:
        """An outcome with the denied acts, once nothing of the attempt is left in the worker.

        Attempts that run at the same time in one worker cannot be told apart: what was denied in it
        is named by the one that ends next, and what they write is kept as long as the worker.
        """
        if not self._shared and not await worker.settled() and worker is self._worker:
            self._worker = None
            self._pool.retire(worker)
        return with_denials(outcome, worker.denied())

    async def close(self) -> None:
        """End the slot's worker and its retired workers."""
        for worker in list(self._reading):
            self._drop(worker)
        await asyncio.gather(*self._reading.values(), return_exceptions=True)

    async def _read(self, worker: WorkerProcess) -> None:
        """Resolve attempts with the outcomes that the worker sends, until it ends."""
        while isinstance(message := await worker.receive(), AttemptDone):
            outcome = message.outcome
            running = self._running.get((outcome.rollout_id, outcome.fence))
            if outcome.cause == "memory":
                # At its memory limit the worker fails concurrent and later attempts, too.
                if running is not None and self._waiting() == [running]:
                    running.ended.set_result(outcome)
                self._lose(worker, "crashed", outcome.error, shared=True)
                break
            self._pool.hold(worker, outcome)
            if running is not None and not running.ended.done():
                running.ended.set_result(outcome)
        how = await worker.ended()
        error = f"The process running the agent {how}.{worker.log_tail(self._log_start)}"
        self._lose(worker, "crashed", error)
        await self._pool.end(worker)

    def _lose(
        self,
        worker: WorkerProcess,
        status: Literal["crashed", "timed_out"],
        error: str,
        shared: bool = False,
    ) -> None:
        """Kill the worker, and fail the attempts that run in it."""
        if worker is not self._worker:
            return
        self._drop(worker)
        waiting = self._waiting()
        for attempt in waiting:
            attempt.ended.set_exception(
                WorkerLost(status, error, shared or len(waiting) > 1, attempt.clock)
            )

    def _drop(self, worker: WorkerProcess) -> None:
        """Kill the worker; its reading task ends, and cleans up after it."""
        if worker is self._worker:
            self._worker = None
        worker.kill()
        worker.close()

    def _waiting(self) -> list[_Running]:
        """The attempts that have not ended."""
        return [attempt for attempt in self._running.values() if not attempt.ended.done()]
