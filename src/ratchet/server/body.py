"""Reads, decompresses and weighs request bodies, within limits of size, time and memory."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from ratchet._asgi import Receive
from ratchet.server.http_problems import HttpProblem

Content: TypeAlias = bytes | bytearray
"""A whole body. A large body stays in the buffer it was read into, to avoid a copy."""

ARRIVAL_TIMEOUT_S = 60.0
"""Seconds within which a body must arrive."""

SMALL_BODY = 64 * 1024
"""Bodies up to this many bytes are read and decoded at once and are not counted: a connection's
own buffer is as large.
"""

HELD_LIMIT = 40 * 1024 * 1024
"""Total bytes of the larger bodies being read or handled, including their decoded form."""

ROOM_TIMEOUT_S = 5.0
"""Seconds that a body waits for room among the others."""

PIECE_BYTES = 256 * 1024
"""Bytes decompressed or weighed before other requests get their turn."""

MAX_VALUES = 500_000
"""Values in a JSON body. Two bytes are a value, and decoded it takes about a hundred; this many are
decoded in a fifth of a second.
"""

VALUE_BYTES = 64
"""Memory of a decoded value, on average."""

_SEPARATORS = b",[{"
"""There are about as many values as there are of these outside texts."""

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[,\[{]', re.DOTALL)


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete."""


class BodyBudget:
    """The memory that the bodies of all requests of a server share.

    A body reserves its declared length before it is read, and more as it is decoded. If there is no
    room, it waits its turn, and is refused if none becomes free in time.

    Args:
        limit: Maximum number of bytes; a body may exceed it while there is no other.
        room_s: Seconds that a body waits for room.
    """

    def __init__(self, limit: int = HELD_LIMIT, *, room_s: float = ROOM_TIMEOUT_S) -> None:
        self._limit = limit
        self._room_s = room_s
        self._waiting: deque[tuple[HeldBody, int, asyncio.Future[None]]] = deque()
        self.held = 0
        """Bytes reserved."""
        self.decoding = asyncio.Lock()
        """Held while a large body is decoded: one at a time, so that other requests get their
        turn."""

    @contextmanager
    def hold(self) -> Iterator[HeldBody]:
        """Hold the memory of one request's body while the block runs."""
        body = HeldBody(self)
        try:
            yield body
        finally:
            body.release()

    def give_back(self, size: int) -> None:
        """Free memory that a body held; used by `HeldBody.release`."""
        self.held -= size
        self._give()

    async def take(self, body: HeldBody, size: int) -> None:
        """Reserve memory for a body, in bytes; used by `HeldBody.grow`.

        Raises:
            HttpProblem: There was no room in time (429).
        """
        if not self._waiting and self._fits(body, size):
            self._grant(body, size)
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (body, size, granted)
        self._waiting.append(place)
        try:
            async with asyncio.timeout(self._room_s):
                await granted
        except TimeoutError:
            raise HttpProblem(
                429,
                "Too many large bodies are in flight.",
                hint="Send the request again later.",
                headers={"retry-after": "1"},
            ) from None
        finally:
            if place in self._waiting:
                self._waiting.remove(place)
                self._give()

    def _fits(self, body: HeldBody, size: int) -> bool:
        return self.held == body.taken or self.held + size <= self._limit

    def _grant(self, body: HeldBody, size: int) -> None:
        body.taken += size
        self.held += size

    def _give(self) -> None:
        while self._waiting and self._fits(*self._waiting[0][:2]):
            body, size, granted = self._waiting.popleft()
            self._grant(body, size)
            if not granted.done():
                granted.set_result(None)


class HeldBody:
    """The memory of one request's body."""

    __slots__ = ("_budget", "_seen", "decoding", "taken")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self.decoding = budget.decoding
        """Held while a large body is decoded."""
        self._seen = 0
        self.taken = 0
        """Bytes that it holds of the budget."""

    async def grow(self, size: int) -> None:
        """Count further bytes.

        Raises:
            HttpProblem: Other bodies leave no room for them (429).
        """
        self._seen += size
        await self.make_room(self._seen)

    async def make_room(self, size: int) -> None:
        """Grow to this many bytes in all.

        Raises:
            HttpProblem: Other bodies leave no room for them (429).
        """
        if size > max(SMALL_BODY, self.taken):
            await self._budget.take(self, size - self.taken)

    def release(self) -> None:
        """Release everything, once the body is handled or passed on."""
        size, self.taken = self.taken, 0
        self._budget.give_back(size)

    async def weigh(self, body: Content) -> None:
        """Count the values of a JSON body, before it is decoded.

        Raises:
            HttpProblem: It has more than MAX_VALUES (413), or other bodies leave no room (429).
        """
        if len(body) <= SMALL_BODY:
            return
        values = 0
        for start in range(0, len(body), PIECE_BYTES):
            piece = body[start : start + PIECE_BYTES]
            values += len(piece) - len(piece.translate(None, delete=_SEPARATORS))
            await asyncio.sleep(0)
        if values > MAX_VALUES:
            values = await _values(body)
        if values > MAX_VALUES:
            raise HttpProblem(
                413,
                f"The body has more than {MAX_VALUES} values.",
                hint="Send it in several requests.",
            )
        await self.grow(values * VALUE_BYTES)


async def _values(body: Content) -> int:
    """The separators outside strings; stops once there are too many."""
    values = 0
    for position, token in enumerate(_TOKEN.finditer(body)):
        if body[token.start()] != ord('"'):
            values += 1
            if values > MAX_VALUES:
                break
        if position % 10_000 == 0:
            await asyncio.sleep(0)
    return values


async def read_body(
    receive: Receive,
    limit: int,
    held_body: HeldBody,
    *,
    length: int = 0,
    arrive_s: float = ARRIVAL_TIMEOUT_S,
) -> Content:
    """Read the whole body.

    Args:
        receive: The ASGI channel.
        limit: Largest size in bytes.
        held_body: Counts its bytes.
        length: Its declared length; 0 if it declares none.
        arrive_s: Timeout in seconds.

    Raises:
        HttpProblem: It is too large (413), too slow (408), or others leave no room for it (429).
        ClientDisconnected: The client disconnected.
    """
    if length > limit:
        raise HttpProblem(413, f"The body has {length} bytes; the limit is {limit}.")
    await held_body.make_room(length)
    message = await _next(receive, arrive_s)
    first = message.get("body", b"")
    _check(len(first), limit)
    await held_body.grow(len(first))
    if not message.get("more_body"):
        return bytes(first)
    body = bytearray(first)
    deadline = asyncio.get_running_loop().time() + arrive_s
    while message.get("more_body"):
        message = await _next(receive, deadline - asyncio.get_running_loop().time())
        part = message.get("body", b"")
        _check(len(body) + len(part), limit)
        await held_body.grow(len(part))
        body += part
    return body


async def decompressed(body: Content, encoding: str, limit: int, held_body: HeldBody) -> Content:
    """The body with its Content-Encoding undone.

    Raises:
        HttpProblem: The encoding is unknown (415), the data is damaged (400), it exceeds the limit
            when decompressed (413), or others leave no room for it (429).
    """
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise HttpProblem(
            415,
            f"The content encoding {encoding!r} is not supported; gzip, deflate and identity are.",
            headers={"accept-encoding": "gzip, deflate, identity"},
        )
    # 32 + 15: detect a gzip or zlib header, with the largest window.
    machine = zlib.decompressobj(47)
    plain, remaining = bytearray(), body
    while not machine.eof:
        try:
            piece = machine.decompress(remaining, PIECE_BYTES)
        except zlib.error as error:
            raise HttpProblem(400, f"The body is not valid {encoding} data: {error}.") from None
        remaining = machine.unconsumed_tail
        if not (piece or remaining or machine.eof):
            raise HttpProblem(400, f"The {encoding} data of the body ends too early.")
        _check(len(plain) + len(piece), limit)
        await held_body.grow(len(piece))
        plain += piece
        if len(piece) == PIECE_BYTES:
            await asyncio.sleep(0)
    return plain


async def _next(receive: Receive, left_s: float) -> Mapping[str, Any]:
    try:
        async with asyncio.timeout(max(left_s, 0.0)):
            message = await receive()
    except TimeoutError:
        raise HttpProblem(408, "The body did not arrive in time.") from None
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return message


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise HttpProblem(413, f"The body is larger than the limit of {limit} bytes.")
