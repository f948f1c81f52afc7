"""Conversations: everything that is recorded inside carries the conversation's id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ratchet.observe.capture import readable
from ratchet.observe.collector import current_sink

CONVERSATION = "ratchet.conversation"
"""Key in OpenTelemetry's context: the attributes that each span inside gets."""

MAX_ID = 200


@contextmanager
def conversation(id: str, *, user: str | None = None) -> Iterator[None]:
    """Say to which conversation the spans inside belong, those of instrumented libraries too.

    Args:
        id: The conversation, by an id of your own.
        user: Whom the agent talks with, by an id of your own; no name or address need be in it.

    Example:
        with ratchet.conversation(chat.id, user=chat.user_id):
            answer(question)
    """
    if current_sink() is None:
        yield
        return
    from opentelemetry.context import attach, detach, set_value

    attributes = {"gen_ai.conversation.id": readable(str(id))[:MAX_ID]}
    if user is not None:
        attributes["user.id"] = readable(str(user))[:MAX_ID]
    token = attach(set_value(CONVERSATION, attributes))
    try:
        yield
    finally:
        detach(token)
