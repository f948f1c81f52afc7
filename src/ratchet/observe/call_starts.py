"""Starts of live calls: what remains of a call that hangs, or whose process is killed.

A start is sent if the call has not ended soon. That of a call in a canary is written to a file
before the call runs. The file is a segment of the spool: when this process is killed, the next
process of the agent sends it.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ratchet._live_calls import LiveCall
from ratchet.observe.frames import frame_of
from ratchet.observe.ids import new_span_id
from ratchet.observe.spool import Spool
from ratchet.types import Span, SpanRecord
from ratchet.types.trace import (
    ARM,
    CALL_START,
    CANDIDATE,
    EXPERIMENT,
    GROUP,
    RELEASE,
    RESOURCES,
    UNIT,
)

if TYPE_CHECKING:
    from ratchet.observe.step_span import StepSpan

ENROLLED_S = 0.3
"""Seconds after which the start of a call in a canary is sent."""

OTHERS_S = 5.0
"""The same for other calls, whose hangs only a watch looks for. Until then nothing is done with
their starts: almost all of these calls end before."""

MAX_CALLS_UNDER_WAY = 10_000
"""Maximum number of calls under way; starts of further calls are not recorded."""

RETRY_PAUSE_S = 1.0
"""Seconds before another try, when starts could not be handed over."""

FILE_BYTES = 256 * 1024
"""Size at which the file is rewritten with only the calls that are under way."""

_TOLD = (EXPERIMENT, ARM, UNIT, CANDIDATE, GROUP, RESOURCES, RELEASE)
"""Attributes of a start. They hold no content: a start is written before anything is redacted."""

_log = logging.getLogger("ratchet")


def start_of(trace_id: str, span_id: str, start_ns: int, attributes: Mapping[str, Any]) -> Span:
    """The span that says that a call has begun.

    Args:
        trace_id: The call's trace.
        span_id: The call's own span.
        start_ns: When it began, Unix time in nanoseconds.
        attributes: Those of the call's span so far.
    """
    return Span(
        trace_id=trace_id,
        span_id=f"{new_span_id():016x}",
        parent_id=span_id,
        name=CALL_START,
        start_ns=start_ns,
        end_ns=start_ns,
        attributes={key: attributes[key] for key in _TOLD if key in attributes},
    )


class _Start(NamedTuple):
    span: StepSpan
    agent: str
    call: LiveCall
    due: float
    record: SpanRecord | None
    """Already made and in the file, for a call in a canary."""

    def made(self) -> SpanRecord:
        """The record to send."""
        return self.record or _record(self.span, self.agent)


def _record(span: StepSpan, agent: str) -> SpanRecord:
    ids = (f"{span.trace_id:032x}", f"{span.span_id:016x}")
    return SpanRecord(span=start_of(*ids, span.start_ns, span.attributes), agent=agent)


class CallStarts:
    """The starts of this process's live calls that have not been sent. Thread-safe.

    Args:
        journal: The file, in the folder of the agent's spool; None to keep starts in memory only.
    """

    def __init__(self, journal: Spool | None) -> None:
        self._journal = journal
        # Reentrant: a signal handler may begin a call while its thread is in here.
        self._lock = threading.RLock()
        self._waiting: dict[int, _Start] = {}
        """By the id of the call's span."""
        self._written = 0
        self._next = math.inf
        """Monotonic time at which the first start is due."""

    def begin(self, span: StepSpan, call: LiveCall, agent: str, now: float) -> bool:
        """Record the start of a live call.

        Args:
            span: The call's span.
            call: Says when it is over.
            agent: The live agent's name.
            now: Monotonic seconds.

        Returns:
            Whether it is due before all others: whoever waits for that has to wait anew.
        """
        enrolled = EXPERIMENT in span.attributes
        due = now + (ENROLLED_S if enrolled else OTHERS_S)
        with self._lock:
            if len(self._waiting) >= MAX_CALLS_UNDER_WAY:
                return False
            record = _record(span, agent) if enrolled else None
            self._waiting[span.span_id] = _Start(span, agent, call, due, record)
            if record is not None:
                self._write(record)
            is_next = due < self._next
            self._next = min(due, self._next)
        return is_next

    def due_s(self, now: float) -> float | None:
        """Seconds until the next start is due; None without any."""
        return None if self._next == math.inf else max(0.0, self._next - now)

    def due(self, now: float) -> dict[int, SpanRecord]:
        """The starts to send, of calls still under way, by the id of the call's span."""
        with self._lock:
            for key in [key for key, waiting in self._waiting.items() if waiting.call.over]:
                del self._waiting[key]
            due = {
                key: waiting.made() for key, waiting in self._waiting.items() if waiting.due <= now
            }
            later = (waiting.due for waiting in self._waiting.values() if waiting.due > now)
            self._next = min(later, default=math.inf)
            if due:
                self._next = min(self._next, now + RETRY_PAUSE_S)
            return due

    def sent(self, calls: Iterable[int]) -> None:
        """Forget starts that are stored or in the backlog, by the ids of the calls' spans."""
        with self._lock:
            for key in calls:
                self._waiting.pop(key, None)

    def forget(self) -> None:
        """Close the file in a forked child: it is the parent's."""
        if self._journal is not None:
            self._journal.close()

    def close(self) -> None:
        """Delete the file; the next process does it if a start in it was not sent."""
        with self._lock:
            journal, self._journal = self._journal, None
            if journal is None:
                return
            if any(waiting.record and not waiting.call.over for waiting in self._waiting.values()):
                journal.close()
            else:
                journal.replace(())

    def _write(self, record: SpanRecord) -> None:
        """Append to the file. What reached the operating system survives a kill of this process."""
        if self._journal is None:
            return
        frame = frame_of(record)
        self._written += len(frame.data)
        try:
            if self._written > FILE_BYTES:
                ongoing = [
                    frame_of(waiting.record)
                    for waiting in self._waiting.values()
                    if waiting.record is not None and not waiting.call.over
                ]
                self._journal.replace(ongoing)
                self._written = sum(len(frame.data) for frame in ongoing)
            else:
                self._journal.append(frame)
        except OSError as error:
            self._journal = None
            _log.warning(
                "The starts of calls cannot be kept on disk (%s): if this process is killed, the "
                "calls that it had just begun are lost.",
                error.strerror or error,
            )
