"""Delivery: sends records at once, or queues them in order until the destination accepts them."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence

from ratchet.observe.frames import FRAME_BYTES, Record, frames_of, records_of
from ratchet.observe.sending import RecordsRejected, RecordTransport, TransportUnavailable
from ratchet.observe.spool import Backlog, MemoryBacklog, SpoolFrame
from ratchet.types import Feedback

_log = logging.getLogger("ratchet")

RECORDS_PER_REQUEST = 500

BACK_OFF_S = (0.25, 10.0)
"""Shortest and longest back-off between attempts, in seconds."""

KEY_PAUSE_S = 60.0
"""Back-off after the key was refused, in seconds."""

RETRY_BATCHES = 20
"""Batches of the backlog that are sent before the queue is read again."""


class Delivery:
    """Sends records to a destination, in order. Used by one thread at a time.

    Args:
        transport: Sends them.
        backlog: Holds them while the destination is unavailable.
        clock: Seconds on any monotonic clock.
    """

    def __init__(
        self, transport: RecordTransport, backlog: Backlog, clock: Callable[[], float]
    ) -> None:
        self._transport = transport
        self._backlog = backlog
        self._memory: MemoryBacklog | None = None
        self._clock = clock
        # As the process exits, another thread stores what the sender thread could not send.
        self._keeping = threading.Lock()
        self._pause_s = BACK_OFF_S[0]
        self._retry_at: float | None = None
        self._warned_refused = self._warned_disk = False
        self._lost_in_memory = 0
        self._left: int | None = None
        self.sent = self.refused = self.outages = 0
        self.last_error = ""

    @property
    def away(self) -> bool:
        """Whether the last attempt failed because the destination is unavailable."""
        return self._retry_at is not None

    @property
    def waiting(self) -> int:
        """Number of records in the backlog."""
        if self._left is not None:
            return self._left
        return self._backlog.records() + (self._memory.records() if self._memory else 0)

    @property
    def lost(self) -> int:
        """Number of records that were damaged on disk, or dropped from a full backlog."""
        memory = self._memory.lost if self._memory else 0
        return self._backlog.lost + self._lost_in_memory + memory

    @property
    def due_s(self) -> float | None:
        """Seconds until the next attempt; None if the backlog is empty."""
        if self._retry_at is None:
            return 0.0 if self._first() is not None else None
        return max(0.0, self._retry_at - self._clock())

    def deliver(self, records: Sequence[Record]) -> None:
        """Send records, or add them to the end of the backlog."""
        for start in range(0, len(records), RECORDS_PER_REQUEST):
            part = records[start : start + RECORDS_PER_REQUEST]
            if self.away or self._first() is not None or not self._sent(part):
                self.keep(part)

    def retry(self) -> None:
        """Send some of the backlog, if an attempt is due."""
        for _ in range(RETRY_BATCHES):
            if self._retry_at is not None and self._clock() < self._retry_at:
                return
            first = self._first()
            if first is None:
                # Nothing to probe the destination with: the next batch does.
                self._retry_at = None
                return
            backlog, _ = first
            frames = backlog.oldest(RECORDS_PER_REQUEST, FRAME_BYTES)
            read = [records_of(frame) for frame in frames]
            if not self._sent([record for records in read for record in records]):
                return
            self._count_unread(
                sum(
                    frame.records
                    for frame, records in zip(frames, read, strict=True)
                    if not records
                )
            )
            backlog.done(len(frames))

    def keep(self, records: Sequence[Record]) -> None:
        """Add records to the backlog."""
        for start in range(0, len(records), RECORDS_PER_REQUEST):
            for frame in frames_of(records[start : start + RECORDS_PER_REQUEST]):
                with self._keeping:
                    self._append(frame)

    def hasten(self) -> None:
        """Make the next attempt due now."""
        if self._retry_at is not None:
            self._retry_at = self._clock()

    def _append(self, frame: SpoolFrame) -> None:
        if self._memory is None:
            try:
                self._backlog.append(frame)
                return
            except OSError as error:
                if not self._warned_disk:
                    self._warned_disk = True
                    _log.warning(
                        "Spans and feedback cannot be kept on disk (%s): they wait in memory.",
                        error.strerror or error,
                    )
                self._memory = MemoryBacklog()
        self._memory.append(frame)

    @property
    def keeps_on_disk(self) -> bool:
        """Whether the backlog outlives the process."""
        return self._memory is None and not isinstance(self._backlog, MemoryBacklog)

    def withdraw(self) -> list[Record]:
        """Remove the records that are in memory only, in order, for another destination."""
        withdrawn: list[Record] = []
        for backlog in (self._backlog, self._memory):
            while isinstance(backlog, MemoryBacklog) and (frame := backlog.first()) is not None:
                withdrawn += records_of(frame)
                backlog.done()
        return withdrawn

    def close(self) -> None:
        """Close the transport, and leave the backlog on disk to the next process."""
        self._left = self.waiting
        self._backlog.close()
        self._transport.close()

    def forget(self) -> None:
        """Close the backlog in a forked child: its records belong to the parent."""
        self._backlog.close()

    def _first(self) -> tuple[Backlog, SpoolFrame] | None:
        # Records in memory are newer than those on disk.
        for backlog in (self._backlog, self._memory):
            if backlog is not None and (frame := backlog.first()) is not None:
                return backlog, frame
        if self._memory is not None:
            self._lost_in_memory += self._memory.lost
            self._memory = None
        return None

    def _sent(self, records: Sequence[Record]) -> bool:
        """Send records; return False when the destination is unavailable."""
        if not records:
            return True
        try:
            self._send(records)
        except TransportUnavailable as error:
            self._back_off(error)
            return False
        except RecordsRejected as rejected:
            # Bisect: the destination does not name the record that it rejects.
            half = len(records) // 2
            if half:
                return self._sent(records[:half]) and self._sent(records[half:])
            self.refused += 1
            self.last_error = str(rejected)
            if not self._warned_refused:
                self._warned_refused = True
                kind = "Feedback" if isinstance(records[0], Feedback) else "A span"
                _log.warning("%s was rejected by %s: %s", kind, self._transport.label, rejected)
            return True
        self.sent += len(records)
        if self._retry_at is not None:
            _log.info("%s accepts spans and feedback again.", self._transport.label)
        self._retry_at = None
        self._pause_s = BACK_OFF_S[0]
        return True

    def _send(self, records: Sequence[Record]) -> None:
        """Send records, with every error mapped to one of the two that are handled.

        Raises:
            TransportUnavailable: Also when this process lacks memory, files or modules to send.
            RecordsRejected: Also for an unexpected error, which then costs only its own record.
        """
        try:
            self._transport.send(records)
        except (TransportUnavailable, RecordsRejected):
            raise
        except (OSError, ImportError, MemoryError) as error:
            raise TransportUnavailable(
                f"{self._transport.label}: {type(error).__name__}: {error}"
            ) from error
        except Exception as error:
            raise RecordsRejected(f"{type(error).__name__}: {error}") from error

    def _count_unread(self, count: int) -> None:
        """Count records of another version, which this version cannot read."""
        if not count:
            return
        self.refused += count
        self.last_error = "records of another version of Ratchet, which this one cannot read"
        if not self._warned_refused:
            self._warned_refused = True
            _log.warning(
                "%d records were lost: another version of Ratchet wrote them, and this one cannot "
                "read them. Install the same version in both environments.",
                count,
            )

    def _back_off(self, error: TransportUnavailable) -> None:
        if self._retry_at is None:
            self.outages += 1
            level = logging.WARNING if self.outages == 1 else logging.INFO
            _log.log(level, "Spans and feedback are queued and will be sent later: %s", error)
        self.last_error = str(error)
        pause_s = KEY_PAUSE_S if error.refused_key else self._pause_s
        # Jitter: clients of a server that comes back must not all reconnect at once.
        self._retry_at = self._clock() + pause_s * (0.5 + 0.5 * _jitter())
        self._pause_s = min(2 * self._pause_s, BACK_OFF_S[1])


_jitter = random.Random().random  # noqa: S311
"""Not the global generator: tracing must not change a seeded agent's random numbers."""
