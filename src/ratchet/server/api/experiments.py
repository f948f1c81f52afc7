"""Experiments: comparisons and their decisions."""

from __future__ import annotations

import msgspec

from ratchet.server.api.fields import Limit, Request
from ratchet.server.problems import Problem
from ratchet.server.routes import READ, RouteGroup
from ratchet.server.services import Services
from ratchet.types import Experiment

group = RouteGroup("experiments")


class ExperimentQuery(Request, frozen=True, kw_only=True):
    """Size of the list."""

    limit: Limit = 100


class ExperimentList(msgspec.Struct, frozen=True):
    """Experiments, newest first."""

    experiments: list[Experiment]


@group.route("GET", "/v1/experiments", READ)
async def list_experiments(server: Services, query: ExperimentQuery) -> ExperimentList:
    """List the experiments."""
    return ExperimentList(await server.in_thread(server.store.experiments.list, query.limit))


@group.route("GET", "/v1/experiments/{id}", READ)
async def get_experiment(server: Services, id: str) -> Experiment:
    """Get an experiment."""
    found = await server.in_thread(server.store.experiments.get, id)
    if found is None:
        raise Problem(404, f"There is no experiment {id!r}.", field="id")
    return found
