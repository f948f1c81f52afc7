"""The live pipeline: takes finished spans at once, and sends them from a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ratchet.observe.background import is_importing, run_at_end_of_child, silence_logs
from ratchet.observe.buffer import Buffer, BufferedSpan
from ratchet.observe.delivery import Delivery
from ratchet.observe.sampling import SampledSpan, Sampling

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from ratchet.observe.record_builder import RecordBuilder
    from ratchet.observe.step_span import StepSpan
    from ratchet.types import SpanRecord

_log = logging.getLogger("ratchet")

GATHER_S = 0.3
"""How long spans gather before they are sent, unless there are many."""

CHILD_GATHER_S = 0.02
"""The same in a child of `multiprocessing`: a pool ends its workers with SIGTERM, at any moment."""

IMPORTS_S = 2.0
"""How long a fork waits for the sending thread to come to the end of an import."""

HELD_CHECK_S = 5.0
"""How often is looked at traces that sampling holds."""

CHUNK = 100
"""Spans that are prepared at a stretch, before other threads are let in."""

EXIT_S = 5.0
"""How long the end of a process waits for its spans."""


class CaptureStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the spans of this process so far."""

    on: bool
    """Whether spans are recorded."""
    target: str = ""
    """Where they are sent."""
    agent: str = ""
    taken: int = 0
    """Spans that ended."""
    sent: int = 0
    """Spans that are stored."""
    queued: int = 0
    """Spans in memory that were not sent yet."""
    waiting: int = 0
    """Spans that wait, on disk where there is one, because nobody took them."""
    dropped: int = 0
    """Spans that were lost because there was no room for them."""
    refused: int = 0
    """Spans that the target will never take."""
    broken: int = 0
    """Spans that could not be turned into records."""
    sampled_out: int = 0
    """Spans that sampling left out."""
    away: bool = False
    """Whether the target took nothing when it was last asked."""
    last_error: str = ""


class PipelineStages(msgspec.Struct, frozen=True):
    """What the sending thread works with; made by that thread, with its first span."""

    builder: RecordBuilder
    delivery: Delivery[SpanRecord]
    forward: Callable[[list[SpanRecord]], None] | None = None
    """Who gets the records too; it may not wait."""
    close_forward: Callable[[float], None] | None = None


class LivePipeline:
    """A `Sink` for what runs outside of rollouts.

    Args:
        stages: Makes what the sending thread works with.
        target: Where spans go, for people.
        agent: Whose they are.
        content: Whether inputs and outputs are wanted.
        sample: The share of traces that is kept, in [0, 1].
    """

    def __init__(
        self,
        stages: Callable[[], PipelineStages],
        *,
        target: str,
        agent: str,
        content: bool = True,
        sample: float = 1.0,
    ) -> None:
        self.content = content
        self.tracer: Tracer | None = None
        self.mirror_content = False
        self._make_stages = stages
        self._target = target
        self._agent = agent
        self._sample = sample
        self._inherited: list[Any] = []
        self._begin()

    def _begin(self) -> None:
        """Everything that belongs to one process."""
        self._pid = os.getpid()
        self._buffer = Buffer(self._on_buffered)
        self._sampling = Sampling(self._sample) if self._sample < 1 else None
        self._wake = threading.Event()
        self._urgent = threading.Event()
        self._flushed = threading.Condition(threading.RLock())
        self._starting = threading.RLock()
        self._thread: threading.Thread | None = None
        self._stages: PipelineStages | None = None
        self._in_flight: list[Any] = []
        self._pinned: list[tuple[int, str]] = []
        self._flushes_requested = self._flushes_done = 0
        self._closing_until: float | None = None
        self._taken_over = False
        self._broken = 0
        self._gather_s = GATHER_S

    # Called by the agent: never waits, never raises.

    def take(self, span: StepSpan) -> None:
        """Take a finished step."""
        self._put(span, span.weight, span.status == "error")

    def take_foreign(self, span: Any) -> None:
        """Take a finished span of OpenTelemetry's SDK."""
        attributes = span.attributes or {}
        weight = 1_000 + sum(len(v) for v in attributes.values() if type(v) is str)
        self._put(span, weight, span.status.status_code.value == 2)

    def _put(self, span: Any, weight: int, error: bool) -> None:
        if self._closing_until is None:
            self._buffer.put(span, weight, error)

    def keep(self, trace_id: str = "", conversation: str = "") -> None:
        """Keep a trace or a conversation whatever sampling says, as with bad feedback."""
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
        """Start the sending thread, unless it runs."""
        with self._starting:
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._run, name="ratchet-spans", daemon=True)
            self._thread = thread
            if run_at_end_of_child(self.shutdown):
                self._gather_s = CHILD_GATHER_S
            try:
                thread.start()
            except RuntimeError:  # the interpreter is ending: `shutdown` sends what there is
                self._thread = None

    # Called by whoever holds the handle.

    def flush(self, timeout_s: float = EXIT_S) -> bool:
        """Send what has ended so far. Returns whether all of it is stored now."""
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
        return not status.waiting and not status.away

    def shutdown(self, timeout_s: float = EXIT_S) -> None:
        """Send what there is, within a bound; what is left waits on disk for the next process."""
        if self._closing_until is not None or self._pid != os.getpid():
            return
        deadline = time.monotonic() + timeout_s
        # A part of the time is left to put on disk what the target did not take.
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
        """What became of the spans so far."""
        stages = self._stages
        delivery = stages.delivery if stages is not None else None
        held = self._sampling.held if self._sampling is not None else 0
        return CaptureStatus(
            on=self._closing_until is None,
            target=self._target,
            agent=self._agent,
            taken=self._buffer.taken,
            sent=delivery.sent if delivery else 0,
            queued=len(self._buffer) + len(self._in_flight) + held,
            waiting=delivery.waiting if delivery else 0,
            dropped=self._buffer.dropped + (delivery.lost if delivery else 0),
            refused=delivery.refused if delivery else 0,
            broken=self._broken + (stages.builder.broken if stages else 0),
            sampled_out=self._sampling.left_out if self._sampling is not None else 0,
            away=delivery.away if delivery else False,
            last_error=delivery.last_error if delivery else "",
        )

    def settle(self, timeout_s: float = IMPORTS_S) -> None:
        """Wait, before a fork, while the sending thread imports something.

        The child would find modules that are half made, and nobody there who finishes them.
        """
        thread = self._thread
        if thread is None or thread is threading.current_thread() or thread.ident is None:
            return
        deadline = time.monotonic() + timeout_s
        while is_importing(thread.ident) and time.monotonic() < deadline:
            time.sleep(0.001)

    def forked(self) -> None:
        """Begin anew in a child process: what waits is its parent's."""
        stages, closing = self._stages, self._closing_until
        # Kept alive: their finalizers would say goodbye on connections that are the parent's.
        self._inherited.append((stages, self._thread))
        if stages is not None:
            # The parent's locks on its segments stay: they go when the parent closes them.
            stages.delivery.forget()
        self._begin()
        self._closing_until = closing

    # The sending thread.

    def _run(self) -> None:
        suppress_tracing()
        warned = 0
        while True:
            self._wait()
            requested = self._flushes_requested
            try:
                self._send_batch(self._buffer.take_all())
            except Exception as error:  # whatever it is, it is no reason to stop
                self._broken += len(self._in_flight)
                _log.warning("Spans could not be sent: %s: %s", type(error).__name__, error)
            if self._taken_over:
                return
            self._in_flight = []
            if self._buffer.dropped and not warned:
                warned = self._buffer.dropped
                _log.warning("More spans end than can be sent: %d were dropped so far.", warned)
            with self._flushed:
                self._flushes_done = requested
                self._flushed.notify_all()
            if self._closing_until is not None and not len(self._buffer):
                self._close()
                return

    def _wait(self) -> None:
        """Wait until there is something to do."""
        if (
            len(self._buffer)
            or self._closing_until is not None
            or self._flushes_requested > self._flushes_done
        ):
            wait_s: float | None = 0.0
        else:
            wait_s = self._stages.delivery.due_s if self._stages is not None else 0.0
            if self._sampling is not None and self._sampling.held:
                wait_s = HELD_CHECK_S if wait_s is None else min(wait_s, HELD_CHECK_S)
        self._wake.wait(wait_s)
        self._wake.clear()
        if (
            self._closing_until is None
            and self._flushes_requested == self._flushes_done
            and len(self._buffer)
        ):
            self._urgent.wait(self._gather_s)
        self._urgent.clear()

    def _send_batch(self, held: list[BufferedSpan]) -> None:
        self._in_flight = held
        if self._stages is None:
            self._stages = self._make_stages()
        stages = self._stages
        spans = self._sampled(held)
        records: list[SpanRecord] = []
        for start in range(0, len(spans), CHUNK):
            records += stages.builder.records(spans[start : start + CHUNK])
            time.sleep(0)
        # From here on they are records: what a process that ends has to keep are these.
        self._in_flight = records
        if stages.forward is not None and records:
            stages.forward(records)
        delivery = stages.delivery
        if self._flushes_requested > self._flushes_done:
            delivery.hasten()
            while delivery.due_s == 0.0:
                delivery.retry()
        delivery.retry()
        delivery.deliver(records)

    def _sampled(self, held: list[BufferedSpan]) -> list[Any]:
        sampling = self._sampling
        if sampling is None:
            return [each.span for each in held]
        rescued: list[Any] = []
        pinned, self._pinned = self._pinned, []
        for trace_id, conversation in pinned:
            rescued += sampling.keep(trace_id, conversation)
        return rescued + sampling.pick(map(_for_sampling, held), time.monotonic())

    def _close(self) -> None:
        stages = self._stages
        if stages is not None:
            delivery = stages.delivery
            while delivery.due_s == 0.0 and time.monotonic() < (self._closing_until or 0.0):
                delivery.retry()
            if stages.close_forward is not None:
                stages.close_forward(max(0.1, (self._closing_until or 0.0) - time.monotonic()))
            left = delivery.waiting
            if left and delivery.keeps_on_disk:
                _log.info("%d spans wait on disk for the next process of this agent.", left)
            elif left:
                _log.warning(
                    "%d spans could not be sent and are lost: %s", left, delivery.last_error
                )
            delivery.close()

    def _finish(self, deadline: float) -> None:
        """Put on disk what the sending thread, which hangs, could not send; called at the end."""
        with contextlib.suppress(Exception):
            stages = self._stages or self._make_stages()
            in_flight = self._in_flight
            records = [each for each in in_flight if not isinstance(each, BufferedSpan)]
            spans = [each for each in in_flight if isinstance(each, BufferedSpan)]
            records += stages.builder.records(self._sampled(spans + self._buffer.take_all()))
            if records:
                if self._thread is None and time.monotonic() < deadline:
                    stages.delivery.deliver(records)
                else:
                    stages.delivery.keep(records)
            self._in_flight = []
            if stages.delivery.waiting and not stages.delivery.keeps_on_disk:
                _log.warning("%d spans could not be sent and are lost.", stages.delivery.waiting)


def _for_sampling(held: BufferedSpan) -> SampledSpan:
    span = held.span
    attributes = span.attributes or {}
    trace_id = getattr(span, "trace_id", None)
    if trace_id is None:
        trace_id = span.get_span_context().trace_id
    conversation = attributes.get("gen_ai.conversation.id", "")
    return SampledSpan(
        trace_id,
        held.error,
        conversation if isinstance(conversation, str) else "",
        held.weight,
        span,
    )


def suppress_tracing() -> None:
    """See to it that no library records or logs what this thread does: it is not the agent's."""
    from ratchet.observe.collector import collecting

    collecting.set(None)
    silence_logs()
    with contextlib.suppress(Exception):  # keys that OpenTelemetry's instrumentations look for
        from opentelemetry import context

        current = context.Context()
        for name in ("_SUPPRESS_INSTRUMENTATION_KEY", "_SUPPRESS_HTTP_INSTRUMENTATION_KEY"):
            key = getattr(context, name, None)
            if key is not None:
                current = context.set_value(key, True, current)
        context.attach(context.set_value("suppress_instrumentation", True, current))
