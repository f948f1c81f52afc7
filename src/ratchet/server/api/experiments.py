"""Experiments: comparisons and their decisions."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ratchet.autopilot.cycle.explaining import explain_experiment
from ratchet.server.api.fields import Limit, Request
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import READ, RouteGroup, TextResponse
from ratchet.server.services import Services
from ratchet.types import Experiment

group = RouteGroup("experiments")

MAX_EVIDENCE = 64 * 1024 * 1024
"""Largest evidence file that is sent, in bytes."""


class ExperimentQuery(Request, frozen=True, kw_only=True):
    """Maximum number of experiments to return."""

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
    return await server.in_thread(_found, server, id)


class Explanation(msgspec.Struct, frozen=True):
    """A decision in plain words."""

    sentences: list[str]


@group.route("GET", "/v1/experiments/{id}/explanation", READ)
async def explain(server: Services, id: str) -> Explanation:
    """Explain the reasons for a decision, and what would change it."""
    return Explanation(explain_experiment(await server.in_thread(_found, server, id)))


@group.route("GET", "/v1/experiments/{id}/evidence", READ, media_type="application/json")
async def get_evidence(server: Services, id: str) -> TextResponse:
    """Get the evidence file of a decision, byte for byte, so that its digest can be recomputed."""
    return TextResponse(await server.in_thread(_evidence, server, id), "application/json")


def _found(server: Services, id: str) -> Experiment:
    experiment = server.store.experiments.get(id)
    if experiment is None:
        raise HttpProblem(404, f"There is no experiment {id[:200]!r}.", field="id")
    return experiment


def _evidence(server: Services, id: str) -> bytes:
    path = _found(server, id).evidence_path
    if not path:
        raise HttpProblem(404, "This experiment has no evidence yet, because it is undecided.")
    try:
        if Path(path).stat().st_size > MAX_EVIDENCE:
            raise HttpProblem(
                413, f"The evidence file {path} is too large to be sent.", hint="ratchet verify"
            )
        return Path(path).read_bytes()
    except OSError as error:
        raise HttpProblem(
            404,
            f"The evidence file {path} cannot be read here: {error.strerror or error}.",
            hint="It is on the machine that made the run; check it there with ratchet verify.",
        ) from None
