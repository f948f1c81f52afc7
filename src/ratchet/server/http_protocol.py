"""Uvicorn's HTTP connections, with limits on their number and on the size and time of heads.

The parser holds a head of any length, and uvicorn ends only connections that are idle after an
answer.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import resource
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

if TYPE_CHECKING:
    _Timer = asyncio.TimerHandle


HEAD_BYTES = 64 * 1024
"""Maximum number of bytes of a request besides its body: of its line, headers and trailers. What
arrives together with their end may exceed it.
"""

FRAMING = 8
"""Bytes of framing allowed per byte of a chunked body; a chunk of one byte needs five."""

HEAD_S = 30.0
"""Seconds within which the head of a request must arrive."""

UNREAD_BYTES = 64 * 1024
"""Bytes of a body that are read after its answer, such as that it is too large. Others have their
turn only between reads, and a body that is thrown away arrives as fast as it can.
"""

LINGER_S = 2.0
"""Seconds that a client still sending its body has to read the early answer."""

MAX_CONNECTIONS = 8_192
"""Maximum number of connections, if the process may open as many files; beyond it, idle ones are
closed, longest idle first.
"""

OTHER_FILES = 256
"""Open files reserved for the rest of the process."""


class BoundedHttp(HttpToolsProtocol):
    """A connection with bounded heads, which may be closed while idle to make room for others."""

    _head_timer: _Timer | None = None
    _overhead = 0
    """Bytes of the request under way that are not its body."""
    _reading_head = False
    _ends = False
    """Whether the client was told that the connection ends with the answer."""
    _unread = 0
    """Bytes of the current body that arrived after its answer."""
    idle_since = 0.0
    """When the connection last became idle, by the loop's clock."""

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request; close idle connections if there are too many."""
        super().connection_made(transport)
        self.idle_since = self.loop.time()
        self._expect_head()
        if len(self.connections) > _most_connections():
            idle = [
                connection
                for connection in self.connections
                if isinstance(connection, BoundedHttp) and connection.idle
            ]
            # Several at once, so that the next connections need not look again.
            for connection in heapq.nsmallest(
                max(1, len(self.connections) // 20),
                idle,
                key=lambda connection: connection.idle_since,
            ):
                connection.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._head_arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes, and end the connection when they are too many for a head."""
        self._overhead += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._overhead > HEAD_BYTES:
            self.send_400_response("")
        elif self._reading_head or self.idle:
            self._expect_head()

    def on_message_begin(self) -> None:
        """Restart the count: other bytes that arrived with the first ones belong to other
        messages."""
        super().on_message_begin()
        self._overhead = self._unread = 0
        self._reading_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count the bytes of a header or trailer."""
        self._overhead += len(name) + len(value)
        if self._overhead <= 2 * HEAD_BYTES:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin the request, unless its head is too large."""
        self._reading_head = False
        self._head_arrived()
        if self._overhead > HEAD_BYTES:
            raise ValueError("The head is too large.")  # which the parser ends with
        super().on_headers_complete()
        if self._is_long():
            cycle = self.cycle
            cycle.send = functools.partial(self._send, cycle, cycle.send)  # type: ignore[method-assign]

    def on_body(self, body: bytes) -> None:
        """Take a part of the body, which allows for its framing."""
        self._overhead = max(0, self._overhead - (1 + FRAMING) * len(body))
        super().on_body(body)
        if self.cycle.response_complete:
            self._unread += len(body)
            if self._unread > UNREAD_BYTES:
                self.flow.pause_reading()

    def on_response_complete(self) -> None:
        """Become idle."""
        self.idle_since = self.loop.time()
        super().on_response_complete()
        if self._ends:
            self.loop.call_later(LINGER_S, self.transport.close)

    def _is_long(self) -> bool:
        """Whether more of the body may follow its answer than would then be read."""
        for name, value in self.headers:
            if name == b"transfer-encoding":
                return True
            if name == b"content-length":
                return int(value) > UNREAD_BYTES
        return False

    async def _send(
        self, cycle: RequestResponseCycle, send: Callable[[Any], Awaitable[None]], message: Any
    ) -> None:
        """Send a part of the answer to a long body; if the body goes on, the connection ends."""
        if message["type"] != "http.response.start" or not cycle.more_body:
            await send(message)
            return
        await send({**message, "headers": [*message.get("headers", ()), CLOSE_HEADER]})
        # It would end with the answer, which is lost if the system still has unread bytes by then.
        cycle.keep_alive = True
        self._ends = True

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser refuses, or what is too large."""
        if self._overhead > HEAD_BYTES:
            self._refuse(431, b"The headers of the request are too large.")
        else:
            super().send_400_response(msg)

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(
                HEAD_S, self._refuse, 408, b"The request did not arrive in time."
            )

    def _head_arrived(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, status: int, detail: bytes) -> None:
        self._head_arrived()
        if self.transport.is_closing():
            return
        if self.idle:
            self.transport.write(
                b"%scontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%s" % (STATUS_LINE[status], len(detail), detail)
            )
        self.transport.close()


def _most_connections() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, min(MAX_CONNECTIONS, files - OTHER_FILES))
