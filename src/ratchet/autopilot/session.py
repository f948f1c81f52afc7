"""A session of work: the agent loaded, an executor and a runner at hand."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.autopilot.containing import with_sandbox
from ratchet.autopilot.project import Project
from ratchet.run import (
    Agent,
    AsyncExecutor,
    Executor,
    FileLock,
    LoopExecutor,
    ProcessExecutor,
    Runner,
    workers_for,
)
from ratchet.store import Store
from ratchet.types import Conflict

if TYPE_CHECKING:
    from ratchet.observe.redaction import Rules

ASYNC_SLOTS = 16
"""Attempts at once of the async executor, unless the configuration says otherwise."""

Say = Callable[[str], None]


@asynccontextmanager
async def open_runner(
    project: Project, store: Store, agent: Agent, queue: str, say: Say, *, take_over: bool
) -> AsyncIterator[Runner]:
    """A runner for one queue.

    Args:
        project: The project.
        store: Its store.
        agent: The loaded agent.
        queue: The queue's name.
        say: Told when there is something to wait for.
        take_over: Take over what a killed predecessor left in the queue. The caller holds a lock
            that keeps others from the queue; without one the queue must be its own.

    Raises:
        AgentError: The agent does not load in a worker.
        ConfigError: [redaction] says something that cannot be done.
    """
    redactor = project.redactor()
    async with AsyncExitStack() as stack:
        state = project.prepare_state()
        held: int | None = None
        if take_over:
            workers = FileLock(state / "locks" / f"{queue[:24]}.lock", "A worker")
            held = await _when_free(workers, project.config.run.timeout_s + 10.0, say)
            stack.callback(workers.release)
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
    redaction: Rules | None = None,
) -> Executor:
    """The executor that the configuration asks for; candidates of code run in a sandbox."""
    run = project.config.run
    kind = run.executor
    if kind == "auto":
        kind = "async" if agent.is_async else "process"
    cores = os.cpu_count() or 1
    if kind == "inline":
        slots = run.concurrency or ASYNC_SLOTS
        in_tasks = AsyncExecutor(agent, slots=slots, timeout_s=run.timeout_s)
        return with_sandbox(project, agent, in_tasks)
    if kind == "async":
        slots = run.concurrency or ASYNC_SLOTS
        workers = workers_for(slots, cores)
        in_loops = LoopExecutor(
            project.agent_spec,
            store_url=project.store_url,
            state=state,
            slots=slots,
            workers=workers,
            timeout_s=run.timeout_s,
            memory_bytes=memory_of_each(run.memory_mb, workers),
            keep_open=keep_open,
            redaction=redaction,
        )
        return with_sandbox(project, agent, in_loops)
    slots = run.concurrency or cores
    in_processes = ProcessExecutor(
        project.agent_spec,
        store_url=project.store_url,
        state=state,
        slots=slots,
        timeout_s=run.timeout_s,
        memory_bytes=memory_of_each(run.memory_mb, slots),
        keep_open=keep_open,
        redaction=redaction,
    )
    return with_sandbox(project, agent, in_processes)


async def _when_free(lock: FileLock, patience_s: float, say: Say) -> int | None:
    """Wait until the workers of a killed run have stored what they were running, and are gone."""
    loop = asyncio.get_running_loop()
    until, told = loop.time() + patience_s, False
    while True:
        try:
            return lock.acquire()
        except Conflict:
            if loop.time() > until:
                return None  # its lease and fencing token are the protection that is left
            if not told:
                say("Waiting for the workers of an interrupted run to store what they finish…")
                told = True
            await asyncio.sleep(0.05)


def memory_of_each(megabytes: int | None, slots: int) -> int:
    """Bytes of private memory that one of so many workers may use."""
    if megabytes is not None:
        return megabytes * 1024 * 1024
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(512 * 1024 * 1024, int(physical * 0.75) // slots)
