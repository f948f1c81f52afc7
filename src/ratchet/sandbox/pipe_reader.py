"""Read a pipe up to a limit, from an event loop."""

from __future__ import annotations

import asyncio
import os

_READ_BYTES = 65_536


class PipeReader:
    """Reads a pipe and closes it at its end or past the limit.

    Args:
        fd: A non-blocking descriptor; it is closed here.
        limit: Bytes retained.
        stop: Set when more than that came.
        tail: Retain the last bytes and read on, instead of the first.
    """

    def __init__(self, fd: int, limit: int, stop: asyncio.Event, *, tail: bool = False) -> None:
        self._fd = fd
        self._limit = limit
        self._stop = stop
        self._tail = tail
        self._received = bytearray()
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(fd, self._read)

    def content(self) -> bytes:
        """The bytes read so far, within the limit."""
        return bytes(self._received)

    async def ended(self) -> None:
        """Wait for the end of the pipe."""
        await self._ended.wait()

    def close(self) -> None:
        """Stop reading."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._ended.set()

    def _read(self) -> None:
        try:
            part = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        self._received += part
        if not part:
            self.close()
        elif len(self._received) > self._limit:
            if self._tail:
                del self._received[: len(self._received) - self._limit]
                return
            del self._received[self._limit :]
            self._stop.set()
            self.close()
