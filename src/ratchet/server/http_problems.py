"""Problem documents: every error of the API as RFC 9457 `application/problem+json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ratchet._asgi import Send
from ratchet.types import NOT_FOUND, ConfigError, Conflict, InputError, RatchetError, StoreError

MEDIA_TYPE = b"application/problem+json"

NO_TYPE = "about:blank"
"""Type of problems that the HTTP status describes fully (RFC 9457, section 4.2.1)."""

TITLES: dict[int, str] = {
    400: "The request is malformed",
    401: "A key is required",
    403: "The key does not allow this",
    404: "Not found",
    405: "The method is not allowed",
    408: "The request did not arrive in time",
    409: "It was changed concurrently",
    411: "The length is missing",
    413: "The request is too large",
    415: "The media type is not supported",
    422: "The request is not valid",
    429: "Too many requests",
    500: "The server failed",
    502: "The upstream failed",
    503: "The store is unavailable",
    504: "The upstream did not respond in time",
}


class FieldError(msgspec.Struct, frozen=True):
    """An error in one field of the request."""

    field: str
    """Path of the field in the body, the path or the query, such as `rollouts[0].seed`."""
    detail: str


class HttpProblem(Exception):
    """An error response, raised as an exception.

    Args:
        status: HTTP status.
        detail: A sentence that names the thing and says what was expected.
        field: The field at fault, if any.
        hint: What to do next.
        headers: Further headers, such as `retry-after`.
        type: A URI that identifies the problem to programs; by default derived from the status.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        field: str = "",
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
        type: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = f"{detail} {hint}" if hint else detail
        self.errors = (FieldError(field, detail),) if field else ()
        self.headers = dict(headers or {})
        self.type = type or (NOT_FOUND if status == 404 else NO_TYPE)

    def body(self, instance: str = "") -> bytes:
        """The encoded body of the response."""
        content: dict[str, Any] = {
            "type": self.type,
            "title": TITLES.get(self.status, "The request failed"),
            "status": self.status,
            "detail": self.detail,
        }
        if instance:
            content["instance"] = instance
        if self.errors:
            content["errors"] = self.errors
        return msgspec.json.encode(content)


def problem_of(error: RatchetError) -> HttpProblem:
    """Convert one of Ratchet's errors to a problem."""
    if isinstance(error, Conflict):
        status = 409
    elif isinstance(error, (InputError, ConfigError)):
        status = 422
    elif isinstance(error, StoreError):
        return HttpProblem(503, error.message, hint=error.hint, headers={"retry-after": "1"})
    else:
        status = 500
    return HttpProblem(status, error.message, hint=error.hint)


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


async def send_problem(problem: HttpProblem, send: Send, instance: str = "") -> None:
    """Send a problem, with the `error` object that providers' SDKs expect.

    Args:
        problem: The problem.
        send: The ASGI channel, before anything was sent.
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
