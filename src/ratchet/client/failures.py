"""Failures: what the server refused, or why it was not reached, as an error for people."""

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
"""Characters of a server's sentence that are repeated."""


class RequestRefused(msgspec.Struct, frozen=True, kw_only=True):
    """The server answered with an error."""

    status: int
    detail: str
    """The server's own sentence; empty when it sent none that can be read."""
    type: str = ""
    """What the server calls the problem, as a URI; empty when it does not say."""
    retry_after_s: float | None = None
    place: str = ""
    """The server's address."""
    request: str = ""
    """Method and path."""
    key: str = ""
    """Where the key came from that was shown, such as RATCHET_KEY; empty without one."""


class ServerUnreachable(msgspec.Struct, frozen=True, kw_only=True):
    """No answer came."""

    reason: str
    place: str = ""
    final: bool = False
    """Whether trying again is in vain, as with a certificate that is not trusted."""


class _Problem(msgspec.Struct, frozen=True):
    """RFC 9457, as far as it is read."""

    detail: str = ""
    title: str = ""
    type: str = ""


def refusal(
    status: int, headers: Mapping[str, str], body: bytes, *, place: str, request: str, key: str
) -> RequestRefused:
    """What an answer with an error's status says."""
    detail = type = ""
    if "json" in headers.get("content-type", ""):
        try:
            problem = msgspec.json.decode(body, type=_Problem)
            detail, type = (problem.detail or problem.title)[:MAX_DETAIL], problem.type
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass  # told as an error without words
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
    """The error for people."""
    if isinstance(failure, ServerUnreachable):
        return StoreError(
            f"The server {failure.place} cannot be reached: {failure.reason}.",
            hint="Name the file of who signed it in SSL_CERT_FILE, if it is to be trusted."
            if failure.final
            else "See that it runs and that the address is right.",
        )
    said = failure.detail or f"It answered {failure.request} with HTTP status {failure.status}."
    whole = f"{failure.place}: {said}"
    if failure.status == 401:
        shown = f"the one of {failure.key}" if failure.key else "none was given"
        return ConfigError(
            f"The server refuses the key ({shown}): {said}",
            hint="Set RATCHET_KEY to a key of this server.",
        )
    if failure.status == 403:
        shown = f"The key of {failure.key}" if failure.key else "Without a key one"
        return ConfigError(f"{shown} may not do this at the server {failure.place}: {said}")
    if failure.status in (409, 412):
        return Conflict(whole)
    if failure.status in (408, 429) or failure.status >= 500:
        return StoreError(whole, hint="Try again later.")
    if failure.status == 404 and failure.type == NOT_FOUND:
        return NotFound(whole)
    if not failure.detail or failure.status == 404:
        return StoreError(whole, hint="Is that the address of a Ratchet server?")
    return InputError(whole)


def _seconds(text: str) -> float | None:
    """The header `retry-after` in seconds; a date or nonsense counts as none."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else None
