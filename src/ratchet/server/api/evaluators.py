"""Evaluators: their report cards, and a trial of an evaluator on one stored output."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ratchet.server.api.fields import Limit, Name, Request
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import DEVELOP, READ, RouteGroup
from ratchet.server.services import Services
from ratchet.types import ReportCard, Score

group = RouteGroup("evaluators")


class CardQuery(Request, frozen=True, kw_only=True):
    """Filter for report cards."""

    evaluator: Name | None = None
    """Only report cards of this evaluator."""
    limit: Limit = 100


class CardList(msgspec.Struct, frozen=True):
    """Report cards, newest first."""

    cards: list[ReportCard]


@group.route("GET", "/v1/report-cards", READ)
async def list_cards(server: Services, query: CardQuery) -> CardList:
    """List report cards of evaluators."""
    read = server.store.report_cards.list
    return CardList(await server.in_thread(read, evaluator=query.evaluator, limit=query.limit))


@group.route("GET", "/v1/report-cards/{id}", READ)
async def get_card(server: Services, id: str) -> ReportCard:
    """Get a report card."""
    card = await server.in_thread(server.store.report_cards.get, id)
    if card is None:
        raise HttpProblem(404, f"There is no report card {id[:200]!r}.", field="id")
    return card


LISTED_S, TRIED_S = 60.0, 300.0
"""Time limits of listing the project's evaluators, and of one verdict."""


class ProjectEvaluator(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluator of the project."""

    evaluator: str
    version: str
    unit: str
    """Empty for scores in [0, 1]."""
    basis: str
    """What its scores rest on: `comparison`, `execution`, `measurement` or `opinion`."""
    models: list[str]
    """Models that it calls, which may cost money; empty if none."""
    card: ReportCard | None
    """Its newest report card."""


class ProjectEvaluators(msgspec.Struct, frozen=True):
    """The evaluators of the project that the server was started in."""

    evaluators: list[ProjectEvaluator]


@group.route("GET", "/v1/evaluators", DEVELOP, waits=True)
async def list_evaluators(server: Services) -> ProjectEvaluators:
    """List the evaluators of the project that the server was started in.

    They are the project's code, which is loaded in a process of its own.
    """
    if server.commands is None:
        raise _no_project("ratchet evaluators list")
    command = ["evaluators", "list", "--json"]
    return await server.commands.run(command, ProjectEvaluators, seconds=LISTED_S)


class NewTrial(Request, frozen=True, kw_only=True):
    """The output to score."""

    subject: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{4,200}$")]
    """Id of a rollout or a trace, or the start of one."""
    may_ask_models: bool = False
    """Whether an evaluator that calls a model may run, which may cost money."""


class EvaluatorTrial(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluator's result for one output. It is not stored and decides nothing."""

    subject: str
    """Id of the rollout or trace."""
    score: Score
    models: list[str]
    spent: str
    """The cost of its models, as a sentence; empty if it called none."""


@group.route("POST", "/v1/evaluators/{name}/trial", DEVELOP, audited=True, waits=True)
async def try_evaluator(server: Services, name: str, body: NewTrial) -> EvaluatorTrial:
    """Try an evaluator on one stored output.

    It runs in a process of its own, with a time limit. The score is not stored. As
    `ratchet evaluators try`.
    """
    if server.commands is None:
        raise _no_project(f"ratchet evaluators try {name[:100]} {body.subject}")
    command = ["evaluators", "try", "--json", *([] if body.may_ask_models else ["--no-model"])]
    command += ["--", name, body.subject]
    return await server.commands.run(command, EvaluatorTrial, seconds=TRIED_S)


def _no_project(command: str) -> HttpProblem:
    return HttpProblem(
        409,
        "Evaluators are code of a project, but the server was not started in a project.",
        hint=f"There: {command}",
    )
