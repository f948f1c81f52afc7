"""Synthesis: tasks that resemble a dataset's, proposed to a person; none is stored."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from ratchet.autopilot.project import Project
from ratchet.server.api.fields import Request, Seed
from ratchet.server.api.refinement import latest_of
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import DEVELOP, READ, RouteGroup
from ratchet.server.services import Services
from ratchet.types import Dataset, InputError, Split, Task

group = RouteGroup("datasets")

COACH_S = 600.0
"""Time limit of a synthesis with the coach."""

Way: TypeAlias = Literal["slots", "rewording", "boundary", "coach"]
"""Same as `MethodName` of `ratchet.curate.synthesis`, which a server loads only when needed."""

METHODS: dict[Way, str] = {
    "slots": "recombines the varying parts of real inputs; knows the answer if one part decides it",
    "rewording": "white space, apostrophes, letters: changes that keep the answer",
    "boundary": "smallest, largest, empty, missing and long values; knows no answer",
    "coach": "a model writes inputs and answers; an answer counts if all tries agree",
}


class SynthesisMethod(msgspec.Struct, frozen=True, kw_only=True):
    """A way of making inputs."""

    name: str
    what: str
    models: list[str]
    """Models that it calls, which may cost money; empty if none."""


class SynthesisMethods(msgspec.Struct, frozen=True):
    """The methods that this server offers."""

    methods: list[SynthesisMethod]


@group.route("GET", "/v1/synthesis-methods", READ)
async def list_methods(server: Services) -> SynthesisMethods:
    """List how tasks can be synthesized here; with a coach if the server's project names one."""
    coach = await server.in_thread(_coach, server)
    return SynthesisMethods(
        [
            SynthesisMethod(name=name, what=what, models=coach if name == "coach" else [])
            for name, what in METHODS.items()
            if name != "coach" or coach
        ]
    )


class NewSynthesis(Request, frozen=True, kw_only=True):
    """Tasks to propose."""

    count: Annotated[int, Meta(ge=1, le=200)] = 20
    methods: Annotated[tuple[Way, ...], Meta(min_length=1, max_length=4)] = (
        "slots",
        "rewording",
        "boundary",
    )
    split: Split = "train"
    """The split whose tasks they are made from, and to which they would be added."""
    keep_open: bool = False
    """Keep tasks without a known answer."""
    seed: Seed = 0
    may_ask_models: bool = False
    """Whether the coach may be called, which may cost money."""
    max_calls: Annotated[int, Meta(ge=1, le=1_000)] = 100
    """Maximum number of calls to the coach."""


class ProposedTasks(msgspec.Struct, frozen=True, kw_only=True):
    """Proposed tasks. To add them: `POST /v1/datasets/{name}/changes`."""

    parent: str
    """The version that they were made for."""
    tasks: list[Task]
    dropped: dict[str, int]
    """Number of discarded tasks, by reason."""
    ended: str
    """Why there are fewer than requested; empty if there are enough."""
    coach_calls: int = 0
    cost_usd: float | None = 0.0
    """Dollars of the coach; null when unknown."""


@group.route("POST", "/v1/datasets/{name}/synthesis", DEVELOP, audited=True, waits=True)
async def synthesize_tasks(server: Services, name: str, body: NewSynthesis) -> ProposedTasks:
    """Make tasks that resemble those of a dataset's latest version, for review.

    As `ratchet datasets synthesize --dry-run`. With the coach it runs as that command, in a process
    of its own, and the agent's signature is checked too.
    """
    dataset = await server.in_thread(latest_of, server.store, name)
    if "coach" not in body.methods:
        return await server.in_thread(_without_model, dataset, body)
    coach = await server.in_thread(_coach, server)
    if server.commands is None or not coach:
        raise HttpProblem(
            409,
            "This server has no coach: it was not started in a project whose [coach] names a"
            " model.",
            field="methods",
        )
    if not body.may_ask_models:
        raise HttpProblem(
            422,
            f"The coach calls {', '.join(coach)}, which may cost money.",
            hint="Allow it with may_ask_models.",
            field="may_ask_models",
        )
    command = ["datasets", "synthesize", "--json", "--dry-run", "--num-samples", str(body.count)]
    command += [part for method in body.methods for part in ("--method", method)]
    command += ["--split", body.split, "--seed", str(body.seed)]
    command += ["--max-calls", str(body.max_calls), *(["--open"] if body.keep_open else [])]
    command += ["--", f"{name}@{dataset.version}"]
    return await server.commands.run(command, ProposedTasks, seconds=COACH_S)


def _coach(server: Services) -> list[str]:
    """Names of the models of the project's coach; empty if there is none."""
    if server.project is None:
        return []
    from ratchet.autopilot.coach import coach_models

    return [model.name for model in coach_models(Project.find(server.project).config.coach)]


def _without_model(dataset: Dataset, body: NewSynthesis) -> ProposedTasks:
    from ratchet.curate.synthesis import synthesize

    work = synthesize(
        dataset,
        body.count,
        methods=body.methods,
        split=body.split,
        open_answers=True if body.keep_open else None,
        seed=body.seed,
        now=time.time(),
    )
    try:
        synthesis = asyncio.run(work)
    except InputError as error:
        raise HttpProblem(422, str(error), field="split") from None
    return ProposedTasks(
        parent=dataset.version,
        tasks=list(synthesis.tasks),
        dropped=synthesis.dropped,
        ended=synthesis.ended,
    )
