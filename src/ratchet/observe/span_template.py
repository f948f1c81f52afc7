"""What the spans of a step have in common."""

from __future__ import annotations

from typing import Any

import msgspec

LIVE_CALL = "ratchet.live_call"
"""Key in OpenTelemetry's context for the live call, so that threads inherit it with the trace."""

CAPTURE_LIMIT = 16_384
"""Maximum number of characters of a step's input, and of its output."""


class SpanTemplate(msgspec.Struct, frozen=True):
    """Name, kind and attributes of the spans of a step."""

    name: str
    kind: str
    """A key of `step_kinds.KINDS`."""
    input_key: str = "ratchet.input"
    output_key: str = "ratchet.output"
    side_effects: bool = False
    attributes: dict[str, Any] = {}
    limit: int = CAPTURE_LIMIT
    """Maximum number of characters of its input, and of its output."""
