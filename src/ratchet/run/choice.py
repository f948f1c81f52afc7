"""Chooses an executor for an agent: its kind, number of workers and memory per worker."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.run.executor import Executor, Kind
from ratchet.run.program import PythonAgent
from ratchet.run.worker_executor import WorkerExecutor
from ratchet.types import ConfigError, defaults
from ratchet.worker.agent import Agent, AgentSpec
from ratchet.worker.inprocess import AsyncExecutor

if TYPE_CHECKING:
    from ratchet.observe.redaction import RedactionRules
    from ratchet.sandbox.containment import AgentContainment

DEFAULT_CONCURRENCY = 16
"""Default number of concurrent attempts for agents that wait rather than compute."""

OF_A_LOOP = 8
"""Concurrent attempts that justify another event loop, in a process of its own."""

MIN_CANDIDATES = 4
"""Minimum number of workers kept alive, idle ones included, if each serves one candidate."""

MIN_MEMORY = 512 * 1024 * 1024
"""Minimum memory of each worker, in bytes."""


def executor_for(
    kind: Kind,
    agent: PythonAgent,
    spec: AgentSpec,
    *,
    state: Path,
    store_url: str,
    store_key: str = "",
    gateway: str = "",
    model_hosts: Sequence[str] = (),
    concurrency: int | None,
    timeout_s: float,
    memory_mb: int | None,
    keep_open: int | None = None,
    redaction: RedactionRules | None = None,
    ray_address: str | None = None,
    niceness: int = 0,
    import_per_candidate: bool = False,
    containment: AgentContainment | None = None,
) -> Executor:
    """Make an executor of a kind.

    Args:
        kind: As `Kind` describes them.
        agent: The loaded agent.
        spec: The agent's location; workers load it themselves.
        state: Folder for logs and scratch files.
        store_url: URL of the store that orphaned workers write to, or of a server.
        store_key: API key for the server.
        gateway: URL of the server whose gateway serves the agent's model calls; it implies the kind
            process, unless it is ray.
        model_hosts: Hosts that its model calls go to by themselves; they are led to the gateway.
        concurrency: Attempts at once; None for the kind's default.
        timeout_s: Seconds that one attempt may take.
        memory_mb: Megabytes of private memory per worker; None for a share of the machine's.
        keep_open: File descriptor that workers hold open while they live, such as a lock's.
        redaction: Redaction rules of orphaned workers.
        ray_address: Address of the Ray cluster; by default that of RAY_ADDRESS, else `auto`.
        niceness: How much lower the priority of worker processes is, as of nice(2).
        import_per_candidate: Whether each candidate has worker processes of its own, which bind it
            before they import the agent.
        containment: What keeps worker processes from acting outside; None to let them.

    Raises:
        ConfigError: Executors of this kind import the agent once, or into another interpreter.
    """
    if import_per_candidate:
        check_import_per_candidate(kind)
    if spec.python and kind in ("inline", "ray"):
        raise ConfigError(
            f'executor = "{kind}" under [run] imports the agent into Ratchet\'s own environment,'
            f" but the agent belongs to that of {spec.python}.",
            hint='Set executor = "auto", or install Ratchet\'s tool in that environment and run '
            "it there.",
        )
    if kind == "ray":
        from ratchet.run.ray_executor import RayExecutor

        return RayExecutor(
            spec,
            address=ray_cluster(ray_address),
            slots=concurrency or os.cpu_count() or 1,
            timeout_s=timeout_s,
            gateway=gateway,
        )
    if gateway:
        kind = "process"
    elif kind == "auto":
        kind = "async" if agent.is_async else "process"
    cores = os.cpu_count() or 1
    slots = concurrency or (cores if kind == "process" else DEFAULT_CONCURRENCY)
    if kind == "inline":
        assert isinstance(agent, Agent)
        return AsyncExecutor(agent, slots=slots, timeout_s=timeout_s)
    workers = workers_for(slots, cores) if kind == "async" else slots
    memory = memory_of_each(memory_mb, workers)
    capacity = None
    if import_per_candidate:
        capacity = min(slots, OF_A_LOOP) if kind == "async" else 1
        workers = max(MIN_CANDIDATES, 2 * slots // capacity)
    return WorkerExecutor(
        spec,
        store_url=store_url,
        store_key=store_key,
        gateway=gateway,
        model_hosts=model_hosts,
        state=state,
        slots=slots,
        workers=workers,
        capacity=capacity,
        source=defaults(agent.declarations) if import_per_candidate else None,
        timeout_s=timeout_s,
        memory_bytes=memory,
        keep_open=keep_open,
        redaction=redaction,
        niceness=niceness,
        containment=containment,
    )


def check_import_per_candidate(kind: Kind) -> None:
    """Check that an executor can import the agent for each candidate.

    Raises:
        ConfigError: Executors of this kind import it once.
    """
    once = {
        "inline": "this process imports the agent once for all candidates",
        "ray": "an actor on the cluster imports the agent once for all candidates",
    }
    if kind in once:
        raise ConfigError(
            f'executor = "{kind}" and import_per_candidate = true under [run] cannot be combined:'
            f" {once[kind]}.",
            hint='Set executor = "auto", or read each prompt when it is used instead of at import.',
        )


def ray_cluster(address: str | None) -> str:
    """Address of the Ray cluster: the configured one, else that of RAY_ADDRESS, else `auto`."""
    return address or os.environ.get("RAY_ADDRESS") or "auto"


def workers_for(slots: int, cores: int) -> int:
    """Number of worker processes, each with an event loop, for async agents.

    Args:
        slots: Attempts at once.
        cores: Cores of this machine.
    """
    return max(1, min(cores, -(-slots // OF_A_LOOP)))


def memory_of_each(megabytes: int | None, workers: int) -> int:
    """Bytes of private memory per worker."""
    if megabytes is not None:
        return megabytes * 1024 * 1024
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(MIN_MEMORY, int(physical * 0.75) // workers)
