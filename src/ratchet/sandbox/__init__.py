"""Run untrusted code in a sandbox: generated functions, evaluators and test commands."""

from ratchet.sandbox.commands import CommandResult, run
from ratchet.sandbox.function_calls import CallResult, call, function_pool
from ratchet.sandbox.levels import best_level
from ratchet.sandbox.limits import (
    Level,
    SandboxFailed,
    SandboxLimits,
    SandboxResult,
    SandboxStatus,
    SandboxUnavailable,
)
from ratchet.sandbox.pool import SandboxPool
from ratchet.sandbox.view import importable

__all__ = [
    "CallResult",
    "CommandResult",
    "Level",
    "SandboxFailed",
    "SandboxLimits",
    "SandboxPool",
    "SandboxResult",
    "SandboxStatus",
    "SandboxUnavailable",
    "best_level",
    "call",
    "function_pool",
    "importable",
    "run",
]
