"""The spool: batches of records on disk until their destination has them; FIFO, bounded.

A segment is an append-only file: a magic line, then frames of length, number of records, checksum
and JSON. The process that writes or sends a segment holds a lock on it, which the system releases
when the process ends in any way. So a process also sends what another one left behind, and no two
processes send the same records.

A `Spool` keeps the lock on what it writes, to send it itself. A `SharedSpool` holds the lock only
while it writes a batch: another process may take the segment in between.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import struct
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ratchet._private_files import make_folder

_log = logging.getLogger("ratchet")

MAX_BYTES = 256 * 1024 * 1024
"""Limit for all segments of an agent together; beyond it the oldest is deleted."""

SEGMENT_BYTES = 4 * 1024 * 1024
"""Size at which a new segment is begun."""

LEFTOVER_CHECK_INTERVAL_S = 1.0
"""Interval between searches for segments that another process left behind, in seconds."""

MAX_FRAME = 64 * 1024 * 1024
"""Maximum length of a frame; a header that states more is damaged."""

MAGIC = b"ratchet spool 1\n"
SUFFIX = ".spool"
_HEAD = struct.Struct(">III")
"""Length, number of records, CRC-32 of the data."""


class SpoolFrame(NamedTuple):
    """An encoded batch of records."""

    data: bytes
    records: int


class Backlog(Protocol):
    """A queue of batches."""

    lost: int
    """Number of records dropped or damaged."""

    def append(self, frame: SpoolFrame) -> None:
        """Add a batch at the end.

        Raises:
            OSError: It cannot be stored.
        """
        ...

    def first(self) -> SpoolFrame | None:
        """The oldest batch, without removing it."""
        ...

    def oldest(self, records: int, size: int, /) -> list[SpoolFrame]:
        """The oldest batches, without removing them.

        Args:
            records: Maximum number of records, which the first batch alone may exceed.
            size: Maximum number of bytes, with the same exception.
        """
        ...

    def done(self, count: int = 1, /) -> None:
        """Remove the oldest batches."""
        ...

    def records(self) -> int:
        """Number of records that this process holds."""
        ...

    def close(self) -> None:
        """Release what is on disk, so that the next process can send it."""
        ...


class MemoryBacklog:
    """A bounded queue of batches in memory."""

    def __init__(self, max_bytes: int = 32 * 1024 * 1024) -> None:
        self._frames: deque[SpoolFrame] = deque()
        self._max_bytes = max_bytes
        self._bytes = 0
        self.lost = 0

    def append(self, frame: SpoolFrame) -> None:
        """Add a batch; drop the oldest ones beyond the limit."""
        self._frames.append(frame)
        self._bytes += len(frame.data)
        while self._bytes > self._max_bytes and len(self._frames) > 1:
            self.lost += self._frames[0].records
            self.done()

    def first(self) -> SpoolFrame | None:
        """The oldest batch."""
        return self._frames[0] if self._frames else None

    def oldest(self, records: int, size: int, /) -> list[SpoolFrame]:
        """The oldest batches."""
        return _within(self._frames, records, size)

    def done(self, count: int = 1, /) -> None:
        """Remove the oldest batches."""
        for _ in range(count):
            self._bytes -= len(self._frames.popleft().data)

    def records(self) -> int:
        """Number of records in the queue."""
        return sum(frame.records for frame in self._frames)

    def close(self) -> None:
        """Do nothing: memory needs no release."""


def _within(frames: Iterable[SpoolFrame], records: int, size: int) -> list[SpoolFrame]:
    """As many of the first frames as fit these limits, at least one."""
    batch: list[SpoolFrame] = []
    for frame in frames:
        records -= frame.records
        size -= len(frame.data)
        if batch and (records < 0 or size < 0):
            break
        batch.append(frame)
    return batch


def waits(folder: Path) -> bool:
    """Whether a folder holds segments."""
    try:
        return any(path.suffix == SUFFIX for path in folder.iterdir())
    except OSError:
        return False


class _Segment:
    """A segment that this process has locked."""

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path = path
        self.file = file
        self.read_to = len(MAGIC)
        self.size = os.fstat(file.fileno()).st_size
        self.records = 0
        self.damaged = 0
        """Number of records skipped because their checksum is wrong."""
        self.is_whole = True
        """Whether the file ends where a frame does, as far as the headers say."""
        self._next: SpoolFrame | None = None

    def lock_again(self) -> bool:
        """Lock it after `unlock`; False if another process has it, or had it and changed it."""
        try:
            fcntl.flock(self.file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        status = os.fstat(self.file.fileno())
        return status.st_nlink > 0 and status.st_size == self.size

    def unlock(self) -> None:
        fcntl.flock(self.file.fileno(), fcntl.LOCK_UN)

    def append(self, frame: SpoolFrame) -> None:
        head = _HEAD.pack(len(frame.data), frame.records, zlib.crc32(frame.data))
        left = memoryview(head + frame.data)
        try:
            self.file.seek(self.size)
            while left:  # a disk that is nearly full writes a part
                left = left[self.file.write(left) :]
        except OSError:
            # Half a frame would hide those after it.
            with contextlib.suppress(OSError):
                self.file.truncate(self.size)
            raise
        self.size += len(head) + len(frame.data)
        self.records += frame.records

    def frame(self) -> SpoolFrame | None:
        """The next frame; None at the end, or where the file is torn."""
        while self._next is None:
            read = self._read(self.read_to)
            if read is None:
                return None
            frame, is_whole = read
            if is_whole:
                self._next = frame
            else:
                self.damaged += frame.records
                self._pass(frame)
        return self._next

    def frames(self) -> Iterator[SpoolFrame]:
        """The next frames, up to the end or one that is damaged."""
        frame, at = self.frame(), self.read_to
        while frame is not None:
            yield frame
            at += _HEAD.size + len(frame.data)
            read = self._read(at)
            frame = read[0] if read is not None and read[1] else None

    def _read(self, at: int) -> tuple[SpoolFrame, bool] | None:
        """The frame at a position, and whether its checksum is right; None if there is none."""
        self.file.seek(at)
        head = self.file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        length, count, checksum = _HEAD.unpack(head)
        if length > MAX_FRAME:
            return None
        data = self.file.read(length)
        if len(data) < length:
            return None
        return SpoolFrame(data, count), zlib.crc32(data) == checksum

    def skip(self) -> None:
        """Advance past the frame that `frame` returned."""
        assert self._next is not None
        self._pass(self._next)
        self._next = None

    def _pass(self, frame: SpoolFrame) -> None:
        self.read_to += _HEAD.size + len(frame.data)
        self.records -= frame.records

    def count(self) -> None:
        """Count the unread records from the headers alone."""
        self.records, at = 0, self.read_to
        while at + _HEAD.size <= self.size:
            self.file.seek(at)
            length, count, _ = _HEAD.unpack(self.file.read(_HEAD.size))
            at += _HEAD.size + length
            if length > MAX_FRAME or at > self.size:
                break
            self.records += count
        self.is_whole = at == self.size

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.file.close()

    def delete(self) -> None:
        # Deleted while locked, so no other process can have begun to send it.
        with contextlib.suppress(OSError):
            self.path.unlink()
        self.close()


class Spool:
    """A queue of batches on disk, in a folder that several processes may share.

    Args:
        folder: The folder; created with the first batch.
        max_bytes: Limit for all segments in it.
        segment_bytes: Size at which a new segment is begun.
        prepare: Called before the folder is created, to create its parent; raises OSError when
            that fails.
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
        self._checked_at = -LEFTOVER_CHECK_INTERVAL_S
        self._ours = 0
        self.lost = 0
        """Number of records dropped because the spool was full, or damaged."""

    def append(self, frame: SpoolFrame) -> None:
        """Add a batch at the end.

        Raises:
            OSError: The folder cannot be written, or the disk is full.
        """
        last = self._segments[-1] if self._segments else None
        if last is None or last.size + len(frame.data) > self._segment_bytes:
            last = self._new()
        last.append(frame)

    def replace(self, frames: Iterable[SpoolFrame]) -> None:
        """Keep these batches instead of those that this process holds.

        Raises:
            OSError: As of `append`; the former ones are then still there.
        """
        former = list(self._segments)
        begun = False
        for frame in frames:
            if not begun:
                self._new()
                begun = True
            self._segments[-1].append(frame)
        for segment in former:
            self._segments.remove(segment)
            segment.delete()

    def first(self) -> SpoolFrame | None:
        """The oldest batch that this process holds, or else one that another process left
        behind."""
        if not self._segments:
            self._adopt()
        while self._segments:
            segment = self._segments[0]
            frame = segment.frame()
            if frame is not None:
                return frame
            # The rest is torn: its writer was killed while it wrote.
            self._drop(segment)
            if not self._segments:
                self._adopt()
        return None

    def oldest(self, records: int, size: int, /) -> list[SpoolFrame]:
        """The oldest batches, of one segment."""
        return [] if self.first() is None else _within(self._segments[0].frames(), records, size)

    def done(self, count: int = 1, /) -> None:
        """Remove the oldest batches."""
        segment = self._segments[0]
        for _ in range(count):
            segment.frame()
            segment.skip()
        if segment.read_to >= segment.size:
            self._drop(segment)

    def records(self) -> int:
        """Number of records that this process holds."""
        return sum(segment.records for segment in self._segments)

    def close(self) -> None:
        """Release the segments; the next process of this agent sends them."""
        while self._segments:
            self._segments.popleft().close()

    def _drop(self, segment: _Segment) -> None:
        self.lost += segment.damaged + max(segment.records, 0)
        with contextlib.suppress(ValueError):
            self._segments.remove(segment)
        segment.delete()

    def _new(self) -> _Segment:
        if not self._folder.is_dir():
            self._prepare()
            make_folder(self._folder)
        self._make_room()
        while True:
            self._ours += 1
            # Segments are sent in the order of their names, which is that of their creation.
            path = self._folder / f"{time.time_ns():020d}-{os.getpid()}-{self._ours}{SUFFIX}"
            opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            file = FileIO(opened, "r+b")
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.write(MAGIC)
                left = os.fstat(opened).st_nlink
            except BlockingIOError:
                left = 0
            except OSError:
                file.close()
                with contextlib.suppress(OSError):
                    path.unlink()
                raise
            if left:
                segment = _Segment(path, file)
                self._segments.append(segment)
                return segment
            # Another process took it for one that was barely begun, and deletes it.
            file.close()

    def _adopt(self) -> None:
        """Lock the oldest segment that no process holds."""
        now = time.monotonic()
        if now - self._checked_at < LEFTOVER_CHECK_INTERVAL_S:
            return
        self._checked_at = now
        own_paths = {segment.path for segment in self._segments}
        for path in self._files():
            if path not in own_paths:
                segment = _locked(path)
                if segment is not None:
                    self._segments.append(segment)
                    self._checked_at = -LEFTOVER_CHECK_INTERVAL_S  # there may be more
                    return

    def _files(self) -> list[Path]:
        try:
            return sorted(path for path in self._folder.iterdir() if path.suffix == SUFFIX)
        except OSError:
            return []

    def _make_room(self) -> None:
        """Delete the oldest segments that no other process holds until there is room."""
        sizes = {}
        for path in self._files():
            with contextlib.suppress(OSError):
                sizes[path] = path.stat().st_size
        total = sum(sizes.values()) + self._segment_bytes
        ours = {segment.path: segment for segment in self._segments}
        for path, size in sizes.items():
            if total <= self._max_bytes:
                return
            segment = ours.get(path) or _locked(path)
            if segment is not None:
                self._drop(segment)
                total -= size


class SharedSpool(Spool):
    """A spool that this process only appends to while another process reads it.

    Thread-safe. It goes on with the newest segment that no process holds: a program that is started
    every minute does not leave a file each time.
    """

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, **options)
        self._appending = threading.Lock()
        self._told = False

    def append(self, frame: SpoolFrame) -> None:
        """Add a batch at the end.

        Raises:
            OSError: The folder cannot be written, or the disk is full.
        """
        with self._appending:
            segment = self._segments[-1] if self._segments else None
            if segment is None or not self._fits(segment, frame) or not segment.lock_again():
                self.close()
                segment = self._newest(frame) or self._new()
            try:
                segment.append(frame)
            finally:
                segment.unlock()
        if self.lost and not self._told:
            self._told = True
            _log.warning(
                "No Ratchet command has read what this agent recorded, and %s is full: the "
                "oldest records are dropped, %d so far.",
                self._folder,
                self.lost,
            )

    def first(self) -> SpoolFrame | None:
        """None: another process reads the batches."""
        return None

    def records(self) -> int:
        """0: this process sends nothing itself."""
        return 0

    def _fits(self, segment: _Segment, frame: SpoolFrame) -> bool:
        return segment.size + len(frame.data) <= self._segment_bytes

    def _newest(self, frame: SpoolFrame) -> _Segment | None:
        """The newest segment, locked, if it can take a batch."""
        paths = self._files()
        segment = _locked(paths[-1]) if paths else None
        if segment is None:
            return None
        if not segment.is_whole or not self._fits(segment, frame):
            segment.close()
            return None
        self._segments.append(segment)
        return segment


def _locked(path: Path) -> _Segment | None:
    """Lock a segment; None if another process holds it, or the file is not a segment."""
    try:
        file = FileIO(path, "r+b")
    except OSError:
        return None
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have sent and deleted it before it was locked here.
        if os.fstat(file.fileno()).st_ino != path.stat().st_ino:
            file.close()
            return None
        segment = _Segment(path, file)
        if file.read(len(MAGIC)) != MAGIC:
            # Either its first line was never completed, or the file is not ours.
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
