"""`ratchet.conversation`: tags all spans inside the block with a conversation's id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ratchet.observe.capture import readable
from ratchet.observe.collector import current_sink

CONVERSATION = "ratchet.conversation"
"""Key in OpenTelemetry's context of the attributes that each span in the block gets."""

CONVERSATION_ID = "gen_ai.conversation.id"
USER_ID = "user.id"

MAX_ID = 200


@contextmanager
def conversation(id: str, *, user: str | None = None) -> Iterator[None]:
    """Tag all spans inside the block with a conversation, including those of instrumented
    libraries.

    Args:
        id: Your own id of the conversation.
        user: Your own id of the user; it need not contain a name or an address.

    Example:
        with ratchet.conversation(chat.id, user=chat.user_id):
            answer(question)
    """
    if current_sink() is None:
        yield
        return
    from opentelemetry.context import attach, detach, set_value

    attributes = {CONVERSATION_ID: readable(str(id))[:MAX_ID]}
    if user is not None:
        attributes[USER_ID] = readable(str(user))[:MAX_ID]
    token = attach(set_value(CONVERSATION, attributes))
    try:
        yield
    finally:
        detach(token)
