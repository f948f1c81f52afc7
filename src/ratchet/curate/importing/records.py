"""Imported records, and functions shared by the readers: ids, times, attributes."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from ratchet.observe.agent_names import agent_name
from ratchet.observe.dialects.messages import json_text
from ratchet.types import Feedback, FeedbackKind, Rollout, Score, SpanRecord

SOURCE_ATTRIBUTE = "ratchet.import.source"
"""Attribute of every imported span: the format it was read from."""

ASSUMED_TIME = "ratchet.import.time"
"""Attribute of spans whose times are made up because the source has none."""

UNKNOWN = "imported"
"""Agent name of records without one."""

MAX_NS = 2**63 - 1

_NUMBER = re.compile(r"[0-9]{1,19}(?:\.[0-9]{1,9})?")
_encode = msgspec.json.Encoder(order="sorted").encode


class FormatMismatch(Exception):
    """A value is not of the expected format; the message says why."""


class ImportedRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Records to store for one value of a file."""

    spans: tuple[SpanRecord, ...] = ()
    feedback: tuple[Feedback, ...] = ()
    rollouts: tuple[Rollout, ...] = ()
    """Finished rollouts."""
    scores: tuple[tuple[str, Score], ...] = ()
    """Each with the id of its rollout."""
    skipped: tuple[str, ...] = ()
    """Why parts of the value were skipped."""


class ImportContext(msgspec.Struct, frozen=True, kw_only=True):
    """How a value is to be imported, which the value itself does not say."""

    agent: str = ""
    """Agent name to use; empty to use the source's."""
    at_ns: int = 0
    """Unix nanoseconds used when the source has no times: the file's modification time."""
    messages: str = ""
    """Key of the list of messages, or a path of keys joined by dots; empty to find it."""
    reward: str = ""
    """Key or path of the reward; empty to find it."""
    rollouts: bool = True
    """Whether trajectories may become rollouts; servers do not accept finished ones."""

    def agent_name(self, *names: Any) -> str:
        """Return the configured agent name, or the first valid name, or `imported`."""
        for name in (self.agent, *names):
            if isinstance(name, str) and name.strip():
                return agent_name(name.strip(), UNKNOWN)
        return UNKNOWN


def digest(*parts: Any) -> str:
    """Hash of the parts, as 64 hex digits."""
    try:
        return hashlib.sha256(_encode(parts)).hexdigest()
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise FormatMismatch(f"it cannot be stored as JSON: {error}") from None


def trace_id_of(source: str, id: Any) -> str:
    """Trace id for a source's id: unchanged if it is an OpenTelemetry id, otherwise a hash."""
    normalised = str(id).lower().removeprefix("0x").removeprefix("tr-")
    if re.fullmatch(r"[0-9a-f]{32}", normalised) and int(normalised, 16):
        return normalised
    return digest(source, "trace", str(id))[:32]


def span_id_of(source: str, id: Any) -> str:
    """Span id for a source's id."""
    normalised = str(id).lower().removeprefix("0x")
    if re.fullmatch(r"[0-9a-f]{16}", normalised) and int(normalised, 16):
        return normalised
    return digest(source, "span", str(id))[:16]


def unix_ns(value: Any) -> int | None:
    """Convert a timestamp to Unix nanoseconds; None when it is not one.

    Args:
        value: ISO 8601, or a number of seconds, milli-, micro- or nanoseconds.
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.fullmatch(text):
            return _iso(text)
        value = float(text) if "." in text else int(text)
    if not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        return None
    # The magnitude shows the unit: seconds of this century have ten digits.
    scale = 1_000_000_000
    for limit in (10**11, 10**14, 10**17):
        if value < limit:
            break
        scale //= 1_000
    seconds = int(value)
    nanoseconds = seconds * scale + round((value - seconds) * scale)
    return nanoseconds if nanoseconds <= MAX_NS else None


def _iso(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text.replace(" UTC", "+00:00"))
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = int(moment.replace(microsecond=0).timestamp())
    nanoseconds = seconds * 1_000_000_000 + moment.microsecond * 1_000
    return nanoseconds if 0 <= nanoseconds <= MAX_NS else None


def number(value: Any) -> float | None:
    """Parse a number, possibly given as text; None when it is not one."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, (int, float)):
        try:
            parsed = float(value)
        except OverflowError:
            return None
        return parsed if math.isfinite(parsed) else None
    return None


def without_not_finite(value: Any, exempt: frozenset[str]) -> Any:
    """A value with NaN and infinity replaced by None, except below some keys."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [without_not_finite(item, exempt) for item in value]
    if isinstance(value, dict):
        return {
            key: field if key in exempt else without_not_finite(field, exempt)
            for key, field in value.items()
        }
    return value


def integer(value: Any) -> int | None:
    """Parse an integer of at most 53 bits; None when it is not one."""
    parsed = number(value)
    return int(parsed) if parsed is not None and abs(parsed) < 2**53 else None


def without_empty(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Remove empty attributes."""
    return {key: value for key, value in attributes.items() if value is not None and value != ""}


def flattened(value: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Flatten nested attributes to dotted names, as in OpenTelemetry."""
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if isinstance(inner, Mapping) and inner and depth < 16:
            flat.update(flattened(inner, f"{name}.", depth + 1))
        elif isinstance(inner, list) and any(isinstance(item, Mapping) for item in inner):
            numbered = {str(at): item for at, item in enumerate(inner)}
            flat.update(flattened(numbered, f"{name}.", depth + 1))
        elif inner is not None:
            flat[name] = inner
    return flat


def as_text(value: Any) -> str:
    """JSON text of a value."""
    return json_text(value)


def score_feedback(
    source: str,
    id: Any,
    name: str,
    value: Any,
    *,
    comment: str = "",
    trace_id: str = "",
    span_id: str = "",
    conversation_id: str = "",
    at: int | None = None,
) -> Feedback:
    """Convert a source's score to feedback: thumbs, a rating, or a comment."""
    score = number(value)
    kind: FeedbackKind = "comment"
    if score is not None and score in (0.0, 1.0):
        kind = "thumbs"
    elif score is not None and 0.0 < score < 1.0:
        kind = "rating"
    text = f"{name}: {comment}" if comment else f"{name}: {value}"
    return Feedback(
        id=digest(source, "score", id)[:32],
        kind=kind,
        value=None if kind == "comment" else score,
        trace_id=trace_id,
        span_id=span_id,
        conversation_id=conversation_id,
        comment=text[:20_000],
        content={"source": source, "name": name, "value": value},
        created_at=(at or 0) / 1e9,
    )
