"""Answers of the gateway's own: problems, in a shape that the clients' libraries show well."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from ratchet.server.problems import MEDIA_TYPE, Problem

Send: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    502: "upstream_error",
    503: "overloaded_error",
    504: "timeout_error",
}


async def answer(problem: Problem, send: Send, instance: str = "") -> None:
    """Send a problem as `application/problem+json`, with the `error` that providers' answers have.

    Args:
        problem: What is wrong.
        send: The ASGI channel; nothing was sent on it yet.
        instance: The path of the request.
    """
    content: dict[str, Any] = msgspec.json.decode(problem.body(instance))
    kind = _TYPES.get(problem.status, "api_error")
    content["error"] = {"type": kind, "message": problem.detail}
    body = msgspec.json.encode(content)
    headers = [
        (key.encode(), value.encode("latin-1", "replace")) for key, value in problem.headers.items()
    ]
    headers += [(b"content-type", MEDIA_TYPE), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
