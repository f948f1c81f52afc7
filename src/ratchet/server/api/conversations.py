"""Conversations: messages of users and models, and the operations behind them."""

from __future__ import annotations

from urllib.parse import unquote

import msgspec

from ratchet.llm import price
from ratchet.server.agent_limits import BY_CONVERSATION, BY_QUERY
from ratchet.server.api.fields import Limit, Request
from ratchet.server.api.traces import Id, TraceCursor
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import READ, RouteGroup
from ratchet.server.services import Services
from ratchet.types.trace import Conversation, ConversationLog, Operation

group = RouteGroup("conversations")


class CursorPage(Request, frozen=True, kw_only=True):
    """Paging parameters."""

    limit: Limit = 100
    cursor: TraceCursor | None = None
    """The previous page's `next_cursor`."""


class ConversationQuery(CursorPage, frozen=True, kw_only=True):
    """Filter for conversations."""

    agent: Id | None = None
    """Only conversations with this live agent."""
    rollouts: bool = False
    """Conversations of rollouts instead of live ones."""


class ConversationPage(msgspec.Struct, frozen=True):
    """Conversations, most recently active first."""

    conversations: list[Conversation]
    next_cursor: str | None


@group.route("GET", "/v1/conversations", READ, agents=BY_QUERY)
async def list_conversations(server: Services, query: ConversationQuery) -> ConversationPage:
    """List conversations, most recently active first."""
    filters = msgspec.structs.asdict(query)
    return ConversationPage(*await server.in_thread(server.store.conversations.list, **filters))


@group.route("GET", "/v1/conversations/{id}", READ, agents=BY_CONVERSATION)
async def get_conversation(server: Services, id: str) -> ConversationLog:
    """Get a conversation: each message of users and models once, in order."""
    for possible_id in _possible_ids(id):
        log = await server.in_thread(server.store.conversations.log, possible_id)
        if log is not None:
            return log
    raise HttpProblem(404, f"There is no conversation {id[:200]!r}.")


class OperationPage(msgspec.Struct, frozen=True):
    """Operations, in the order they began."""

    operations: list[Operation]
    next_cursor: str | None


@group.route("GET", "/v1/conversations/{id}/operations", READ, agents=BY_CONVERSATION)
async def list_operations(server: Services, id: str, query: CursorPage) -> OperationPage:
    """List a conversation's operations in the order they began: model calls, tool calls, agents."""
    read = server.store.conversations.operations
    options = {**msgspec.structs.asdict(query), "price": price}
    for possible_id in _possible_ids(id):
        page, cursor = await server.in_thread(read, possible_id, **options)
        if page:
            return OperationPage(page, cursor)
    return OperationPage([], None)


def _possible_ids(id: str) -> list[str]:
    """The ids that a path may stand for: an id with a slash arrives quoted twice."""
    return [id] if "%" not in id else list(dict.fromkeys((unquote(id), id)))
