"""Requests that a program in JavaScript makes to a model's API without a client."""

from __future__ import annotations

from ratchet.wire.looking.model_inputs import is_model_address
from ratchet.wire.looking.syntax import (
    CodeScope,
    Invocation,
    Syntax,
    chain_of,
    last_name,
    static_text,
)


def address_of(call: Invocation) -> str:
    """Constant text of the URL that a request goes to; empty if it is computed."""
    return static_text(call.arguments[0]) if call.arguments else ""


def posted_body(call: Invocation, scope: CodeScope) -> Invocation | None:
    """What a request sends to a model's API, as a call with the body's fields as keywords.

    Args:
        call: A call of `fetch` or `axios.post`.
        scope: Where it stands.
    """
    if scope.module.language != "JavaScript" or not is_model_address(address_of(call)):
        return None
    if last_name(call.function) == "post":
        return _with_fields(call, call, call.arguments[1:2])
    body = call.keywords.get("body")
    if isinstance(body, Invocation) and chain_of(body.function) == "JSON.stringify":
        return _with_fields(call, body, body.arguments[:1])
    return None


def _with_fields(call: Invocation, body: Invocation, given: list[Syntax]) -> Invocation:
    """A call in the request's place; an object that is a variable counts as spread."""
    place = call.line, call.start, call.end
    spreads = [*body.spreads, *(one for one in given if not isinstance(one, Invocation))]
    return Invocation(*place, call.function, [], body.keywords, spreads)
