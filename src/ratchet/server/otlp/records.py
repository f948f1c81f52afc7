"""Conversion of received OTLP spans to span records, with the attempt or agent of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from ratchet.observe.agent_names import agent_name
from ratchet.observe.dialects import normalise
from ratchet.server.otlp.received import (
    MAX_NAME,
    MAX_NOTES,
    MAX_TEXT,
    ReceivedSpan,
    ReceivedSpans,
    cut,
)
from ratchet.types import Span, SpanEvent, SpanRecord

ROLLOUT_ID = "ratchet.rollout.id"
ATTEMPT = "ratchet.attempt"
"""Attributes of a span or its resource that identify the attempt it belongs to: rollout id and
fencing token."""

CUT = "ratchet.cut"
"""Attribute that lists what was truncated in a span."""

UNKNOWN_AGENT = "unknown"

_KEPT = ("service.", "deployment.", "gen_ai.", "ratchet.", "openinference.", "session.", "user.")
_KEPT_TOO = frozenset(
    {
        "telemetry.sdk.language",
        "telemetry.sdk.name",
        "telemetry.sdk.version",
        "host.name",
        "container.id",
        "k8s.namespace.name",
        "k8s.pod.name",
        "cloud.region",
    }
)
"""Resource attributes that are copied to each span. Others describe the machine, some at length,
and a command line may contain secrets."""

_STATUSES: dict[int, Literal["unset", "ok", "error"]] = {0: "unset", 1: "ok", 2: "error"}
_KINDS = {2: "server", 3: "client", 4: "producer", 5: "consumer"}
_INT64 = 2**63
_INT32 = 2**31
_NO_TRACE, _NO_SPAN = bytes(16), bytes(8)


class OtlpRecords(NamedTuple):
    """Accepted spans of a request, and the number of rejected ones."""

    kept: list[SpanRecord]
    rejected: Counter[str]
    """Number of rejected spans by reason."""


class _Owner(NamedTuple):
    """The rollout or agent that a resource's spans belong to."""

    rollout_id: str
    fence: int
    agent: str


def records_of(groups: Sequence[ReceivedSpans], attempt: tuple[str, int] | None) -> OtlpRecords:
    """Convert the spans of a request.

    A span is rejected when it has no usable ids or times, or names another attempt than the
    caller's. A span that ends before it starts is accepted unchanged.

    Args:
        groups: The received spans by resource.
        attempt: The only attempt that the caller may send for; None for any.
    """
    kept: list[SpanRecord] = []
    rejected: Counter[str] = Counter()
    for resource, scope, scope_version, spans in groups:
        notes: list[str] = []
        resource = cut(resource, notes)
        shared: dict[str, Any] = {
            key: value
            for key, value in resource.items()
            if key.startswith(_KEPT) or key in _KEPT_TOO
        }
        if scope:
            shared["otel.scope.name"] = scope[:MAX_NAME]
        if scope_version:
            shared["otel.scope.version"] = scope_version[:MAX_NAME]
        agent = _agent(resource)
        for span in spans:
            reason = _unusable(span)
            if reason:
                rejected[reason] += 1
                continue
            attributes = {**shared, **span.attributes} if shared else span.attributes
            named = _attempt(attributes)
            if attempt is not None:
                if named not in (None, attempt) or _is_foreign(attributes, attempt):
                    rejected["belong to another attempt than the token"] += 1
                    continue
                named = attempt
            rollout_id, fence = named or ("", 0)
            kept.append(
                SpanRecord(
                    span=_span(span, attributes, notes),
                    rollout_id=rollout_id,
                    fence=fence,
                    agent=agent,
                )
            )
    return OtlpRecords(kept, rejected)


def describe(rejected: Counter[str]) -> str:
    """Reasons of rejected spans as a sentence; empty when there are none."""
    if not rejected:
        return ""
    reasons = ", ".join(f"{count} {reason}" for reason, count in rejected.items())
    return f"Spans that were not stored: {reasons}."


def _unusable(span: ReceivedSpan) -> str:
    if len(span.trace_id) != 16 or span.trace_id == _NO_TRACE:
        return "have a trace id that is not 16 bytes, not all zero"
    if len(span.span_id) != 8 or span.span_id == _NO_SPAN:
        return "have a span id that is not 8 bytes, not all zero"
    if not (0 <= span.start_ns < _INT64 and 0 <= span.end_ns < _INT64):
        return "have a time that is not nanoseconds in 63 bits"
    return ""


def _attempt(attributes: dict[str, Any]) -> tuple[str, int] | None:
    rollout_id = attributes.get(ROLLOUT_ID)
    if not isinstance(rollout_id, str) or not 0 < len(rollout_id) <= 200:
        return None
    fence = attributes.get(ATTEMPT)
    # Resource attributes set through the environment are strings.
    if isinstance(fence, str) and fence.isascii() and fence.isdigit() and len(fence) <= 10:
        fence = int(fence)
    if isinstance(fence, int) and not isinstance(fence, bool) and 0 <= fence < _INT32:
        return rollout_id, fence
    return None


def _is_foreign(attributes: dict[str, Any], attempt: tuple[str, int]) -> bool:
    named = attributes.get(ROLLOUT_ID)
    return named is not None and named != attempt[0]


def _agent(resource: dict[str, Any]) -> str:
    name = resource.get("gen_ai.agent.name") or resource.get("service.name")
    return agent_name(name, UNKNOWN_AGENT) if isinstance(name, str) else UNKNOWN_AGENT


def _span(span: ReceivedSpan, attributes: dict[str, Any], resource_notes: list[str]) -> Span:
    notes: list[str] = []
    attributes = cut(attributes, notes, span.more_attributes)
    if len(span.name) > MAX_NAME:
        notes.append(f"the name: {MAX_NAME} of {len(span.name)} characters")
    if span.more_events:
        notes.append(f"{span.more_events} events")
    events: tuple[SpanEvent, ...] = ()
    if span.events:
        events = tuple(
            SpanEvent(name[:MAX_NAME], min(max(time_ns, 0), _INT64 - 1), cut(inner, notes))
            for name, time_ns, inner in span.events
        )
    attributes = normalise(span.name, attributes, events)
    extra: dict[str, Any] = {}
    if span.kind in _KINDS:
        extra["span.kind"] = _KINDS[span.kind]
    if span.links:
        extra["otel.links"] = span.links
    if span.dropped:
        extra["otel.dropped_attributes_count"] = span.dropped
    parent_id = span.parent_id
    if parent_id and len(parent_id) != 8:
        notes.append("the parent's id, which is not 8 bytes")
    if notes or resource_notes:
        extra[CUT] = (notes + resource_notes)[:MAX_NOTES]
    if extra:
        attributes = {**attributes, **extra}
    return Span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=parent_id.hex() if len(parent_id) == 8 and parent_id != _NO_SPAN else None,
        name=span.name[:MAX_NAME],
        start_ns=span.start_ns,
        # A span without an end has a duration of zero.
        end_ns=span.end_ns or span.start_ns,
        status=_STATUSES.get(span.status, "unset"),
        message=span.message[:MAX_TEXT],
        attributes=attributes,
        events=events,
    )
