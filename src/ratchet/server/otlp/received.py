"""What a request holds, the same for each encoding, and how much of it is kept."""

from __future__ import annotations

from typing import Any, NamedTuple

from ratchet.observe.capture import shorten

MAX_SPANS = 20_000
"""Spans in a request. Exporters send 512 unless told otherwise."""

MAX_MESSAGES = 1_000_000
"""Messages in a body, or objects in JSON, all of them together. One span takes some forty."""

MAX_ATTRIBUTES = 2_000
"""Attributes of a span, an event or a resource; the rest is dropped, and counted."""

MAX_KEY = 256
"""Characters of an attribute's name; one whose name is longer is dropped, and counted."""

MAX_TEXT = 262_144
"""Characters of a text; the rest of it is cut."""

MAX_ITEMS = 10_000
"""Items of an array or a map."""

MAX_DEPTH = 32
"""How deep arrays and maps may stand in each other."""

MAX_EVENTS = 1_000
"""Events of a span."""

MAX_LINKS = 128
"""Links of a span."""

MAX_NAME = 1_024
"""Characters of the name of a span or an event."""

MAX_NOTES = 20
"""How much that was cut is named."""


class ReceivedEvent(NamedTuple):
    """An event as it came."""

    name: str
    time_ns: int
    attributes: dict[str, Any]


class ReceivedSpan(NamedTuple):
    """A span as it came."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    """Empty for a root."""
    name: str
    kind: int
    start_ns: int
    """Unix time in nanoseconds; -1 when it cannot be read."""
    end_ns: int
    status: int
    message: str
    attributes: dict[str, Any]
    events: list[ReceivedEvent]
    links: list[dict[str, Any]]
    dropped: int
    """Attributes that the sender dropped."""
    more_attributes: int
    """Attributes beyond `MAX_ATTRIBUTES`."""
    more_events: int
    """Events beyond `MAX_EVENTS`."""


class ReceivedSpans(NamedTuple):
    """The spans of one instrumentation in one process."""

    resource: dict[str, Any]
    """Attributes of the process."""
    scope: str
    """Name of the instrumentation."""
    scope_version: str
    spans: list[ReceivedSpan]


TOO_DEEP = "[nested too deeply]"
"""Stands for what is nested deeper than `MAX_DEPTH`."""


class Malformed(Exception):
    """A body cannot be decoded."""


class TooMany(Exception):
    """A body holds more spans than `MAX_SPANS`, or more messages than `MAX_MESSAGES`."""


def more(count: int) -> str:
    """Stands for items beyond `MAX_ITEMS`."""
    return f"[{count} more items]"


def cut(attributes: dict[str, Any], notes: list[str], beyond: int = 0) -> dict[str, Any]:
    """Attributes within the limits.

    Args:
        attributes: As they came; left as they are.
        notes: What was cut is added here, in words.
        beyond: Further attributes, which were left out already.

    Returns:
        The same dictionary when nothing had to be cut.
    """
    fine = len(attributes) <= MAX_ATTRIBUTES and not beyond
    if fine:
        for key, value in attributes.items():
            if len(key) > MAX_KEY or (value.__class__ is str and len(value) > MAX_TEXT):
                fine = False
                break
    if fine:
        return attributes
    kept: dict[str, Any] = {}
    for key, value in attributes.items():
        if len(key) > MAX_KEY or len(kept) == MAX_ATTRIBUTES:
            continue
        if value.__class__ is str and len(value) > MAX_TEXT:
            notes.append(f"{key}: {MAX_TEXT} of {len(value)} characters")
            value = shorten(value, MAX_TEXT)
        kept[key] = value
    dropped = len(attributes) - len(kept) + beyond
    if dropped:
        notes.append(f"{dropped} attributes")
    return kept
