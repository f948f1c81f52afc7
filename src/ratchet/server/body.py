"""Request bodies: read within limits of size and time, and decompressed."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ratchet.server.problems import Problem

Receive = Callable[[], Awaitable[Mapping[str, Any]]]

ARRIVE_S = 60.0
"""Seconds within which a body must arrive."""


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete."""


async def read_body(receive: Receive, limit: int, *, arrive_s: float = ARRIVE_S) -> bytes:
    """Read the whole body.

    Args:
        receive: The ASGI channel.
        limit: Largest size in bytes.
        arrive_s: Timeout in seconds.

    Raises:
        Problem: It is too large (413), or too slow (408).
        ClientDisconnected: The client disconnected.
    """
    message = await _next(receive, arrive_s)
    first = message.get("body", b"")
    if not message.get("more_body"):
        _check(len(first), limit)
        return bytes(first)
    parts, size = [first], len(first)
    deadline = asyncio.get_running_loop().time() + arrive_s
    while message.get("more_body"):
        _check(size, limit)
        message = await _next(receive, deadline - asyncio.get_running_loop().time())
        part = message.get("body", b"")
        parts.append(part)
        size += len(part)
    _check(size, limit)
    return b"".join(parts)


def decompressed(body: bytes, encoding: str, limit: int) -> bytes:
    """The body with its Content-Encoding undone.

    Raises:
        Problem: The encoding is unknown (415), the data is damaged (400), or it exceeds the
            limit when decompressed (413).
    """
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise Problem(
            415,
            f"The content encoding {encoding!r} is not supported; gzip, deflate and identity are.",
            headers={"accept-encoding": "gzip, deflate, identity"},
        )
    # 32 + 15: detect a gzip or zlib header, with the largest window.
    machine = zlib.decompressobj(47)
    try:
        plain = machine.decompress(body, limit + 1)
    except zlib.error as error:
        raise Problem(400, f"The body is not valid {encoding} data: {error}.") from None
    _check(len(plain), limit)
    if not machine.eof:
        raise Problem(400, f"The {encoding} data of the body ends too early.")
    return plain


async def _next(receive: Receive, left_s: float) -> Mapping[str, Any]:
    try:
        async with asyncio.timeout(max(left_s, 0.0)):
            message = await receive()
    except TimeoutError:
        raise Problem(408, "The body did not arrive in time.") from None
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return message


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise Problem(413, f"The body is larger than the limit of {limit} bytes.")
