"""The event loop of a worker that runs many attempts at once."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import socket
from collections.abc import Callable

from ratchet.bind import BINDING_VARIABLE
from ratchet.run.agent import Agent
from ratchet.run.inprocess import AsyncExecutor
from ratchet.run.messages import (
    HEADER,
    KNOWN_CANDIDATES,
    AttemptDone,
    OutcomesStored,
    RunAttempt,
    StopAttempt,
    ToWorker,
    WorkerSetup,
    binding_file_name,
    decode_to_worker,
    frame,
)
from ratchet.types import Outcome, Resource

TICK_S = 1.0
"""How often the loop says that it still turns."""


class WorkerLoop:
    """Runs what the parent sends, many attempts at once, until the parent is gone.

    Args:
        connection: The worker's end of the socket.
        gone: Tells whether the parent's end is closed.
        setup: What the parent said first.
        agent: The loaded agent.
        backstop_s: Seconds past a time-out after which a loop that stands still ends its process.
        after: Called after each attempt.
    """

    def __init__(
        self,
        connection: socket.socket,
        gone: Callable[[], bool],
        setup: WorkerSetup,
        agent: Agent,
        *,
        backstop_s: float,
        after: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._gone = gone
        self._limit_s = setup.timeout_s + backstop_s
        self._executor = AsyncExecutor(agent, slots=setup.at_once or 1, timeout_s=setup.timeout_s)
        self._after = after
        self._resources: dict[str, dict[str, Resource]] = {}
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._unstored: dict[tuple[str, int], Outcome] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._own = os.getpid()
        # No attempt owns the environment, so child processes cannot be told which candidate is
        # theirs; but that they are part of a rollout, in which nothing may act.
        os.environ[BINDING_VARIABLE] = os.path.join(setup.scratch, binding_file_name(self._own))

    async def run(self) -> list[Outcome]:
        """Serve; returns the outcomes that the parent has not stored."""
        await self._executor.start()
        self._connection.setblocking(False)
        reader, self._writer = await asyncio.open_connection(sock=self._connection)
        ticking = asyncio.create_task(self._tick())
        try:
            while (message := await _next(reader)) is not None:
                if isinstance(message, RunAttempt):
                    if self._gone():
                        break
                    self._begin(message)
                elif isinstance(message, StopAttempt):
                    if (task := self._running.get(message.key)) is not None:
                        task.cancel()
                elif isinstance(message, OutcomesStored):
                    for key in message.keys:
                        self._unstored.pop(key, None)
            # Each of them is bounded by its time-out.
            await asyncio.gather(*self._running.values(), return_exceptions=True)
        finally:
            ticking.cancel()
            faulthandler.cancel_dump_traceback_later()
        return list(self._unstored.values())

    def _begin(self, work: RunAttempt) -> None:
        candidate = work.claim.rollout.candidate_id
        if work.resources is not None:
            self._resources[candidate] = work.resources
            while len(self._resources) > KNOWN_CANDIDATES:
                del self._resources[next(iter(self._resources))]
        key = (work.claim.rollout.id, work.claim.fence)
        task = asyncio.create_task(self._attempt(work, self._resources[candidate]))
        self._running[key] = task
        task.add_done_callback(lambda _: self._running.pop(key, None))

    async def _attempt(self, work: RunAttempt, resources: dict[str, Resource]) -> None:
        try:
            outcome = await self._executor.execute(work.claim, resources)
        finally:
            if os.getpid() != self._own:
                os._exit(0)  # a fork of the agent's came back: the rollout is not its to report
        self._unstored[outcome.rollout_id, outcome.fence] = outcome
        self._after()
        assert self._writer is not None
        with contextlib.suppress(OSError):  # the reader learns that the parent is gone
            self._writer.write(frame(AttemptDone(outcome)))
            await self._writer.drain()

    async def _tick(self) -> None:
        """Keep the interpreter's watchdog, which needs no lock, from ending this process."""
        while True:
            faulthandler.dump_traceback_later(self._limit_s, exit=True)
            await asyncio.sleep(TICK_S)


async def _next(reader: asyncio.StreamReader) -> ToWorker | None:
    """The next message, or None when the parent went away."""
    try:
        size = HEADER.unpack(await reader.readexactly(HEADER.size))[0]
        return decode_to_worker(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, OSError):
        return None
