"""Recording spool: recordings on disk that the span writer had no place for."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import msgspec

from ratchet.observe.spool import Spool, SpoolFrame
from ratchet.types import SpanRecord

FRAME_RECORDS = 20
"""Recordings in a frame, which is at most some megabytes."""

Result = TypeVar("Result")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[SpanRecord]).decode


class SpooledRecordings(NamedTuple):
    """The oldest recordings on disk."""

    records: list[SpanRecord]
    size: int
    """Bytes of them."""


class RecordingSpool:
    """A spool used from one event loop; the disk is written and read in a thread.

    Args:
        spool: The files. Those that an earlier process left are taken over.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._thread = ThreadPoolExecutor(1, "recording-spool")
        self.count = 0
        """Recordings of this process that are on disk."""

    @property
    def lost(self) -> int:
        """Recordings that a full spool dropped, or that were damaged."""
        return self._spool.lost

    async def put(self, records: Sequence[SpanRecord]) -> None:
        """Add recordings at the end.

        Raises:
            OSError: The disk cannot be written.
        """
        await self._in_thread(functools.partial(self._append, records))
        self.count += len(records)

    async def first(self) -> SpooledRecordings | None:
        """The oldest recordings, without removing them; None when there are none."""
        frame = await self._in_thread(self._spool.first)
        return None if frame is None else SpooledRecordings(_decode(frame.data), len(frame.data))

    async def done(self) -> None:
        """Remove the oldest recordings."""
        await self._in_thread(self._spool.done)
        self.count = await self._in_thread(self._spool.records)

    async def close(self) -> None:
        """Leave what is on disk to the next process."""
        await self._in_thread(self._spool.close)
        self._thread.shutdown(wait=False)

    def _append(self, records: Sequence[SpanRecord]) -> None:
        for start in range(0, len(records), FRAME_RECORDS):
            part = records[start : start + FRAME_RECORDS]
            self._spool.append(SpoolFrame(_encode(part), len(part)))

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
