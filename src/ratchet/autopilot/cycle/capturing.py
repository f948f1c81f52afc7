"""Makes tasks of the live traces that call for an improvement."""

from __future__ import annotations

import msgspec

from ratchet.autopilot.cycle.parts import Captured
from ratchet.autopilot.project import Project
from ratchet.curate import CaptureFilter, capture
from ratchet.store import Store
from ratchet.types import Cycle, Dataset
from ratchet.types.trace import TraceFilter

MOST_TASKS = 2_000
"""Tasks captured at once."""


def capture_tasks(project: Project, store: Store, cycle: Cycle, now: float) -> Captured:
    """Add live traces that failed, or that people commented on, to the autopilot's dataset.

    The dataset begins with the project's own tasks. Capturing again adds what is new since.
    """
    policy = project.config.autopilot
    before = store.datasets.latest(policy.dataset)
    dataset = before or _first(project, policy.dataset)
    added = 0
    shares = project.config.tasks.split
    for criteria in (
        CaptureFilter(traces=TraceFilter(agent=cycle.agent, feedback=True), feedback="any"),
        CaptureFilter(traces=TraceFilter(agent=cycle.agent, errors=True)),
    ):
        found = capture(
            store,
            dataset,
            criteria,
            limit=MOST_TASKS,
            fractions={"train": shares.train, "val": shares.val, "test": shares.test},
            now=now,
        )
        added += len(found.tasks)
        dataset = found.dataset
    if before is not None and added:
        dataset = msgspec.structs.replace(dataset, parent=before.version)
    if added or before is None:
        store.datasets.put(dataset, now, after=before or Dataset(policy.dataset, (), {}))
    return Captured(
        dataset=f"{policy.dataset}@{dataset.version}", tasks=len(dataset.tasks), added=added
    )


def _first(project: Project, name: str) -> Dataset:
    if not project.has_tasks():
        return Dataset(name=name, tasks=(), splits={}, provenance="captured")
    own, _ = project.dataset()
    return Dataset(name=name, tasks=own.tasks, splits=own.splits, provenance="captured")
