"""Delivery: what is to be sent is sent at once, or waits in order until somebody takes it."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from ratchet.observe.sending import RecordsRejected, RecordTransport, TransportUnavailable
from ratchet.observe.spool import Backlog, Frame, MemoryBacklog

_log = logging.getLogger("ratchet")

Item = TypeVar("Item")

BATCH = 500
"""Items sent together."""

FRAME_BYTES = 4 * 1024 * 1024
"""A batch that is longer waits in parts."""

PAUSES_S = (0.25, 10.0)
"""Shortest and longest pause between tries while nobody takes items."""

KEY_PAUSE_S = 60.0
"""Pause after a key was refused."""

RETRY_BATCHES = 20
"""Batches of the backlog that are sent before new spans are looked at again."""


class Delivery(Generic[Item]):
    """Gives items to a target, in order. One thread at a time.

    Args:
        transport: Who takes them.
        backlog: Where they wait while the target is away.
        clock: Seconds, from any beginning, never going back.
        kind: What they are: records of spans, or feedback.
        plural: What people call several of them, with a capital.
    """

    def __init__(
        self,
        transport: RecordTransport[Item],
        backlog: Backlog,
        clock: Callable[[], float],
        *,
        kind: type[Item],
        plural: str,
    ) -> None:
        self._transport = transport
        self._decoder = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
        self._plural = plural
        self._backlog = backlog
        self._memory: MemoryBacklog | None = None
        self._clock = clock
        # At the end of a process another thread keeps what the sending one could not send.
        self._keeping = threading.Lock()
        self._pause_s = PAUSES_S[0]
        self._retry_at: float | None = None
        self._warned_refused = self._warned_disk = False
        self._lost_in_memory = 0
        self._left: int | None = None
        self.sent = self.refused = self.outages = 0
        self.last_error = ""

    @property
    def away(self) -> bool:
        """Whether the target took nothing when it was last asked."""
        return self._retry_at is not None

    @property
    def waiting(self) -> int:
        """Items that wait for the target."""
        if self._left is not None:
            return self._left
        return self._backlog.spans() + (self._memory.spans() if self._memory else 0)

    @property
    def lost(self) -> int:
        """Items that were given up because there was no room for them."""
        memory = self._memory.lost if self._memory else 0
        return self._backlog.lost + self._lost_in_memory + memory

    @property
    def due_s(self) -> float | None:
        """How long until what waits is to be tried again; None when nothing waits."""
        if self._retry_at is None:
            return 0.0 if self._first() is not None else None
        return max(0.0, self._retry_at - self._clock())

    def deliver(self, items: Sequence[Item]) -> None:
        """Send items, or keep them behind those that wait already."""
        for start in range(0, len(items), BATCH):
            part = items[start : start + BATCH]
            if self.away or self._first() is not None or not self._sent(part):
                self.keep(part)

    def retry(self) -> None:
        """Send some of what waits, if it is time to."""
        for _ in range(RETRY_BATCHES):
            if self._retry_at is not None and self._clock() < self._retry_at:
                return
            first = self._first()
            if first is None:
                # Without anything to try it with: the next batch will show.
                self._retry_at = None
                return
            backlog, frame = first
            if not self._sent(self._items(frame)):
                return
            backlog.done()

    def keep(self, items: Sequence[Item]) -> None:
        """Have items wait."""
        for start in range(0, len(items), BATCH):
            for frame in _frames(items[start : start + BATCH]):
                with self._keeping:
                    self._append(frame)

    def hasten(self) -> None:
        """Try what waits at once."""
        if self._retry_at is not None:
            self._retry_at = self._clock()

    def _append(self, frame: Frame) -> None:
        if self._memory is None:
            try:
                self._backlog.append(frame)
                return
            except OSError as error:
                if not self._warned_disk:
                    self._warned_disk = True
                    _log.warning(
                        "%s cannot be kept on disk (%s): they wait in memory.",
                        self._plural,
                        error.strerror or error,
                    )
                self._memory = MemoryBacklog()
        self._memory.append(frame)

    @property
    def keeps_on_disk(self) -> bool:
        """Whether what waits outlives the process."""
        return self._memory is None and not isinstance(self._backlog, MemoryBacklog)

    def withdraw(self) -> list[Item]:
        """Take out what waits in memory alone, in order: somebody else is to send it."""
        found: list[Item] = []
        for backlog in (self._backlog, self._memory):
            while isinstance(backlog, MemoryBacklog) and (frame := backlog.first()) is not None:
                found += self._items(frame)
                backlog.done()
        return found

    def close(self) -> None:
        """Close the target, and leave what waits on disk to the next process."""
        self._left = self.waiting
        self._backlog.close()
        self._transport.close()

    def forget(self) -> None:
        """Let go of the backlog in a child process: what waits there is its parent's."""
        self._backlog.close()

    def _first(self) -> tuple[Backlog, Frame] | None:
        # What went to memory came after what is on disk.
        for backlog in (self._backlog, self._memory):
            if backlog is not None and (frame := backlog.first()) is not None:
                return backlog, frame
        if self._memory is not None:
            self._lost_in_memory += self._memory.lost
            self._memory = None
        return None

    def _sent(self, items: Sequence[Item]) -> bool:
        """Send items; False when nobody took them."""
        if not items:
            return True
        try:
            self._send(items)
        except TransportUnavailable as away:
            self._back_off(away)
            return False
        except RecordsRejected as refused:
            # Which of them it is only shows when they are sent apart.
            half = len(items) // 2
            if half:
                return self._sent(items[:half]) and self._sent(items[half:])
            self.refused += 1
            self.last_error = str(refused)
            if not self._warned_refused:
                self._warned_refused = True
                _log.warning(
                    "%s are not taken by %s: %s", self._plural, self._transport.label, refused
                )
            return True
        self.sent += len(items)
        if self._retry_at is not None:
            _log.info("%s takes %s again.", self._transport.label, self._plural.lower())
        self._retry_at = None
        self._pause_s = PAUSES_S[0]
        return True

    def _send(self, items: Sequence[Item]) -> None:
        """Have the target store items.

        Raises:
            Away: Later perhaps. That is so too where the process lacks what it takes to send.
            Refused: Never. That is so too of what no target foresaw: it is told, and costs no more
                than the items that it is about.
        """
        try:
            self._transport.send(items)
        except (TransportUnavailable, RecordsRejected):
            raise
        except (OSError, ImportError, MemoryError) as error:
            raise TransportUnavailable(
                f"{self._transport.label}: {type(error).__name__}: {error}"
            ) from error
        except Exception as error:
            raise RecordsRejected(f"{type(error).__name__}: {error}") from error

    def _back_off(self, away: TransportUnavailable) -> None:
        if self._retry_at is None:
            self.outages += 1
            level = logging.WARNING if self.outages == 1 else logging.INFO
            _log.log(level, "%s wait, and will be sent later: %s", self._plural, away)
        self.last_error = str(away)
        pause_s = KEY_PAUSE_S if away.refused_key else self._pause_s
        # Half of it at least: a server that comes back is not met by everyone at once.
        self._retry_at = self._clock() + pause_s * (0.5 + 0.5 * _jitter())
        self._pause_s = min(2 * self._pause_s, PAUSES_S[1])

    def _items(self, frame: Frame) -> list[Item]:
        """The items of a batch; of one that another version wrote perhaps none."""
        try:
            return self._decoder.decode(frame.data)
        except msgspec.MsgspecError:
            return []


_jitter = random.Random().random  # noqa: S311
"""Not the global one: an agent that seeds that one would draw other numbers when it is traced."""


def _frames(items: Sequence[Any]) -> Iterator[Frame]:
    data = msgspec.json.encode(items)
    half = len(items) // 2
    if len(data) > FRAME_BYTES and half:
        yield from _frames(items[:half])
        yield from _frames(items[half:])
    elif items:
        yield Frame(data, len(items))
