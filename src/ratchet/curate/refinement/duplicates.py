"""Duplicate tasks, and tasks that contradict one another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ratchet.curate.near_duplicates import near_duplicate_groups
from ratchet.curate.refinement.results import answer_key
from ratchet.curate.split import text_of
from ratchet.types import Task

REWORDED = "answer-keeping change"
"""Prefix of the origin of tasks made to repeat another task in a different form."""


def same_input(tasks: Sequence[Task]) -> list[tuple[Task, ...]]:
    """Groups of tasks whose inputs differ only in case, width and white space.

    Numbers, signs and punctuation are kept: texts that differ in them ask for different things.
    """
    groups: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        if not _is_reworded(task):
            groups[answer_key([task.input, task.metadata])].append(task)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def nearly_same_input(tasks: Sequence[Task]) -> list[tuple[Task, ...]]:
    """Groups of tasks with the same metadata and nearly identical inputs."""
    some = [task for task in tasks if not _is_reworded(task)]
    groups: dict[tuple[int, str], list[Task]] = defaultdict(list)
    copies = near_duplicate_groups([text_of(task.input) for task in some])
    for task, leader in zip(some, copies, strict=True):
        groups[leader, answer_key(task.metadata)].append(task)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def contradict(group: Sequence[Task]) -> bool:
    """Whether tasks with the same input expect different answers."""
    return len({answer_key(task.expected) for task in group if task.expected is not None}) > 1


def _is_reworded(task: Task) -> bool:
    """Whether a task deliberately repeats an input in another form."""
    return task.origin.made == "synthesized" and task.origin.by.startswith(REWORDED)
