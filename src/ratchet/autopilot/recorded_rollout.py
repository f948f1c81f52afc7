"""A recorded live trace as a rollout, so that evaluators can score it."""

from __future__ import annotations

from ratchet.curate.recorded_values import Incomplete, input_of, output_of
from ratchet.observe.redaction import MARK_START
from ratchet.store import Store
from ratchet.types import Rollout, Span, content_hash
from ratchet.types.trace import CALL_START, Trace, TraceFilter, TraceRecording


class Unusable(Exception):
    """The input or the answer is incomplete; the text says why."""


def recorded_input(recording: TraceRecording, *, redacted: bool = False) -> object:
    """The whole input of a trace.

    Args:
        recording: The trace.
        redacted: Whether the input may be redacted.

    Raises:
        Unusable: It is missing, cut, or redacted and may not be.
    """
    try:
        task_input = input_of(recording)
    except Incomplete:
        raise Unusable("its input was recorded in part only") from None
    if task_input is None:
        raise Unusable("its input was not recorded")
    if not redacted and is_redacted(task_input):
        raise Unusable("its input was redacted")
    return task_input


def is_redacted(value: object) -> bool:
    """Whether something was removed from a value before it was stored."""
    return MARK_START in repr(value)


def recorded_rollout(recording: TraceRecording) -> Rollout:
    """A live trace as a finished rollout, whose id is that of the trace.

    Raises:
        Unusable: Its answer is missing or cut, and it did not fail.
    """
    trace, failed = recording.trace, recording.failed
    call = recording.call or recording.root
    try:
        output = None if failed else output_of(recording)
    except Incomplete:
        raise Unusable("its answer was recorded in part only") from None
    if output is None and not failed:
        raise Unusable("its answer was not recorded")
    try:
        task_input: object = input_of(recording)
    except Incomplete:
        task_input = None
    started_at = trace.start_ns / 1e9
    return Rollout(
        id=trace.trace_id,
        queue=trace.agent,
        candidate_id=str(recording.attributes.get("ratchet.candidate_id", "")),
        task_id=content_hash(task_input),
        input=task_input,
        purpose="live",
        status="failed" if failed else "succeeded",
        output=output,
        error=call.message or recording.root.message,
        created_at=started_at,
        started_at=started_at,
        ended_at=started_at + trace.duration_s,
        duration_s=trace.duration_s,
        cost_usd=trace.cost_usd,
        known_usd=trace.known_usd,
        unpriced=trace.unpriced,
    )


def recording_of(store: Store, trace: Trace) -> TraceRecording | None:
    """The recorded input and output of a trace; None if its spans are gone."""
    criteria = TraceFilter(since_ns=trace.start_ns, until_ns=trace.start_ns + 1, rollouts=True)
    cursor: str | None = None
    while True:
        page, _, cursor = store.recordings.page(
            criteria, wanted=lambda listed: listed.trace_id == trace.trace_id, cursor=cursor
        )
        if page or cursor is None:
            return page[0] if page else None


def spans_of_trace(store: Store, trace_id: str) -> list[Span]:
    """The spans of a live trace, without those that only mark the start of a call."""
    recording = store.traces.get(trace_id)
    return (
        [] if recording is None else [span for span in recording.spans if span.name != CALL_START]
    )
