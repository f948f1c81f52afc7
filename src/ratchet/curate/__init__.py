"""Datasets: captured, read from files, split without leaks, synthesized, refined by results."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ratchet.curate.capture import Capture, CapturedTask, CaptureFilter, capture
from ratchet.curate.difference import DatasetDifference, TaskChange, difference
from ratchet.curate.near_duplicates import near_duplicate_groups
from ratchet.curate.split import leaking_groups, split_tasks
from ratchet.curate.task_file import TaskFile, read_tasks

if TYPE_CHECKING:
    from ratchet.curate.refinement import refine
    from ratchet.curate.synthesis import synthesize

_LATER = {"refine": "refinement", "synthesize": "synthesis"}
"""Imported on first use: reading tasks does not need them."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"ratchet.curate.{_LATER[name]}"), name)
    raise AttributeError(f"module 'ratchet.curate' has no attribute {name!r}")


__all__ = [
    "Capture",
    "CaptureFilter",
    "CapturedTask",
    "DatasetDifference",
    "TaskChange",
    "TaskFile",
    "capture",
    "difference",
    "leaking_groups",
    "near_duplicate_groups",
    "read_tasks",
    "refine",
    "split_tasks",
    "synthesize",
]
