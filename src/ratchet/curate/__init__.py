"""Datasets: reading tasks from files, splitting them without leaks, importing recordings."""

from ratchet.curate.split import split_tasks
from ratchet.curate.task_file import TaskFile, read_tasks

__all__ = ["TaskFile", "read_tasks", "split_tasks"]
