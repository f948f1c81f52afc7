"""Rollouts: the runner, its executors, and the agent they run."""

from ratchet.run.agent import Agent, AgentSpec, load_agent
from ratchet.run.choice import Kind, executor_for, workers_for
from ratchet.run.executor import Executor
from ratchet.run.inprocess import AsyncExecutor
from ratchet.run.locks import FileLock
from ratchet.run.loops import LoopExecutor
from ratchet.run.patience import PatientLine
from ratchet.run.pool import ProcessExecutor
from ratchet.run.runner import Runner
from ratchet.run.server_line import ServerLine
from ratchet.run.watching import RunnerWatcher

__all__ = [
    "Agent",
    "AgentSpec",
    "AsyncExecutor",
    "Executor",
    "FileLock",
    "Kind",
    "LoopExecutor",
    "PatientLine",
    "ProcessExecutor",
    "Runner",
    "RunnerWatcher",
    "ServerLine",
    "executor_for",
    "load_agent",
    "workers_for",
]
