"""Hostile code, contained: generated functions, evaluators and test commands."""

from ratchet.sandbox.calling import Called, call, functions
from ratchet.sandbox.commands import Ended, run
from ratchet.sandbox.levels import best_level
from ratchet.sandbox.limits import (
    Answer,
    Level,
    Limits,
    SandboxFailed,
    SandboxUnavailable,
    Status,
)
from ratchet.sandbox.view import importable
from ratchet.sandbox.warm import Warm

__all__ = [
    "Answer",
    "Called",
    "Ended",
    "Level",
    "Limits",
    "SandboxFailed",
    "SandboxUnavailable",
    "Status",
    "Warm",
    "best_level",
    "call",
    "functions",
    "importable",
    "run",
]
