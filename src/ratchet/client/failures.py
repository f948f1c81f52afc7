"""Failures of requests, and their conversion to errors with user-facing messages."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ratchet.types import (
    NOT_FOUND,
    ConfigError,
    Conflict,
    InputError,
    NotFound,
    RatchetError,
    StoreError,
)

MAX_DETAIL = 2_000
"""How much of a server's message is shown, in characters."""


class RequestRefused(msgspec.Struct, frozen=True, kw_only=True):
    """The server responded with an error."""

    status: int
    detail: str
    """The server's message; empty if it sent none that can be read."""
    type: str = ""
    """The type of the problem, as a URI; empty if there is none."""
    retry_after_s: float | None = None
    place: str = ""
    """The server's address."""
    request: str = ""
    """Method and path."""
    key: str = ""
    """Origin of the key that was sent, such as RATCHET_KEY; empty without one."""


class ServerUnreachable(msgspec.Struct, frozen=True, kw_only=True):
    """No response was received."""

    reason: str
    place: str = ""
    final: bool = False
    """Whether a retry cannot succeed, as with an untrusted certificate."""


class _Problem(msgspec.Struct, frozen=True):
    """The fields of an RFC 9457 problem that are used."""

    detail: str = ""
    title: str = ""
    type: str = ""


def refusal(
    status: int, headers: Mapping[str, str], body: bytes, *, place: str, request: str, key: str
) -> RequestRefused:
    """Parse a response with an error status."""
    detail = type = ""
    if "json" in headers.get("content-type", ""):
        try:
            problem = msgspec.json.decode(body, type=_Problem)
            detail, type = (problem.detail or problem.title)[:MAX_DETAIL], problem.type
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass  # reported without a message
    return RequestRefused(
        status=status,
        detail=detail,
        type=type,
        retry_after_s=_seconds(headers.get("retry-after", "")),
        place=place,
        request=request,
        key=key,
    )


def error_of(failure: RequestRefused | ServerUnreachable) -> RatchetError:
    """Convert a failure to an error for the user."""
    if isinstance(failure, ServerUnreachable):
        return StoreError(
            f"The server {failure.place} cannot be reached: {failure.reason}.",
            hint="If you trust it, set SSL_CERT_FILE to the certificate of its issuer."
            if failure.final
            else "Check that it is running and that the address is right.",
        )
    message = failure.detail or f"It answered {failure.request} with HTTP status {failure.status}."
    sentence = f"{failure.place}: {message}"
    if failure.status == 401:
        refusal = f"refused the key from {failure.key}" if failure.key else "requires a key"
        return ConfigError(
            f"The server {refusal}: {message}",
            hint="Set RATCHET_KEY to a key of this server.",
        )
    if failure.status == 403:
        whose = f"The key from {failure.key}" if failure.key else "A request without a key"
        return ConfigError(f"{whose} may not do this on the server {failure.place}: {message}")
    if failure.status in (409, 412):
        return Conflict(sentence)
    if failure.status in (408, 429) or failure.status >= 500:
        return StoreError(sentence, hint="Try again later.")
    if failure.status == 404 and failure.type == NOT_FOUND:
        return NotFound(sentence)
    if not failure.detail or failure.status == 404:
        return StoreError(sentence, hint="Check that it is the address of a Ratchet server.")
    return InputError(sentence)


def _seconds(text: str) -> float | None:
    """Seconds of a `retry-after` header; None for a date or an invalid value."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else None
