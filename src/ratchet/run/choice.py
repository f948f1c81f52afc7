"""Which executor runs an agent, with how many workers, and how much memory each may take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.run.agent import Agent, AgentSpec
from ratchet.run.executor import Executor, Kind
from ratchet.run.inprocess import AsyncExecutor
from ratchet.run.worker_executor import WorkerExecutor

if TYPE_CHECKING:
    from ratchet.observe.redaction import RedactionRules

AT_ONCE = 16
"""Attempts at once where they wait rather than compute, unless somebody says otherwise."""

OF_A_LOOP = 8
"""Attempts at once for which an event loop of its own is worth a process."""

LEAST_MEMORY = 512 * 1024 * 1024


def executor_for(
    kind: Kind,
    agent: Agent,
    spec: AgentSpec,
    *,
    state: Path,
    store_url: str,
    store_key: str = "",
    gateway: str = "",
    concurrency: int | None,
    timeout_s: float,
    memory_mb: int | None,
    keep_open: int | None = None,
    redaction: RedactionRules | None = None,
) -> Executor:
    """The executor that is asked for.

    Args:
        kind: Which.
        agent: The loaded agent.
        spec: Where it is, for workers, which load it themselves.
        state: Folder for logs and scratch files.
        store_url: The store that workers write to when their parent is gone, or a server's address.
        store_key: The server's key.
        gateway: Address of a server whose gateway the agent's model calls are to go through; then
            each attempt has a process to itself.
        concurrency: Attempts at once; None for what suits the kind.
        timeout_s: Seconds that one attempt may take.
        memory_mb: Megabytes of private memory of one worker; None for its share of the machine's.
        keep_open: A file descriptor that workers hold open while they live, such as a lock's.
        redaction: What workers whose parent is gone take out of what they store.
    """
    if gateway:
        kind = "process"
    elif kind == "auto":
        kind = "async" if agent.is_async else "process"
    cores = os.cpu_count() or 1
    slots = concurrency or (cores if kind == "process" else AT_ONCE)
    if kind == "inline":
        return AsyncExecutor(agent, slots=slots, timeout_s=timeout_s)
    workers = workers_for(slots, cores) if kind == "async" else slots
    return WorkerExecutor(
        spec,
        store_url=store_url,
        store_key=store_key,
        gateway=gateway,
        state=state,
        slots=slots,
        workers=workers,
        timeout_s=timeout_s,
        memory_bytes=memory_of_each(memory_mb, workers),
        keep_open=keep_open,
        redaction=redaction,
    )


def workers_for(slots: int, cores: int) -> int:
    """How many event loops so many attempts at once are worth.

    Args:
        slots: Attempts at once.
        cores: Of this machine.
    """
    return max(1, min(cores, -(-slots // OF_A_LOOP)))


def memory_of_each(megabytes: int | None, workers: int) -> int:
    """Bytes of private memory that one of so many workers may use."""
    if megabytes is not None:
        return megabytes * 1024 * 1024
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(LEAST_MEMORY, int(physical * 0.75) // workers)
