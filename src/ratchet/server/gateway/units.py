"""Unit of a live call at the gateway: a canary assigns all calls of a unit to the same arm."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from ratchet._asgi import Headers
from ratchet.observe.model_apis.bounded_json import items, mapping, name
from ratchet.server.gateway.headers import CONVERSATION_HEADER

MAX_ID = 200

_LEADING = frozenset({"system", "developer"})


class CallUnit(NamedTuple):
    """The unit of a call."""

    id: str
    conversation: bool
    """Whether it is a conversation, which keeps the version it began with."""


def conversation_of(headers: Headers) -> str:
    """The conversation that a header names; empty if none does."""
    ids = [value for key, value in headers if key == CONVERSATION_HEADER]
    return ids[0].decode("utf-8", "replace").strip()[:MAX_ID] if ids else ""


def unit_of(
    request: Mapping[str, Any], conversation: str = "", context: tuple[str, str] | None = None
) -> CallUnit:
    """The unit of a call.

    A conversation that the client names; or the user that the request names; or the trace that it
    belongs to; or how the conversation begins, which is the same in each call that continues it.

    Args:
        request: The decoded body, as the client sent it.
        conversation: Value of the header; may be empty.
        context: Trace id and parent span id sent by the client, if any.
    """
    stated = request.get("conversation")
    conversation = conversation or name(stated) or name(mapping(stated).get("id")) or ""
    if conversation:
        return CallUnit(conversation[:MAX_ID], True)
    user = (
        name(request.get("safety_identifier"))
        or name(request.get("user"))
        or name(mapping(request.get("metadata")).get("user_id"))
    )
    if user:
        return CallUnit(user[:MAX_ID], False)
    if context is not None:
        return CallUnit(context[0], False)
    return CallUnit(_beginning(request), False)


def _beginning(request: Mapping[str, Any]) -> str:
    """Hash of the first message that is not an instruction."""
    messages = request.get("messages", request.get("input", request.get("prompt")))
    first: Any = messages
    if isinstance(messages, list):
        turns = (
            message for message in items(messages) if mapping(message).get("role") not in _LEADING
        )
        first = next(turns, None)
    try:
        encoded = msgspec.json.encode(first)
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        encoded = repr(first).encode("utf-8", "replace")
    return hashlib.sha256(encoded).hexdigest()[:32]
