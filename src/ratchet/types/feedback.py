"""Feedback: what people and their behaviour say of what an agent did."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

FeedbackKind: TypeAlias = Literal[
    "thumbs", "rating", "correction", "preference", "retry", "abandonment", "copy", "comment"
]


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """One statement about a rollout, a span or a conversation; any of them may be named."""

    id: str
    """The sender's own, so that it may send twice."""
    kind: FeedbackKind
    value: float | None = None
    """In [0, 1]: thumbs are 0 or 1, a rating is scaled."""
    rollout_id: str = ""
    trace_id: str = ""
    span_id: str = ""
    conversation_id: str = ""
    comment: str = ""
    content: Any = None
    """The corrected answer, or the preferred and the other one; any JSON value."""
    created_at: float = 0.0
    """Unix seconds."""
