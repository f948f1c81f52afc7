"""Errors of one provider in the form of the other's."""

from __future__ import annotations

from typing import Any

from ratchet.observe.model_apis.bounded_json import mapping

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Types of Anthropic's errors, by status."""


def chat_error(body: Any, status: int) -> dict[str, Any]:
    """Body of an error of OpenAI's APIs.

    Args:
        body: The decoded body of Anthropic's error, or its text.
        status: HTTP status; 0 within a stream.
    """
    error = mapping(mapping(body).get("error"))
    kind = str(error.get("type") or _KINDS.get(status, "api_error"))
    # Anthropic has no code; the type says what it is.
    described = {"message": _message(body, status), "type": kind, "param": None, "code": kind}
    return {"error": described}


def message_error(body: Any, status: int) -> dict[str, Any]:
    """Body of an error of Anthropic's API.

    Args:
        body: The decoded body of OpenAI's error, or its text.
        status: HTTP status; 0 within a stream.
    """
    default = "api_error" if status >= 500 or not status else "invalid_request_error"
    kind = _KINDS.get(status, default)
    return {"type": "error", "error": {"type": kind, "message": _message(body, status)}}


def _message(body: Any, status: int) -> str:
    error = mapping(body).get("error")
    message = error if isinstance(error, str) else mapping(error).get("message")
    if isinstance(message, str) and message:
        return message
    told = body if isinstance(body, str) else mapping(body).get("message")
    told = told.strip()[:500] if isinstance(told, str) else ""
    return told or f"The upstream answered with status {status}."
