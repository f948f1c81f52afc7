"""The inline executor: runs attempts in this process, as tasks of its event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence

from ratchet.observe import capture_rollouts, carry_context, warm_up
from ratchet.types import Claim, Outcome, Resource
from ratchet.worker.agent import Agent
from ratchet.worker.attempt import Recorder, call_async, call_sync, timed_out

GRACE_S = 1.0
"""How long a cancelled attempt may take to clean up before it is abandoned."""


_abandoned: set[asyncio.Task[Outcome]] = set()
"""Tasks of agents that ignored their cancellation."""


class AsyncExecutor:
    """Runs async agents as asyncio tasks, and sync ones in daemon threads.

    Suits agents that wait for models and tools. A thread cannot be killed: a sync agent that hangs
    is abandoned in its thread; use worker processes where that happens.

    Args:
        agent: The loaded agent.
        slots: Attempts at once.
        timeout_s: Seconds that one attempt may take.
    """

    def __init__(self, agent: Agent, *, slots: int, timeout_s: float) -> None:
        self._agent = agent
        self._slots = slots
        self._timeout_s = timeout_s

    @property
    def slots(self) -> int:
        """Number of concurrent attempts."""
        return self._slots

    async def start(self) -> None:
        """Make threads that the agent starts inherit the rollout's context."""
        carry_context()
        warm_up()
        capture_rollouts()

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Run one attempt to its end."""
        recorder = Recorder(self._agent, claim, resources)
        if not self._agent.is_async:
            return await self._in_thread(recorder)
        task = asyncio.create_task(call_async(recorder, self._timeout_s))
        try:
            # The agent may swallow its cancellation, so the wait has a limit of its own.
            finished, _ = await asyncio.wait({task}, timeout=self._timeout_s + GRACE_S)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_S)
            _abandon(task)
            raise
        if not finished:
            task.cancel()
            _abandon(task)
            return recorder.stopped("timed_out", timed_out(self._timeout_s))
        return task.result()

    async def _in_thread(self, recorder: Recorder) -> Outcome:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()

        def settle(outcome: Outcome) -> None:
            if not future.done():
                future.set_result(outcome)

        def work() -> None:
            outcome = call_sync(recorder)
            try:
                loop.call_soon_threadsafe(settle, outcome)
            except RuntimeError:
                pass  # the loop has closed, and the thread was abandoned

        # A daemon thread: threads of a pool are joined at exit, which would hang.
        threading.Thread(target=work, name="ratchet-rollout", daemon=True).start()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await future
        except TimeoutError:
            return recorder.stopped("timed_out", timed_out(self._timeout_s))

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Do nothing: no other process holds outcomes."""

    async def close(self) -> None:
        """Do nothing: an attempt ends with the task that awaits it."""


def _abandon(task: asyncio.Task[Outcome]) -> None:
    # At its end, asyncio.run waits for every registered task: one that swallows cancellation would
    # hang it.
    asyncio._unregister_task(task)
    if not task.done():
        # Referenced, or the garbage collector would destroy the pending task and report it.
        _abandoned.add(task)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    task.add_done_callback(_abandoned.discard)
    # Retrieve the exception, or asyncio reports it as never retrieved.
    task.add_done_callback(lambda t: t.cancelled() or t.exception())
