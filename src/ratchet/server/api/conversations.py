"""Conversations: what people and agents said to each other, and the steps taken for it."""

from __future__ import annotations

from urllib.parse import unquote

import msgspec

from ratchet.llm import price
from ratchet.server.api.fields import Limit, Request
from ratchet.server.api.traces import Id, TraceCursor
from ratchet.server.problems import Problem
from ratchet.server.routes import READ, RouteGroup
from ratchet.server.services import Services
from ratchet.types.trace import Conversation, ConversationLog, Operation

group = RouteGroup("conversations")


class CursorPage(Request, frozen=True, kw_only=True):
    """Which part of a list."""

    limit: Limit = 100
    cursor: TraceCursor | None = None
    """As the page before ended with."""


class ConversationQuery(CursorPage, frozen=True, kw_only=True):
    """Which conversations."""

    agent: Id | None = None
    """Only those with this live agent."""
    rollouts: bool = False
    """Those of rollouts instead of live ones."""


class ConversationPage(msgspec.Struct, frozen=True):
    """Conversations, those first that went on last."""

    conversations: list[Conversation]
    next_cursor: str | None


@group.route("GET", "/v1/conversations", READ)
async def list_conversations(server: Services, query: ConversationQuery) -> ConversationPage:
    """List conversations, those first that went on last."""
    filters = msgspec.structs.asdict(query)
    return ConversationPage(*await server.in_thread(server.store.conversations.list, **filters))


@group.route("GET", "/v1/conversations/{id}", READ)
async def get_conversation(server: Services, id: str) -> ConversationLog:
    """Read a conversation: every message of people and models in order, each once."""
    for each in _possible_ids(id):
        found = await server.in_thread(server.store.conversations.log, each)
        if found is not None:
            return found
    raise Problem(404, f"There is no conversation {id[:200]!r}.")


class OperationPage(msgspec.Struct, frozen=True):
    """Steps, in the order they began."""

    operations: list[Operation]
    next_cursor: str | None


@group.route("GET", "/v1/conversations/{id}/operations", READ)
async def list_operations(server: Services, id: str, query: CursorPage) -> OperationPage:
    """List the steps of a conversation in the order they began: calls of models, tools, agents."""
    read = server.store.conversations.operations
    options = {**msgspec.structs.asdict(query), "price": price}
    for each in _possible_ids(id):
        page, cursor = await server.in_thread(read, each, **options)
        if page:
            return OperationPage(page, cursor)
    return OperationPage([], None)


def _possible_ids(id: str) -> list[str]:
    """The ids that a path may mean: one with a slash in it stands there quoted once more."""
    return [id] if "%" not in id else list(dict.fromkeys((unquote(id), id)))
