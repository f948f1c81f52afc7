"""Makes tasks from live traces, starting with those that call for an improvement."""

from __future__ import annotations

import msgspec

from ratchet.autopilot.cycle.parts import Captured
from ratchet.autopilot.project import Project
from ratchet.autopilot.project_evaluators import objective_of, project_evaluators
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.curate import CaptureFilter, capture
from ratchet.evaluate import basis_of
from ratchet.store import Store
from ratchet.types import Cycle, Dataset
from ratchet.types.trace import TraceFilter


def capture_tasks(project: Project, store: Store, cycle: Cycle, now: float) -> Captured:
    """Add live traces to the autopilot's dataset, which starts with the project's own tasks.

    Traces of the cycle's problem come first, then those with feedback, then those that failed, then
    the newest others: what is learned from failures alone may make the rest worse. Where the
    objective compares with an expected answer, tasks without one are left out. Capturing again adds
    what is new since.
    """
    policy = project.config.autopilot
    before = store.datasets.latest(policy.dataset)
    dataset = start = before or _first(project, policy.dataset, store)
    shares = project.config.tasks.split
    of_cycle = sum(task.origin.at >= cycle.started_at for task in start.tasks)
    most = len(start.tasks) + policy.max_tasks - of_cycle
    of_problem = (
        store.problems.occurrences(cycle.problem_id, limit=policy.max_tasks)
        if cycle.problem_id
        else []
    )
    ids = frozenset(occurrence.trace_id for occurrence in of_problem)
    for criteria in (
        CaptureFilter(traces=TraceFilter(agent=cycle.agent), trace_ids=ids),
        CaptureFilter(traces=TraceFilter(agent=cycle.agent, feedback=True), feedback="any"),
        CaptureFilter(traces=TraceFilter(agent=cycle.agent, errors=True)),
        CaptureFilter(traces=TraceFilter(agent=cycle.agent)),
    ):
        room = most - len(dataset.tasks)
        if room > 0 and criteria.trace_ids != frozenset():
            dataset = capture(
                store,
                dataset,
                criteria,
                limit=room,
                fractions={"train": shares.train, "val": shares.val, "test": shares.test},
                now=now,
            ).dataset
    if _compares(project):
        dataset = _answered(dataset, start)
    added = len(dataset.tasks) - len(start.tasks)
    if dataset.version != start.version or before is None:
        parent = "" if before is None else before.version
        dataset = msgspec.structs.replace(dataset, parent=parent)
        none = Dataset(name=policy.dataset, tasks=(), splits={})
        store.datasets.put(dataset, now, after=before or none)
    return Captured(
        dataset=f"{policy.dataset}@{dataset.version}", tasks=len(dataset.tasks), added=added
    )


def _first(project: Project, name: str, store: Store) -> Dataset:
    if not project.has_tasks():
        return Dataset(name=name, tasks=(), splits={}, provenance="captured")
    own, _ = project_dataset(project, store=store)
    return Dataset(name=name, tasks=own.tasks, splits=own.splits, provenance="captured")


def _compares(project: Project) -> bool:
    """Whether the objective compares an answer with an expected one."""
    agent = project.load_agent()
    evaluators = project_evaluators(project)
    objective = objective_of(project.config, evaluators, agent)
    measure = next((evaluator for evaluator in evaluators if evaluator.name == objective), None)
    return measure is not None and basis_of(measure) == "comparison"


def _answered(dataset: Dataset, start: Dataset) -> Dataset:
    start_ids = {task.id for task in start.tasks}
    tasks = tuple(t for t in dataset.tasks if t.expected is not None or t.id in start_ids)
    splits = {task.id: dataset.splits[task.id] for task in tasks}
    return msgspec.structs.replace(dataset, tasks=tasks, splits=splits)
