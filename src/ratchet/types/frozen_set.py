"""Frozen sets: tasks that make sure a fixed problem stays fixed."""

from __future__ import annotations

import msgspec

from ratchet.types.task import Task

FROZEN_TASKS = 20
"""Maximum number of tasks of a frozen set."""


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """A person's change of a frozen task's expected answer."""

    task_id: str
    before: object
    after: object
    """The new expected answer; None if the task was removed."""
    by: str
    reason: str = ""
    at: float
    """Unix seconds."""


class FrozenSet(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of a fixed problem: its failures, and similar tasks that were right.

    They are a population of their own, and never val or test tasks.
    """

    id: str
    project: str
    """The project, among others in the same store."""
    problem_id: str
    title: str
    """The problem's title."""
    tasks: tuple[Task, ...]
    """At most FROZEN_TASKS."""
    loss: float = 0.0
    """The problem's share × loss before it was fixed: the worst sets run first."""
    created_at: float
    """Unix seconds."""
    corrections: tuple[Correction, ...] = ()
    """Oldest first."""
    version: int = 1
    """Counts its changes; a writer that has not seen the last one is refused."""
