"""Datasets: versioned lists of tasks."""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ratchet.server.api.fields import JsonObject, Name, Request
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import DEVELOP, READ, RouteGroup
from ratchet.server.services import Services
from ratchet.store import Store
from ratchet.types import Dataset, DatasetSummary, InputError, Origin, Provenance, Split, Task
from ratchet.types.trace import TraceFilter

group = RouteGroup("datasets")

DEFAULT_FRACTIONS: dict[Split, float] = {"train": 0.4, "val": 0.2, "test": 0.4}
"""Shares of the splits of a dataset that is made here: the defaults of a project."""


class NewTask(Request, frozen=True, kw_only=True):
    """One input of the agent."""

    id: Annotated[str, Meta(min_length=1, max_length=500)]
    """Unique within its dataset."""
    input: Any
    expected: Any = None
    metadata: JsonObject = {}
    origin: Origin = Origin()
    """Where it comes from."""


class NewDataset(Request, frozen=True, kw_only=True):
    """A list of tasks, each in one split."""

    name: Name
    tasks: Annotated[list[NewTask], Meta(max_length=100_000)]
    splits: dict[str, Split]
    """Split by task id."""
    provenance: Provenance = "curated"
    parent: Annotated[str, Meta(max_length=100)] = ""
    """Version that this version was made from."""
    reason: Annotated[str, Meta(max_length=1000)] = ""
    """What changed since that version."""


class DatasetVersion(msgspec.Struct, frozen=True):
    """Version of the stored dataset."""

    version: str
    """Content hash of the tasks and their splits."""


class DatasetView(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset."""

    name: str
    version: str
    provenance: Provenance
    parent: str
    reason: str
    tasks: list[Task]
    splits: dict[str, Split]


@group.route("POST", "/v1/datasets", DEVELOP, audited=True)
async def publish_dataset(server: Services, body: NewDataset) -> DatasetVersion:
    """Store a dataset and make it the latest of its name."""
    ids: set[str] = set()
    for number, task in enumerate(body.tasks):
        if task.id in ids:
            raise HttpProblem(422, f"Two tasks are named {task.id!r}.", field=f"tasks[{number}].id")
        if task.id not in body.splits:
            raise HttpProblem(422, f"The task {task.id!r} has no split.", field="splits")
        ids.add(task.id)
    unknown = sorted(body.splits.keys() - ids)
    if unknown:
        raise HttpProblem(422, f"There is no task {unknown[0]!r}.", field=f"splits.{unknown[0]}")
    tasks = tuple(task_of(new) for new in body.tasks)
    dataset = Dataset(body.name, tasks, body.splits, body.provenance, body.parent, body.reason)
    return DatasetVersion(await server.in_thread(server.store.datasets.put, dataset))


def task_of(new: NewTask) -> Task:
    """A stored task."""
    return Task(new.id, new.input, new.expected, new.metadata, new.origin)


@group.route("GET", "/v1/datasets/{version}", READ)
async def get_dataset(server: Services, version: str) -> DatasetView:
    """Get a dataset by its version."""
    try:
        return _view(await server.in_thread(server.store.datasets.get, version))
    except InputError as error:
        raise HttpProblem(404, error.message, field="version") from None


class DatasetQuery(Request, frozen=True, kw_only=True):
    """Filter for datasets."""

    name: Name


@group.route("GET", "/v1/datasets", READ)
async def latest_dataset(server: Services, query: DatasetQuery) -> DatasetView:
    """Get the latest dataset of a name."""
    dataset = await server.in_thread(server.store.datasets.latest, query.name)
    if dataset is None:
        raise HttpProblem(404, f"There is no dataset {query.name!r}.", field="name")
    return _view(dataset)


class DatasetSummaries(msgspec.Struct, frozen=True):
    """Datasets without their tasks."""

    datasets: list[DatasetSummary]


class VersionQuery(Request, frozen=True, kw_only=True):
    """Filter for versions."""

    name: Name | None = None
    """Only versions of this dataset, the latest first; by default the latest of each."""


@group.route("GET", "/v1/dataset-versions", READ)
async def list_dataset_versions(server: Services, query: VersionQuery) -> DatasetSummaries:
    """List the latest version of each dataset, or all versions of one."""
    datasets = server.store.datasets
    if query.name is None:
        return DatasetSummaries(await server.in_thread(datasets.list))
    return DatasetSummaries(await server.in_thread(datasets.history, query.name))


TraceId = Annotated[str, Meta(min_length=4, max_length=200)]


class NewTraces(Request, frozen=True, kw_only=True):
    """Traces to make tasks from."""

    traces: Annotated[list[TraceId], Meta(min_length=1, max_length=100)]
    """Ids of traces."""


class TracesAdded(msgspec.Struct, frozen=True, kw_only=True):
    """The result of adding traces."""

    version: str
    """The dataset's current version."""
    before: str
    """The previous version; empty if there was none."""
    tasks: list[str]
    """Ids of the tasks that were added, or got an answer."""
    left_out: dict[str, int]
    """Number of traces that did not become a task, by reason."""


@group.route("POST", "/v1/datasets/{name}/traces", DEVELOP, audited=True)
async def add_traces(server: Services, name: str, body: NewTraces) -> TracesAdded:
    """Make tasks from traces and add them to a dataset, as a new version.

    As `ratchet datasets capture`: a task joins the split of inputs that say nearly the same, and
    copies are left out.
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name):
        raise HttpProblem(422, f"{name[:100]!r} is not a dataset's name.", field="name")
    return await server.in_thread(_with_traces, server.store, name, body.traces)


def _with_traces(store: Store, name: str, ids: list[str]) -> TracesAdded:
    from ratchet.curate import CaptureFilter, capture

    first = store.datasets.latest(name)
    dataset = first or Dataset(name, (), {})
    added: list[str] = []
    left_out: Counter[str] = Counter()
    for id in ids:
        skeleton = store.traces.skeleton(id, limit=1)
        if skeleton is None:
            raise HttpProblem(404, f"There is no trace {id!r}.", field="traces")
        trace = skeleton.trace
        criteria = TraceFilter(
            since_ns=trace.start_ns,
            until_ns=trace.start_ns + 1,
            agent=trace.agent or None,
            rollouts=bool(trace.rollout_id),
        )
        got = capture(
            store,
            dataset,
            CaptureFilter(traces=criteria),
            limit=1,
            fractions=DEFAULT_FRACTIONS,
            now=time.time(),
        )
        dataset = got.dataset
        added += [captured.task.id for captured in got.tasks]
        left_out.update(got.left_out)
        if not got.tasks and not got.left_out:
            left_out["the dataset already has its input"] += 1
    before = first.version if first else ""
    version = store.datasets.put(dataset) if added else before
    return TracesAdded(version=version, before=before, tasks=added, left_out=dict(left_out))


def _view(dataset: Dataset) -> DatasetView:
    return DatasetView(
        name=dataset.name,
        version=dataset.version,
        provenance=dataset.provenance,
        parent=dataset.parent,
        reason=dataset.reason,
        tasks=list(dataset.tasks),
        splits=dataset.splits,
    )
