"""Feedback: explicit and implicit feedback of users, given at once or later."""

from __future__ import annotations

import time
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ratchet.server.agent_limits import BY_SUBJECTS
from ratchet.server.api.fields import Page, Request, UnixTime
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import GIVE_FEEDBACK, READ, RouteGroup
from ratchet.server.services import Services
from ratchet.types import Feedback, FeedbackKind, fault

group = RouteGroup("feedback")

Reference = Annotated[str, Meta(max_length=200)]


class NewFeedback(Request, frozen=True, kw_only=True):
    """One item of feedback on a rollout, a span or a conversation."""

    id: Annotated[str, Meta(min_length=1, max_length=200)]
    """Chosen by the sender, so that sending it again has no effect."""
    kind: FeedbackKind
    value: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Thumbs are 0 or 1; a rating is scaled to [0, 1]."""
    rollout_id: Reference = ""
    trace_id: Reference = ""
    span_id: Reference = ""
    conversation_id: Reference = ""
    comment: Annotated[str, Meta(max_length=20_000)] = ""
    content: Any = None
    """The corrected answer, or {"chosen": …, "rejected": …}."""
    created_at: UnixTime = 0.0
    """Unix seconds; the server's clock when omitted."""


class NewFeedbackList(Request, frozen=True, kw_only=True):
    """Feedback; an item whose id is already stored is ignored."""

    feedback: Annotated[list[NewFeedback], Meta(max_length=1_000)]


class FeedbackStored(msgspec.Struct, frozen=True):
    """Number of new items."""

    stored: int


@group.route("POST", "/v1/feedback", GIVE_FEEDBACK, agents=BY_SUBJECTS)
async def add_feedback(server: Services, body: NewFeedbackList) -> FeedbackStored:
    """Give feedback, at once or later.

    `thumbs` are 0 or 1. A `rating` has a value from 0 to 1. A `correction` has the right answer as
    its content, a `preference` {"chosen": …, "rejected": …}. A `comment` has text. The implicit
    kinds `retry`, `abandonment` and `copy` need no value.
    """
    items = [Feedback(**msgspec.structs.asdict(new)) for new in body.feedback]
    for number, item in enumerate(items):
        wrong = fault(item)
        if wrong is not None:
            field, detail = wrong
            raise HttpProblem(422, detail, field=f"feedback[{number}].{field}")
    stored = await server.in_thread(_store, server, items)
    if stored:
        server.activity_log.event("feedback.given", {"stored": stored})
    return FeedbackStored(stored)


def _store(server: Services, items: list[Feedback]) -> int:
    redacted = list(map(server.redactor.feedback, items))
    return server.store.feedback.add(redacted, time.time())


class FeedbackFilter(Page, frozen=True, kw_only=True):
    """Filter for feedback."""

    rollout_id: Reference | None = None
    trace_id: Reference | None = None
    conversation_id: Reference | None = None


class FeedbackPage(msgspec.Struct, frozen=True):
    """One page of feedback, newest first."""

    feedback: list[Feedback]
    next_cursor: str | None


@group.route("GET", "/v1/feedback", READ)
async def list_feedback(server: Services, query: FeedbackFilter) -> FeedbackPage:
    """List feedback, newest first."""
    filters = msgspec.structs.asdict(query)
    return FeedbackPage(*await server.in_thread(server.store.feedback.list, **filters))
