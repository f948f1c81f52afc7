"""Report cards: what was measured about evaluators, and what each may therefore do."""

from __future__ import annotations

import msgspec

from ratchet.server.api.fields import Limit, Name, Request
from ratchet.server.problems import Problem
from ratchet.server.routes import READ, RouteGroup
from ratchet.server.services import Services
from ratchet.types import ReportCard

group = RouteGroup("evaluators")


class CardQuery(Request, frozen=True, kw_only=True):
    """Which cards."""

    evaluator: Name | None = None
    """Only of this evaluator."""
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
    found = await server.in_thread(server.store.report_cards.get, id)
    if found is None:
        raise Problem(404, f"There is no report card {id[:200]!r}.", field="id")
    return found
