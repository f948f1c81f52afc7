"""Open a runner: the agent loaded, an executor started, the queue's lock taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.autopilot.code_sandbox import with_sandbox
from ratchet.autopilot.project import Project
from ratchet.run import Agent, Executor, FileLock, Runner, executor_for
from ratchet.run.environment import variables_set
from ratchet.store import Store
from ratchet.types import Conflict

if TYPE_CHECKING:
    from ratchet.observe.redaction import RedactionRules

Say = Callable[[str], None]


@asynccontextmanager
async def open_runner(
    project: Project, store: Store, agent: Agent, queue: str, say: Say, *, take_over: bool
) -> AsyncIterator[Runner]:
    """Open a runner for one queue.

    Args:
        project: The project.
        store: Its store.
        agent: The loaded agent.
        queue: The queue's name.
        say: Called when there is something to wait for.
        take_over: Reclaim what a killed predecessor left in the queue. The caller holds a lock that
            excludes others from the queue; without one the queue must be unique.

    Raises:
        AgentError: The agent does not load in a worker.
        ConfigError: [redaction] cannot be applied.
    """
    redactor = project.redactor()
    async with AsyncExitStack() as stack:
        state = project.prepare_state()
        held: int | None = None
        if take_over:
            workers = FileLock(state / "locks" / f"{queue[:24]}.lock", "A worker")
            held = await _when_free(workers, project.config.run.timeout_s + 10.0, say)
            stack.callback(workers.release)
        if project.config.run.executor == "inline":
            stack.enter_context(variables_set(project.agent_variables))
        executor = make_executor(project, agent, state, held, redaction=redactor.rules)
        runner = Runner(store, queue, executor, redactor=redactor)
        if take_over:
            await asyncio.to_thread(runner.recover)
        yield await stack.enter_async_context(runner)


def make_executor(
    project: Project,
    agent: Agent,
    state: Path,
    keep_open: int | None,
    *,
    redaction: RedactionRules | None = None,
) -> Executor:
    """The configured executor; candidates with code run in a sandbox."""
    run = project.config.run
    usual = executor_for(
        run.executor,
        agent,
        project.agent_spec,
        state=state,
        store_url=project.store_url,
        concurrency=run.concurrency,
        timeout_s=run.timeout_s,
        memory_mb=run.memory_mb,
        keep_open=keep_open,
        redaction=redaction,
    )
    return with_sandbox(project, agent, usual)


async def _when_free(lock: FileLock, timeout_s: float, say: Say) -> int | None:
    """Wait until the workers of a killed run have stored their unfinished work and exited."""
    loop = asyncio.get_running_loop()
    until, announced = loop.time() + timeout_s, False
    while True:
        try:
            return lock.acquire()
        except Conflict:
            if loop.time() > until:
                return None  # leases and fencing tokens still protect the queue
            if not announced:
                say("Waiting for the workers of an interrupted run to store what they finish…")
                announced = True
            await asyncio.sleep(0.05)
