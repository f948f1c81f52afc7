"""Delivery: records are sent at once, or wait in order until somebody takes them."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator, Sequence

import msgspec

from ratchet.observe.sending import Away, Refused, Target
from ratchet.observe.spool import Backlog, Frame, MemoryBacklog
from ratchet.types import SpanRecord

_log = logging.getLogger("ratchet")

BATCH = 500
"""Records sent together."""

FRAME_BYTES = 4 * 1024 * 1024
"""A batch that is longer waits in parts."""

PAUSES_S = (0.25, 10.0)
"""Shortest and longest pause between tries while nobody takes records."""

KEY_PAUSE_S = 60.0
"""Pause after a key was refused."""

TURN = 20
"""Batches of the backlog that are sent before new spans are looked at again."""


class Delivery:
    """Gives records to a target, in order. One thread at a time.

    Args:
        target: Who takes them.
        backlog: Where they wait while the target is away.
        clock: Seconds, from any beginning, never going back.
    """

    def __init__(self, target: Target, backlog: Backlog, clock: Callable[[], float]) -> None:
        self._target = target
        self._backlog = backlog
        self._spare: MemoryBacklog | None = None
        self._clock = clock
        # At the end of a process another thread keeps what the sending one could not send.
        self._keeping = threading.Lock()
        self._pause_s = PAUSES_S[0]
        self._again_at: float | None = None
        self._warned_refused = self._warned_disk = False
        self._lost_in_memory = 0
        self._left: int | None = None
        self.sent = self.refused = self.outages = 0
        self.last_error = ""

    @property
    def away(self) -> bool:
        """Whether the target took nothing when it was last asked."""
        return self._again_at is not None

    @property
    def waiting(self) -> int:
        """Spans that wait for the target."""
        if self._left is not None:
            return self._left
        return self._backlog.spans() + (self._spare.spans() if self._spare else 0)

    @property
    def lost(self) -> int:
        """Spans that were given up because there was no room for them."""
        memory = self._spare.lost if self._spare else 0
        return self._backlog.lost + self._lost_in_memory + memory

    @property
    def due_s(self) -> float | None:
        """How long until what waits is to be tried again; None when nothing waits."""
        if self._again_at is None:
            return 0.0 if self._first() is not None else None
        return max(0.0, self._again_at - self._clock())

    def deliver(self, records: Sequence[SpanRecord]) -> None:
        """Send records, or keep them behind those that wait already."""
        for start in range(0, len(records), BATCH):
            part = records[start : start + BATCH]
            if self.away or self._first() is not None or not self._sent(part):
                self.keep(part)

    def retry(self) -> None:
        """Send some of what waits, if it is time to."""
        for _ in range(TURN):
            if self._again_at is not None and self._clock() < self._again_at:
                return
            first = self._first()
            if first is None:
                # Without anything to try it with: the next batch will show.
                self._again_at = None
                return
            backlog, frame = first
            if not self._sent(_records(frame)):
                return
            backlog.done()

    def keep(self, records: Sequence[SpanRecord]) -> None:
        """Have records wait."""
        for start in range(0, len(records), BATCH):
            for frame in _frames(records[start : start + BATCH]):
                with self._keeping:
                    self._append(frame)

    def hasten(self) -> None:
        """Try what waits at once."""
        if self._again_at is not None:
            self._again_at = self._clock()

    def _append(self, frame: Frame) -> None:
        if self._spare is None:
            try:
                self._backlog.append(frame)
                return
            except OSError as error:
                if not self._warned_disk:
                    self._warned_disk = True
                    _log.warning(
                        "Spans cannot be kept on disk (%s): they wait in memory.",
                        error.strerror or error,
                    )
                self._spare = MemoryBacklog()
        self._spare.append(frame)

    @property
    def keeps_on_disk(self) -> bool:
        """Whether what waits outlives the process."""
        return self._spare is None and not isinstance(self._backlog, MemoryBacklog)

    def close(self) -> None:
        """Close the target, and leave what waits on disk to the next process."""
        self._left = self.waiting
        self._backlog.close()
        self._target.close()

    def forget(self) -> None:
        """Let go of the backlog in a child process: what waits there is its parent's."""
        self._backlog.close()

    def _first(self) -> tuple[Backlog, Frame] | None:
        # What went to memory came after what is on disk.
        for backlog in (self._backlog, self._spare):
            if backlog is not None and (frame := backlog.first()) is not None:
                return backlog, frame
        if self._spare is not None:
            self._lost_in_memory += self._spare.lost
            self._spare = None
        return None

    def _sent(self, records: Sequence[SpanRecord]) -> bool:
        """Send records; False when nobody took them."""
        if not records:
            return True
        try:
            self._target.send(records)
        except Away as away:
            self._rest_from(away)
            return False
        except Refused as refused:
            # Which of them it is only shows when they are sent apart.
            half = len(records) // 2
            if half:
                return self._sent(records[:half]) and self._sent(records[half:])
            self.refused += 1
            self.last_error = str(refused)
            if not self._warned_refused:
                self._warned_refused = True
                _log.warning("%s does not take a span: %s", self._target.place, refused)
            return True
        self.sent += len(records)
        if self._again_at is not None:
            _log.info("%s takes spans again.", self._target.place)
        self._again_at = None
        self._pause_s = PAUSES_S[0]
        return True

    def _rest_from(self, away: Away) -> None:
        if self._again_at is None:
            self.outages += 1
            level = logging.WARNING if self.outages == 1 else logging.INFO
            _log.log(level, "Spans wait, and will be sent later: %s", away)
        self.last_error = str(away)
        pause_s = KEY_PAUSE_S if away.refused_key else self._pause_s
        # Half of it at least: a server that comes back is not met by everyone at once.
        self._again_at = self._clock() + pause_s * (0.5 + 0.5 * _luck())
        self._pause_s = min(2 * self._pause_s, PAUSES_S[1])


_luck = random.Random().random  # noqa: S311
"""Not the global one: an agent that seeds that one would draw other numbers when it is traced."""

_decoder = msgspec.json.Decoder(list[SpanRecord])


def _frames(records: Sequence[SpanRecord]) -> Iterator[Frame]:
    data = msgspec.json.encode(records)
    half = len(records) // 2
    if len(data) > FRAME_BYTES and half:
        yield from _frames(records[:half])
        yield from _frames(records[half:])
    elif records:
        yield Frame(data, len(records))


def _records(frame: Frame) -> list[SpanRecord]:
    """The records of a batch; of one that another version wrote perhaps none."""
    try:
        return _decoder.decode(frame.data)
    except msgspec.MsgspecError:
        return []
