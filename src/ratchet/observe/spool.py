"""The spool: batches of spans on disk while nobody takes them, oldest first, bounded.

A segment is a file that is only appended to: a magic line, then frames of length, number of spans,
checksum and JSON. Whoever writes or sends a segment holds a lock on it, which the system lets go
when the process ends, however it ends. So a process also sends what an earlier one left behind, and
no two processes send the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import time
import zlib
from collections import deque
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import NamedTuple, Protocol

from ratchet._private_files import make_folder

MAX_BYTES = 256 * 1024 * 1024
"""Of all segments of an agent together; beyond it the oldest is given up."""

SEGMENT_BYTES = 4 * 1024 * 1024
"""A segment that has grown to this is not appended to any more."""

CHECK_S = 1.0
"""How often is looked for segments that another process left behind."""

MAX_FRAME = 64 * 1024 * 1024
"""A longer frame is none: its head is damaged."""

MAGIC = b"ratchet spool 1\n"
SUFFIX = ".spool"
_HEAD = struct.Struct(">III")
"""Length, number of spans, CRC-32 of what follows."""


class Frame(NamedTuple):
    """One batch."""

    data: bytes
    spans: int


class Backlog(Protocol):
    """Batches that wait for a server."""

    lost: int
    """Spans that were given up."""

    def append(self, frame: Frame) -> None:
        """Add a batch at the end.

        Raises:
            OSError: It cannot be kept.
        """
        ...

    def first(self) -> Frame | None:
        """The oldest batch, which stays."""
        ...

    def done(self) -> None:
        """Take away the oldest batch."""
        ...

    def spans(self) -> int:
        """How many spans wait here, as far as this process knows."""
        ...

    def close(self) -> None:
        """Let go of what is on disk, for the next process."""
        ...


class MemoryBacklog:
    """Batches in memory, bounded: where there is no disk to write to."""

    def __init__(self, max_bytes: int = 32 * 1024 * 1024) -> None:
        self._frames: deque[Frame] = deque()
        self._max_bytes = max_bytes
        self._bytes = 0
        self.lost = 0

    def append(self, frame: Frame) -> None:
        """Add a batch; the oldest ones give way."""
        self._frames.append(frame)
        self._bytes += len(frame.data)
        while self._bytes > self._max_bytes and len(self._frames) > 1:
            self.lost += self._frames[0].spans
            self.done()

    def first(self) -> Frame | None:
        """The oldest batch."""
        return self._frames[0] if self._frames else None

    def done(self) -> None:
        """Take away the oldest batch."""
        self._bytes -= len(self._frames.popleft().data)

    def spans(self) -> int:
        """How many spans wait here."""
        return sum(frame.spans for frame in self._frames)

    def close(self) -> None:
        """Nothing is held outside."""


def waits(folder: Path) -> bool:
    """Whether somebody has left batches in a folder."""
    try:
        return any(path.suffix == SUFFIX for path in folder.iterdir())
    except OSError:
        return False


class _Segment:
    """A segment whose lock this process holds."""

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path = path
        self.file = file
        self.read_to = len(MAGIC)
        self.size = os.fstat(file.fileno()).st_size
        self.spans = 0
        self.damaged = 0
        """Spans that were passed over."""
        self._next: Frame | None = None

    def append(self, frame: Frame) -> None:
        head = _HEAD.pack(len(frame.data), frame.spans, zlib.crc32(frame.data))
        left = memoryview(head + frame.data)
        try:
            self.file.seek(self.size)
            while left:  # a disk that is nearly full takes a part
                left = left[self.file.write(left) :]
        except OSError:
            # Half of a frame would hide those that come after it.
            with contextlib.suppress(OSError):
                self.file.truncate(self.size)
            raise
        self.size += len(head) + len(frame.data)
        self.spans += frame.spans

    def frame(self) -> Frame | None:
        """The first frame that was not skipped; None at the end, or where the file is torn."""
        while self._next is None:
            self.file.seek(self.read_to)
            head = self.file.read(_HEAD.size)
            if len(head) < _HEAD.size:
                return None
            length, spans, checksum = _HEAD.unpack(head)
            if length > MAX_FRAME:
                return None
            data = self.file.read(length)
            if len(data) < length:
                return None
            frame = Frame(data, spans)
            if zlib.crc32(data) == checksum:
                self._next = frame
            else:
                self.damaged += spans
                self._pass(frame)
        return self._next

    def skip(self) -> None:
        """Go on behind the frame that `frame` gave."""
        assert self._next is not None
        self._pass(self._next)
        self._next = None

    def _pass(self, frame: Frame) -> None:
        self.read_to += _HEAD.size + len(frame.data)
        self.spans -= frame.spans

    def count(self) -> None:
        """Count the spans that were not read yet, without reading them."""
        self.spans, at = 0, self.read_to
        while at + _HEAD.size <= self.size:
            self.file.seek(at)
            length, spans, _ = _HEAD.unpack(self.file.read(_HEAD.size))
            at += _HEAD.size + length
            if length > MAX_FRAME or at > self.size:
                break
            self.spans += spans

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.file.close()

    def delete(self) -> None:
        # Deleted while it is locked: nobody can have begun to send it.
        with contextlib.suppress(OSError):
            self.path.unlink()
        self.close()


class Spool:
    """Batches on disk, in a folder that several processes may share.

    Args:
        folder: The folder; it is made at the first batch.
        max_bytes: Bytes of all segments in it.
        segment_bytes: Bytes from which on a new segment is begun.
        prepare: Makes what the folder is to lie in, before the first batch; it raises OSError when
            that cannot be made.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = MAX_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        self._folder = folder
        self._prepare = prepare
        self._max_bytes = max_bytes
        self._segment_bytes = segment_bytes
        self._segments: deque[_Segment] = deque()
        self._checked_at = -CHECK_S
        self._ours = 0
        self.lost = 0
        """Spans that were given up because there was no room, or that were damaged."""

    def append(self, frame: Frame) -> None:
        """Add a batch at the end.

        Raises:
            OSError: The folder cannot be written, or the disk is full.
        """
        last = self._segments[-1] if self._segments else None
        if last is None or last.size + len(frame.data) > self._segment_bytes:
            last = self._new()
        last.append(frame)

    def first(self) -> Frame | None:
        """The oldest batch that this process holds, or one that another left behind."""
        if not self._segments:
            self._adopt()
        while self._segments:
            segment = self._segments[0]
            frame = segment.frame()
            if frame is not None:
                return frame
            # What is left is torn: its writer was killed before it was whole.
            self._drop(segment)
            if not self._segments:
                self._adopt()
        return None

    def done(self) -> None:
        """Take away the oldest batch."""
        segment = self._segments[0]
        segment.skip()
        if segment.read_to >= segment.size:
            self._drop(segment)

    def spans(self) -> int:
        """How many spans this process holds here."""
        return sum(segment.spans for segment in self._segments)

    def close(self) -> None:
        """Let go of the segments; the next process of this agent sends them."""
        while self._segments:
            self._segments.popleft().close()

    def _drop(self, segment: _Segment) -> None:
        self.lost += segment.damaged + max(segment.spans, 0)
        with contextlib.suppress(ValueError):
            self._segments.remove(segment)
        segment.delete()

    def _new(self) -> _Segment:
        if not self._folder.is_dir():
            self._prepare()
            make_folder(self._folder)
        self._make_room()
        self._ours += 1
        # In the order of their names: of their times, as far as clocks agree.
        path = self._folder / f"{time.time_ns():020d}-{os.getpid()}-{self._ours}{SUFFIX}"
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        file = FileIO(opened, "r+b")
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.write(MAGIC)
        except OSError:
            file.close()
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        segment = _Segment(path, file)
        self._segments.append(segment)
        return segment

    def _adopt(self) -> None:
        """Take the oldest segment that nobody holds."""
        now = time.monotonic()
        if now - self._checked_at < CHECK_S:
            return
        self._checked_at = now
        held = {segment.path for segment in self._segments}
        for path in self._files():
            if path not in held:
                segment = _taken(path)
                if segment is not None:
                    self._segments.append(segment)
                    self._checked_at = -CHECK_S  # there may be more
                    return

    def _files(self) -> list[Path]:
        try:
            return sorted(path for path in self._folder.iterdir() if path.suffix == SUFFIX)
        except OSError:
            return []

    def _make_room(self) -> None:
        """Give up the oldest segments, of this process or of nobody, until there is room."""
        sizes = {}
        for path in self._files():
            with contextlib.suppress(OSError):
                sizes[path] = path.stat().st_size
        total = sum(sizes.values()) + self._segment_bytes
        ours = {segment.path: segment for segment in self._segments}
        for path, size in sizes.items():
            if total <= self._max_bytes:
                return
            segment = ours.get(path) or _taken(path)
            if segment is not None:
                self._drop(segment)
                total -= size


def _taken(path: Path) -> _Segment | None:
    """The segment, when nobody else holds it and it is one."""
    try:
        file = FileIO(path, "r+b")
    except OSError:
        return None
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Somebody may have sent and deleted it between our opening and our locking.
        if os.fstat(file.fileno()).st_ino != path.stat().st_ino:
            file.close()
            return None
        segment = _Segment(path, file)
        if file.read(len(MAGIC)) != MAGIC:
            # Begun and not even its first line written, or not ours to read.
            if segment.size <= len(MAGIC):
                segment.delete()
            else:
                file.close()
            return None
        segment.count()
        return segment
    except OSError:
        file.close()
        return None
