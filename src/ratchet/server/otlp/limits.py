"""Limits on OTLP requests, and how much of a span is stored."""

from __future__ import annotations

MAX_SPANS = 20_000
"""Spans in a request. Exporters send 512 by default."""

MAX_MESSAGES = 1_000_000
"""Protobuf messages or JSON objects in a body. A span has about forty."""

MAX_ATTRIBUTES = 2_000
"""Attributes of a span, an event or a resource; the rest are dropped and counted."""

MAX_KEY = 256
"""Characters of an attribute's name; attributes with longer names are dropped and counted."""

MAX_TEXT = 262_144
"""Characters of a string; the rest is truncated."""

MAX_ITEMS = 10_000
"""Items of an array or a map."""

MAX_DEPTH = 32
"""Nesting depth of arrays and maps."""

MAX_EVENTS = 1_000
"""Events of a span."""

MAX_LINKS = 128
"""Links of a span."""

MAX_NAME = 1_024
"""Characters of the name of a span or an event."""

MAX_NOTES = 20
"""Truncations listed in a span."""


class Malformed(Exception):
    """The body cannot be decoded."""


class TooMany(Exception):
    """The body has more than `MAX_SPANS` spans or `MAX_MESSAGES` messages."""
