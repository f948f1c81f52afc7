"""Runs rollouts: the runner and its executors."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ratchet.run.choice import executor_for, workers_for
    from ratchet.run.executor import Executor, Kind
    from ratchet.run.locks import FileLock
    from ratchet.run.runner import Runner
    from ratchet.run.transport import RetryingTransport, RunnerWatcher, ServerTransport
    from ratchet.run.worker_executor import WorkerExecutor

_LATER = {
    "Executor": "executor",
    "FileLock": "locks",
    "Kind": "executor",
    "RetryingTransport": "transport",
    "Runner": "runner",
    "RunnerWatcher": "transport",
    "ServerTransport": "transport",
    "WorkerExecutor": "worker_executor",
    "executor_for": "choice",
    "workers_for": "choice",
}
"""Module of each public name; imported on first access."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"ratchet.run.{_LATER[name]}"), name)
    raise AttributeError(f"module 'ratchet.run' has no attribute {name!r}")


__all__ = [
    "Executor",
    "FileLock",
    "Kind",
    "RetryingTransport",
    "Runner",
    "RunnerWatcher",
    "ServerTransport",
    "WorkerExecutor",
    "executor_for",
    "workers_for",
]
