"""Starts of live calls: what is left of a call that hangs, or whose process is killed.

Each start is written to a file before the call runs, and sent if the call has not ended soon. The
file is a segment of the spool: when this process is killed, the next process of the agent sends it.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ratchet._live_calls import LiveCall
from ratchet.observe.delivery import frame_of
from ratchet.observe.ids import new_span_id
from ratchet.observe.spool import Frame, Spool
from ratchet.types import Span, SpanRecord
from ratchet.types.trace import ARM, CANDIDATE, EXPERIMENT, GROUP, RELEASE, RESOURCES, START, UNIT

if TYPE_CHECKING:
    from ratchet.observe.step_span import StepSpan

ENROLLED_S = 0.3
"""How long after its beginning the start of a call in a canary is sent, in seconds."""

OTHERS_S = 5.0
"""The same for other calls, whose hangs only a watch looks for."""

MOST = 10_000
"""Most calls under way; the starts of further ones are not recorded."""

AGAIN_S = 1.0
"""Pause before starts that could not be handed over are tried again, in seconds."""

FILE_BYTES = 256 * 1024
"""Size at which the file is begun anew, with the calls that are under way."""

_TOLD = (EXPERIMENT, ARM, UNIT, CANDIDATE, GROUP, RESOURCES, RELEASE)
"""Attributes of a start. None is content: it is written before anything is redacted."""

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
        name=START,
        start_ns=start_ns,
        end_ns=start_ns,
        attributes={key: attributes[key] for key in _TOLD if key in attributes},
    )


class _Start(NamedTuple):
    record: SpanRecord
    frame: Frame
    call: LiveCall
    due: float


class CallStarts:
    """The starts of this process's live calls that are not sent. Thread-safe.

    Args:
        journal: The file, in the folder of the agent's spool; None to keep starts in memory only.
    """

    def __init__(self, journal: Spool | None) -> None:
        self._journal = journal
        # Reentrant: a signal handler may begin a call while its thread is in here.
        self._lock = threading.RLock()
        self._waiting: dict[str, _Start] = {}
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
        started = start_of(
            f"{span.trace_id:032x}", f"{span.span_id:016x}", span.start_ns, span.attributes
        )
        record = SpanRecord(span=started, agent=agent)
        due = now + (ENROLLED_S if EXPERIMENT in started.attributes else OTHERS_S)
        start = _Start(record, frame_of(record), call, due)
        with self._lock:
            if len(self._waiting) >= MOST:
                return False
            self._waiting[record.span.span_id] = start
            self._write(start.frame)
            is_next = due < self._next
            self._next = min(due, self._next)
        return is_next

    def due_s(self, now: float) -> float | None:
        """Seconds until the next start is due; None without any."""
        return None if self._next == math.inf else max(0.0, self._next - now)

    def due(self, now: float) -> list[SpanRecord]:
        """The starts to send, of calls that are still under way."""
        with self._lock:
            for key in [key for key, each in self._waiting.items() if each.call.over]:
                del self._waiting[key]
            due = [each.record for each in self._waiting.values() if each.due <= now]
            later = (each.due for each in self._waiting.values() if each.due > now)
            self._next = min(later, default=math.inf)
            if due:
                self._next = min(self._next, now + AGAIN_S)
            return due

    def sent(self, records: list[SpanRecord]) -> None:
        """Forget starts that are stored or in the backlog."""
        with self._lock:
            for record in records:
                self._waiting.pop(record.span.span_id, None)

    def forget(self) -> None:
        """Close the file in a forked child: it is the parent's."""
        if self._journal is not None:
            self._journal.close()

    def close(self) -> None:
        """Delete the file, unless a start in it was not sent: the next process then does."""
        with self._lock:
            journal, self._journal = self._journal, None
            if journal is None:
                return
            if any(not each.call.over for each in self._waiting.values()):
                journal.close()
            else:
                journal.replace(())

    def _write(self, frame: Frame) -> None:
        """Append to the file. What the system has, it keeps when this process is killed."""
        if self._journal is None:
            return
        self._written += len(frame.data)
        try:
            if self._written > FILE_BYTES:
                ongoing = [each.frame for each in self._waiting.values() if not each.call.over]
                self._journal.replace(ongoing)
                self._written = sum(len(each.data) for each in ongoing)
            else:
                self._journal.append(frame)
        except OSError as error:
            self._journal = None
            _log.warning(
                "The starts of calls cannot be kept on disk (%s): those of a process that is killed"
                " in its first moments are lost.",
                error.strerror or error,
            )
