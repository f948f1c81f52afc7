"""Runs rollouts: the runner, its executors, and agents."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ratchet.run.agent import Agent, AgentSpec, load_agent
    from ratchet.run.choice import executor_for, workers_for
    from ratchet.run.executor import Executor, Kind
    from ratchet.run.inprocess import AsyncExecutor
    from ratchet.run.locks import FileLock
    from ratchet.run.runner import Runner
    from ratchet.run.transport import RetryingTransport, RunnerWatcher, ServerTransport
    from ratchet.run.worker_executor import WorkerExecutor

_LATER = {
    "Agent": "agent",
    "AgentSpec": "agent",
    "AsyncExecutor": "inprocess",
    "Executor": "executor",
    "FileLock": "locks",
    "Kind": "executor",
    "RetryingTransport": "transport",
    "Runner": "runner",
    "RunnerWatcher": "transport",
    "ServerTransport": "transport",
    "WorkerExecutor": "worker_executor",
    "executor_for": "choice",
    "load_agent": "agent",
    "workers_for": "choice",
}
"""Module of each public name; imported on first access."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"ratchet.run.{_LATER[name]}"), name)
    raise AttributeError(f"module 'ratchet.run' has no attribute {name!r}")


__all__ = [
    "Agent",
    "AgentSpec",
    "AsyncExecutor",
    "Executor",
    "FileLock",
    "Kind",
    "RetryingTransport",
    "Runner",
    "RunnerWatcher",
    "ServerTransport",
    "WorkerExecutor",
    "executor_for",
    "load_agent",
    "workers_for",
]
