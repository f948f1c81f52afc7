"""Datasets: captured from traces, read from files, split without leaks; importing recordings."""

from ratchet.curate.capture import Capture, CapturedTask, CaptureFilter, capture
from ratchet.curate.difference import DatasetDifference, TaskChange, difference
from ratchet.curate.near_duplicates import near_duplicate_groups
from ratchet.curate.split import split_tasks
from ratchet.curate.task_file import TaskFile, read_tasks

__all__ = [
    "Capture",
    "CaptureFilter",
    "CapturedTask",
    "DatasetDifference",
    "TaskChange",
    "TaskFile",
    "capture",
    "difference",
    "near_duplicate_groups",
    "read_tasks",
    "split_tasks",
]
