"""The async executor: attempts run as tasks of this process's event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence

from ratchet.observe import capture_rollouts, carry_context, warm_up
from ratchet.run.agent import Agent
from ratchet.run.attempt import Recorder, call_async, call_sync, timed_out
from ratchet.types import Claim, Outcome, Resource

GRACE_S = 1.0
"""How long a cancelled attempt may take to clean up before it is left behind."""


_left_behind: set[asyncio.Task[Outcome]] = set()
"""Tasks of agents that did not end when they were cancelled."""


class AsyncExecutor:
    """Runs async agents as asyncio tasks, and sync ones in daemon threads.

    Best for agents that wait for models and tools. A thread cannot be killed: a sync agent that
    hangs is left behind in its thread; use the process executor where that happens.

    Args:
        agent: The loaded agent.
        slots: How many attempts run at once.
        timeout_s: Seconds that one attempt may take.
    """

    def __init__(self, agent: Agent, *, slots: int, timeout_s: float) -> None:
        self._agent = agent
        self._slots = slots
        self._timeout_s = timeout_s

    @property
    def slots(self) -> int:
        """How many attempts run at once."""
        return self._slots

    async def start(self) -> None:
        """Make the agent's own threads carry the rollout's context."""
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
            # The agent may swallow its cancellation: what waits for it has a bound of its own.
            done, _ = await asyncio.wait({task}, timeout=self._timeout_s + GRACE_S)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_S)
            _forget(task)
            raise
        if not done:
            task.cancel()
            _forget(task)
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
                pass  # the loop has closed: nobody waits for a thread that was left behind

        # A daemon thread of its own: those of a pool are joined at exit, and would hang with it.
        threading.Thread(target=work, name="ratchet-rollout", daemon=True).start()
        try:
            return await asyncio.wait_for(future, self._timeout_s)
        except TimeoutError:
            return recorder.stopped("timed_out", timed_out(self._timeout_s))

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Nothing to do: no other process keeps them."""

    async def close(self) -> None:
        """Nothing to give back: tasks end with their awaiting tasks."""


def _forget(task: asyncio.Task[Outcome]) -> None:
    # asyncio.run waits at its end for every task it knows: one that swallows cancellation for good
    # would hang it.
    asyncio._unregister_task(task)
    if not task.done():
        # Kept, or the garbage collector would close it in the middle and report it.
        _left_behind.add(task)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    task.add_done_callback(_left_behind.discard)
    # Read the exception of a task nobody awaits any more, or asyncio reports it as never retrieved.
    task.add_done_callback(lambda t: t.cancelled() or t.exception())
