"""Finds anything by the first digits of its id."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ratchet.server.api.fields import Request
from ratchet.server.routes import READ, RouteGroup
from ratchet.server.services import Services
from ratchet.store import Store
from ratchet.types import Experiment
from ratchet.types.wording import counted

group = RouteGroup("find")

MAX_RESULTS = 20


class FindQuery(Request, frozen=True, kw_only=True):
    """The start of an id."""

    q: Annotated[str, Meta(min_length=3, max_length=200)]


class FoundItem(msgspec.Struct, frozen=True):
    """Something whose id begins with the query."""

    kind: str
    """`run`, `experiment`, `release`, `cycle`, `candidate`, `dataset`, `rollout` or `trace`."""
    id: str
    title: str
    """What it is, in a few words."""


class FoundList(msgspec.Struct, frozen=True):
    """What was found, at most 20."""

    found: list[FoundItem]


@group.route("GET", "/v1/find", READ)
async def find(server: Services, query: FindQuery) -> FoundList:
    """Find runs, experiments, releases, cycles, candidates, datasets, rollouts and traces."""
    return FoundList(await server.in_thread(_found, server.store, query.q))


def _found(store: Store, prefix: str) -> list[FoundItem]:
    def of(kind: str, nouns: Iterable[Any], title: Callable[[Any], str]) -> Iterator[FoundItem]:
        return (FoundItem(kind, noun.id, title(noun)) for noun in nouns)

    datasets = (
        FoundItem(
            "dataset",
            dataset.name,
            f"version {dataset.version[:8]}, {counted(dataset.tasks, 'task')}",
        )
        for dataset in store.datasets.list()
        if dataset.name.startswith(prefix) or dataset.version.startswith(prefix)
    )
    matches = itertools.chain(
        of("run", store.runs.find(prefix), lambda run: f"{run.agent}, {run.stage}"),
        of("experiment", store.experiments.find(prefix), _verdict),
        of("release", store.releases.find(prefix), lambda e: f"{e.agent or e.branch}, {e.state}"),
        of("cycle", store.cycles.find(prefix), lambda cycle: f"{cycle.agent}, {cycle.state}"),
        of("candidate", store.candidates.find(prefix), lambda e: f"{e.algorithm}: {e.reason}"),
        datasets,
        of("rollout", store.rollouts.find(prefix), lambda e: f"task {e.task_id}, {e.status}"),
        (FoundItem("trace", id, "") for id in store.traces.find(prefix, MAX_RESULTS)),
    )
    return list(itertools.islice(matches, MAX_RESULTS))


def _verdict(experiment: Experiment) -> str:
    return experiment.decision.verdict if experiment.decision else "undecided"
