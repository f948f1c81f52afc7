"""The worker processes of an executor: started, watched and ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

from ratchet.run.messages import (
    AgentUnusable,
    OutcomesStored,
    WorkerReady,
    WorkerSetup,
    binding_file_name,
)
from ratchet.run.worker_process import WorkerProcess
from ratchet.types import AgentError, Outcome

START_S = 120.0
"""How long a worker may take to load the agent."""

WATCH_S = 0.5
"""How often the sizes of the logs are looked at."""

START_TRIES = 3
"""Workers in a row that may fail to start before the executor gives up."""


class WorkerPool:
    """The worker processes of one executor.

    Args:
        setup: What each is told first.
        logs: Folder for what they print.
        keep_open: A file descriptor that they hold open while they live, such as a lock's.
    """

    def __init__(self, setup: WorkerSetup, logs: Path, keep_open: int | None) -> None:
        self._setup = setup
        self._logs = logs
        self._keep_open = keep_open
        self._all: set[WorkerProcess] = set()
        self._kept: dict[tuple[str, int], WorkerProcess] = {}
        """Which worker keeps an outcome that is not stored yet, by rollout id and fence."""
        self._watch: asyncio.Task[None] | None = None

    def prepare(self) -> None:
        """Make the folders, and begin to watch the logs."""
        for folder in (self._setup.scratch, self._logs):
            os.makedirs(folder, exist_ok=True)
        self._watch = asyncio.create_task(self._watch_logs())

    async def start(self, number: int) -> WorkerProcess:
        """Start a worker and have it load the agent.

        Raises:
            AgentError: The agent does not load, or no worker starts.
        """
        how = ""
        for _ in range(START_TRIES):
            worker = WorkerProcess(number, self._logs / f"worker-{number}.log", self._keep_open)
            self._all.add(worker)
            try:
                async with asyncio.timeout(START_S):
                    await worker.open()
                    await worker.send(self._setup)
                    message = await worker.receive()
            except TimeoutError:
                worker.kill()
                message, how = None, f"did not load the agent within {START_S:g} s"
            except OSError as error:
                message, how = None, f"could not be reached: {error}"
            except BaseException:
                await self.end(worker)
                raise
            if isinstance(message, WorkerReady):
                return worker
            if isinstance(message, AgentUnusable):
                await self.end(worker)
                raise AgentError(message.error)
            how = how or await worker.ended()
            tail = worker.log_tail(0)
            await self.end(worker)
        raise AgentError(
            f"A worker process for the agent {self._setup.agent.entry!r} {how} while starting."
            f"{tail}",
            hint=f"Its output is in {self._logs}.",
        )

    async def end(self, worker: WorkerProcess) -> None:
        """End a worker and what it started."""
        self._all.discard(worker)
        worker.kill()
        await worker.ended()
        worker.close()
        self._sweep(worker)

    def keeps(self, worker: WorkerProcess, outcome: Outcome) -> None:
        """A worker has handed an outcome over, and keeps it until it is stored."""
        self._kept[outcome.rollout_id, outcome.fence] = worker

    def stored(self, outcomes: Iterable[Outcome]) -> None:
        """Tell the workers that these outcomes are in the store, so that they forget them."""
        keys: dict[WorkerProcess, list[tuple[str, int]]] = {}
        for outcome in outcomes:
            key = (outcome.rollout_id, outcome.fence)
            worker = self._kept.pop(key, None)
            if worker is not None and worker in self._all:
                keys.setdefault(worker, []).append(key)
        for worker, known in keys.items():
            worker.post(OutcomesStored(known))

    async def close(self) -> None:
        """End every worker."""
        if self._watch is not None:
            self._watch.cancel()
        await asyncio.gather(*(self.end(worker) for worker in list(self._all)))

    async def _watch_logs(self) -> None:
        """Keep an agent that prints without end from filling the disk."""
        while True:
            await asyncio.sleep(WATCH_S)
            for worker in self._all:
                worker.trim_log()

    def _sweep(self, worker: WorkerProcess) -> None:
        """Delete the scratch files that a worker left because it was killed."""
        for file in Path(self._setup.scratch).glob(f"{binding_file_name(worker.pid)}*"):
            file.unlink(missing_ok=True)
