"""The live pipeline: queues finished spans and feedback and sends them from a background thread."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ratchet.observe.background import is_importing, run_at_end_of_child, suppress_tracing
from ratchet.observe.buffer import MAX_FEEDBACK, Buffer, Buffered
from ratchet.observe.sampling import SampledSpan, Sampling
from ratchet.types import Feedback, SpanRecord, is_bad
from ratchet.types.trace import EXPERIMENT

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from ratchet._live_calls import LiveCall
    from ratchet.observe.call_starts import CallStarts
    from ratchet.observe.delivery import Delivery
    from ratchet.observe.frames import Record
    from ratchet.observe.record_builder import RecordBuilder
    from ratchet.observe.releases import ReleaseFollower
    from ratchet.observe.step_span import StepSpan

_log = logging.getLogger("ratchet")

GATHER_S = 0.3
"""Seconds for which spans gather before they are sent, unless there are many or feedback comes."""

CHILD_GATHER_S = 0.02
"""The same in a child of `multiprocessing`: a pool may end its workers with SIGTERM at any time."""

IMPORTS_S = 2.0
"""How long a fork waits for the sender thread to complete an import."""

HELD_CHECK_S = 5.0
"""Interval between checks of the traces that sampling holds."""

REOPEN_S = 1.0
"""Pause before the pipeline's stages are opened again after an error."""

SPANS_PER_CHUNK = 100
"""Spans that are prepared before other threads get a turn."""

EXIT_TIMEOUT_S = 5.0
"""How long the end of a process waits for unsent records."""


class CaptureStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of this process's spans and feedback so far."""

    on: bool
    """Whether spans are recorded."""
    target: str = ""
    """Destination."""
    agent: str = ""
    taken: int = 0
    """Spans that ended."""
    sent: int = 0
    """Records (spans and feedback) stored at the destination."""
    queued: int = 0
    """Spans and feedback in memory that were not sent yet."""
    waiting: int = 0
    """Records in the backlog, on disk where possible, because the destination is unavailable."""
    dropped: int = 0
    """Spans dropped from a full queue, and records dropped from a full backlog."""
    refused: int = 0
    """Records that the destination rejected for good."""
    broken: int = 0
    """Spans and feedback that could not be turned into records."""
    sampled_out: int = 0
    """Spans that sampling left out."""
    away: bool = False
    """Whether the destination was unavailable at the last attempt."""
    last_error: str = ""


class PipelineStages(msgspec.Struct, frozen=True):
    """The chain that the sender thread passes records through; created in that thread."""

    builder: RecordBuilder
    delivery: Delivery
    forward: Callable[[list[SpanRecord]], None] | None = None
    """Also receives the spans' records; it must not block."""
    close_forward: Callable[[float], None] | None = None


class LivePipeline:
    """A `Sink` for all spans outside of rollouts, which also sends feedback.

    Args:
        open: Creates the stages; called in the sender thread before the first record is sent.
        target: Destination, for messages.
        agent: Name of the agent.
        content: Whether inputs and outputs are recorded.
        sample: Share of traces to keep, in [0, 1].
        starts: Creates what records the starts of live calls; called with the first. None to record
            no starts.
    """

    def __init__(
        self,
        open: Callable[[], PipelineStages],
        *,
        target: str,
        agent: str,
        content: bool = True,
        sample: float = 1.0,
        starts: Callable[[], CallStarts] | None = None,
    ) -> None:
        self.tracer: Tracer | None = None
        self.mirror_content = False
        self.releases: ReleaseFollower | None = None
        self._inherited: list[Any] = []
        self._sample = sample
        self._begin()
        self.configure(
            open, target=target, agent=agent, content=content, sample=sample, starts=starts
        )

    def _begin(self) -> None:
        """Set the state that belongs to one process."""
        self._pid = os.getpid()
        self._buffer = Buffer(self._on_buffered)
        self._sampling = Sampling(self._sample) if self._sample < 1 else None
        self._wake = threading.Event()
        self._urgent = threading.Event()
        self._flushed = threading.Condition(threading.RLock())
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._stages: PipelineStages | None = None
        self._superseded: list[PipelineStages] = []
        self._open_failed = False
        self._in_flight: list[Any] = []
        self._pinned: list[tuple[int, str]] = []
        self._flushes_requested = self._flushes_done = 0
        self._closing_until: float | None = None
        self._taken_over = False
        self._broken = 0
        self._warned_feedback = False
        self._gather_s = GATHER_S
        self._starts: CallStarts | None = None

    def configure(
        self,
        open: Callable[[], PipelineStages],
        *,
        target: str,
        agent: str,
        content: bool = True,
        sample: float = 1.0,
        starts: Callable[[], CallStarts] | None = None,
    ) -> None:
        """Send to another destination from now on; arguments as of the class.

        Records of the former destination that are in memory go to the new one; those on disk stay
        there for the former.
        """
        with self._lock:
            self._open_stages = open
            self._target = target
            self._agent = agent
            self.content = content
            self._sample = sample
            self._sampling = Sampling(sample) if sample < 1 else None
            self._open_starts = starts
            if self._starts is not None:
                self._starts.close()  # those of calls under way stay on disk for the former
                self._starts = None
            if self._stages is not None:
                self._superseded.append(self._stages)
                self._stages = None

    # Called by the agent: never blocks, never raises.

    def begin_call(self, span: StepSpan, call: LiveCall) -> None:
        """Record that a live call begins, so that it counts whatever becomes of it.

        A call in a canary is kept whatever sampling decides: its outcome is needed. Of other calls,
        those that sampling leaves out have no start.
        """
        try:
            if self._closing_until is not None or self._open_starts is None:
                return
            if self._sampling is not None:
                if EXPERIMENT in span.attributes:
                    self._pinned.append((span.trace_id, ""))
                elif not self._sampling.keeps(span.trace_id):
                    return
            if self._starts is None:
                with self._lock:
                    self._starts = self._starts or self._open_starts()
            if self._starts.begin(span, call, self._agent, time.monotonic()):
                self._on_buffered(False)
        except Exception as error:
            if not self._broken:
                _log.warning("A start was not recorded: %s: %s", type(error).__name__, error)
            self._broken += 1

    def take(self, span: StepSpan) -> None:
        """Queue a finished step."""
        self._put(span, span.weight, span.status == "error")

    def take_foreign(self, span: Any) -> None:
        """Queue a finished span of OpenTelemetry's SDK."""
        attributes = span.attributes or {}
        weight = 1_000 + sum(len(v) for v in attributes.values() if type(v) is str)
        self._put(span, weight, span.status.status_code.value == 2)

    def _put(self, span: Any, weight: int, error: bool) -> None:
        if self._closing_until is None:
            self._buffer.put(span, weight, error)

    def take_feedback(self, item: Feedback) -> bool:
        """Queue a statement of feedback; return False when too many are queued."""
        if self._closing_until is not None:
            return False
        if is_bad(item):
            self.keep(item.trace_id, item.conversation_id)
        if self._buffer.put_feedback(item):
            return True
        if not self._warned_feedback:
            self._warned_feedback = True
            _log.warning(
                "%d statements of feedback are waiting; further ones are dropped.", MAX_FEEDBACK
            )
        return False

    def keep(self, trace_id: str = "", conversation: str = "") -> None:
        """Keep a trace or a conversation whatever sampling decides, for example after bad
        feedback."""
        if self._sampling is not None:
            with contextlib.suppress(ValueError):
                self._pinned.append((int(trace_id or "0", 16), conversation))

    def _on_buffered(self, urgent: bool) -> None:
        if self._thread is None:
            self.start()
        self._wake.set()
        if urgent:
            self._urgent.set()

    def start(self) -> None:
        """Start the sender thread, unless it runs."""
        with self._lock:
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._run, name="ratchet-sender", daemon=True)
            self._thread = thread
            if run_at_end_of_child(self.shutdown):
                self._gather_s = CHILD_GATHER_S
            try:
                thread.start()
            except RuntimeError:  # the interpreter is ending: `shutdown` sends the queue
                self._thread = None

    # Called by the owner of the pipeline.

    def flush(self, timeout_s: float = EXIT_TIMEOUT_S) -> bool:
        """Send what is queued. Returns whether all of it is now stored."""
        deadline = time.monotonic() + timeout_s
        if self._thread is None and not len(self._buffer):
            return True
        self.start()
        with self._flushed:
            self._flushes_requested += 1
            mine = self._flushes_requested
            self._wake.set()
            self._urgent.set()
            while self._flushes_done < mine:
                left = deadline - time.monotonic()
                if left <= 0 or self._thread is None or not self._thread.is_alive():
                    return False
                self._flushed.wait(min(left, 0.5))
        status = self.status()
        return not (status.waiting or status.away or self._open_failed)

    def shutdown(self, timeout_s: float = EXIT_TIMEOUT_S) -> None:
        """Send what is queued, within a time limit; the next process sends what is left on disk."""
        if self._closing_until is not None or self._pid != os.getpid():
            return
        deadline = time.monotonic() + timeout_s
        # The rest of the time is for storing unsent records on disk.
        self._closing_until = deadline - 0.3 * timeout_s
        thread = self._thread
        self._wake.set()
        self._urgent.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, self._closing_until - time.monotonic()) + 0.05)
        if thread is None or thread.is_alive():
            self._taken_over = True
            self._finish(deadline)

    def status(self) -> CaptureStatus:
        """Counts so far."""
        stages = self._stages
        delivery = stages.delivery if stages is not None else None
        held_count = self._sampling.held if self._sampling is not None else 0
        return CaptureStatus(
            on=self._closing_until is None,
            target=self._target,
            agent=self._agent,
            taken=self._buffer.taken,
            sent=delivery.sent if delivery else 0,
            queued=len(self._buffer) + len(self._in_flight) + held_count,
            waiting=delivery.waiting if delivery else 0,
            dropped=self._buffer.dropped + (delivery.lost if delivery else 0),
            refused=delivery.refused if delivery else 0,
            broken=self._broken + (stages.builder.broken if stages else 0),
            sampled_out=self._sampling.left_out if self._sampling is not None else 0,
            away=delivery.away if delivery else False,
            last_error=delivery.last_error if delivery else "",
        )

    def settle(self, timeout_s: float = IMPORTS_S) -> None:
        """Wait, before a fork, while the sender thread imports a module.

        The child would inherit a module that is partly imported, and nothing would complete it.
        """
        thread = self._thread
        if thread is None or thread is threading.current_thread() or thread.ident is None:
            return
        deadline = time.monotonic() + timeout_s
        while is_importing(thread.ident) and time.monotonic() < deadline:
            time.sleep(0.001)

    def forked(self) -> None:
        """Reset the pipeline in a forked child: queued records belong to the parent."""
        opened, closing = [self._stages, *self._superseded], self._closing_until
        if self._starts is not None:
            self._starts.forget()
        # Kept alive: their finalizers would close connections that are the parent's.
        self._inherited.append((opened, self._thread))
        for stages in opened:
            if stages is not None:
                # The parent's locks on its segments remain until the parent closes them.
                stages.delivery.forget()
        self._begin()
        self._closing_until = closing

    # The sender thread.

    def _run(self) -> None:
        suppress_tracing()
        warned = 0
        while True:
            self._wait()
            requested = self._flushes_requested
            try:
                self._send_batch()
            except Exception as error:  # no error may end this thread
                self._broken += len(self._in_flight)
                _log.warning(
                    "Spans and feedback could not be sent: %s: %s", type(error).__name__, error
                )
            if self._taken_over:
                return
            self._in_flight = []
            if self._buffer.dropped and not warned:
                warned = self._buffer.dropped
                _log.warning(
                    "Spans end faster than they can be sent: %d have been dropped so far.", warned
                )
            with self._flushed:
                self._flushes_done = requested
                self._flushed.notify_all()
            if self._closing_until is not None and (self._open_failed or not len(self._buffer)):
                self._close()
                self._close_starts()
                return

    def _wait(self) -> None:
        """Wait until there is something to do."""
        if self._closing_until is not None or self._flushes_requested > self._flushes_done:
            wait_s: float | None = 0.0
        elif self._stages is None:
            wait_s = REOPEN_S if self._open_failed else 0.0
        elif len(self._buffer):
            wait_s = 0.0
        else:
            wait_s = self._stages.delivery.due_s
            if self._sampling is not None and self._sampling.held:
                wait_s = HELD_CHECK_S if wait_s is None else min(wait_s, HELD_CHECK_S)
            due_s = None if self._starts is None else self._starts.due_s(time.monotonic())
            if due_s is not None:
                wait_s = due_s if wait_s is None else min(wait_s, due_s)
        self._wake.wait(wait_s)
        self._wake.clear()
        if (
            self._closing_until is None
            and self._flushes_requested == self._flushes_done
            and len(self._buffer)
        ):
            self._urgent.wait(self._gather_s)
        self._urgent.clear()

    def _opened(self) -> PipelineStages | None:
        """The stages of the present destination; None if they cannot be created now."""
        while (stages := self._stages) is None:
            open = self._open_stages
            try:
                opened = open()
            except Exception as error:
                if not self._open_failed:
                    self._open_failed = True
                    _log.warning(
                        "Spans and feedback are queued and will be sent later: %s: %s",
                        type(error).__name__,
                        error,
                    )
                return None
            self._open_failed = False
            with self._lock:
                self._superseded.append(opened)
                if open is self._open_stages:
                    self._stages = self._superseded.pop()
        for former in self._superseded:
            stages.delivery.keep(former.delivery.withdraw())
            _end(former, 0.1)
        self._superseded = []
        return stages

    def _send_batch(self) -> None:
        # Opened first: until that succeeds records stay in the queue, which is bounded.
        stages = self._opened()
        if stages is None:
            return
        self._send_starts(stages.delivery)
        self._in_flight = batch = self._buffer.take_all()
        items = self._sampled(batch)
        records: list[Record] = []
        for start in range(0, len(items), SPANS_PER_CHUNK):
            records += stages.builder.records(items[start : start + SPANS_PER_CHUNK])
            time.sleep(0)
        # Redacted from here on: a process that ends stores these rather than the items.
        self._in_flight = records
        if stages.forward is not None:
            spans = [record for record in records if isinstance(record, SpanRecord)]
            if spans:
                stages.forward(spans)
        delivery = stages.delivery
        if self._flushes_requested > self._flushes_done:
            delivery.hasten()
            while delivery.due_s == 0.0:
                delivery.retry()
        delivery.retry()
        delivery.deliver(records)

    def _send_starts(self, delivery: Delivery) -> None:
        """Send the starts of calls that have not ended; as this process ends, all of them."""
        starts = self._starts
        if starts is not None:
            now = time.monotonic() if self._closing_until is None else math.inf
            due = starts.due(now)
            delivery.deliver(list(due.values()))
            starts.sent(due)

    def _close_starts(self) -> None:
        starts, self._starts = self._starts, None
        if starts is not None:
            starts.close()

    def _sampled(self, batch: list[Buffered]) -> list[Any]:
        sampling = self._sampling
        if sampling is None:
            return [buffered.item for buffered in batch]
        picked: list[Any] = []
        pinned, self._pinned = self._pinned, []
        for trace_id, conversation in pinned:
            picked += sampling.keep(trace_id, conversation)
        spans = (
            _for_sampling(buffered) for buffered in batch if buffered.item.__class__ is not Feedback
        )
        picked += sampling.pick(spans, time.monotonic())
        return picked + [buffered.item for buffered in batch if buffered.item.__class__ is Feedback]

    def _close(self) -> None:
        stages = self._stages
        if stages is None:
            self._warn_unopened(len(self._buffer))
            return
        delivery = stages.delivery
        while delivery.due_s == 0.0 and time.monotonic() < (self._closing_until or 0.0):
            delivery.retry()
        left = delivery.waiting
        if left and delivery.keeps_on_disk:
            _log.info(
                "%d spans and statements of feedback wait on disk for the next process of this"
                " agent.",
                left,
            )
        else:
            _warn_lost(left, delivery.last_error)
        _end(stages, max(0.1, (self._closing_until or 0.0) - time.monotonic()))

    def _warn_unopened(self, count: int) -> None:
        """Warn of records that were lost because no destination could be opened, among them those
        that earlier destinations did not take."""
        former = [stages.delivery for stages in self._superseded]
        count += sum(delivery.waiting for delivery in former if not delivery.keeps_on_disk)
        _warn_lost(count, "their destination could not be opened")

    def _finish(self, deadline: float) -> None:
        """Store on disk, as the process ends, what the blocked sender thread could not send."""
        unsent = self._in_flight
        raw = [
            pending for pending in unsent if isinstance(pending, Buffered)
        ] + self._buffer.take_all()
        records = [pending for pending in unsent if not isinstance(pending, Buffered)]
        try:
            stages = self._opened()
            if stages is None:
                self._warn_unopened(len(raw) + len(records))
                return
            records += stages.builder.records(self._sampled(raw))
            if records:
                if self._thread is None and time.monotonic() < deadline:
                    stages.delivery.deliver(records)
                else:
                    stages.delivery.keep(records)
            self._in_flight = []
            if not stages.delivery.keeps_on_disk:
                _warn_lost(stages.delivery.waiting, stages.delivery.last_error)
        except Exception as error:
            _warn_lost(len(raw) + len(records), f"{type(error).__name__}: {error}")
        finally:
            self._close_starts()


def _end(stages: PipelineStages, timeout_s: float) -> None:
    if stages.close_forward is not None:
        stages.close_forward(timeout_s)
    stages.delivery.close()


def _warn_lost(count: int, why: str) -> None:
    if count:
        _log.warning(
            "%d spans and statements of feedback could not be sent and are lost: %s", count, why
        )


def _for_sampling(buffered: Buffered) -> SampledSpan:
    span = buffered.item
    attributes = span.attributes or {}
    trace_id = getattr(span, "trace_id", None)
    if trace_id is None:
        trace_id = span.get_span_context().trace_id
    conversation = attributes.get("gen_ai.conversation.id", "")
    return SampledSpan(
        trace_id,
        buffered.error,
        conversation if isinstance(conversation, str) else "",
        buffered.weight,
        span,
    )
