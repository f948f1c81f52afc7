"""Feedback: explicit ratings and behavioural signals about what an agent did."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

FeedbackKind: TypeAlias = Literal[
    "thumbs", "rating", "correction", "preference", "retry", "abandonment", "copy", "comment"
]


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback about a rollout, a trace or one of its spans, or a conversation."""

    id: str
    """Set by the sender, which makes resending safe."""
    kind: FeedbackKind
    value: float | None = None
    """In [0, 1]: thumbs are 0 or 1, a rating is scaled."""
    rollout_id: str = ""
    trace_id: str = ""
    span_id: str = ""
    conversation_id: str = ""
    comment: str = ""
    content: Any = None
    """The corrected answer (any JSON value); for a preference, `{"chosen": …, "rejected": …}`."""
    created_at: float = 0.0
    """Unix seconds."""


BAD_BELOW = 0.5
"""A value below this is negative feedback."""

_DISSATISFIED = frozenset({"correction", "retry", "abandonment"})
"""Kinds that are negative without a value: a user who corrects, retries or leaves did not get what
they needed."""


def is_bad(item: Feedback) -> bool:
    """Whether the feedback is negative."""
    if item.value is None:
        return item.kind in _DISSATISFIED
    return item.value < BAD_BELOW


Fault: TypeAlias = tuple[str, str]
"""A field name, and what is wrong with it."""


def fault(item: Feedback) -> Fault | None:
    """Why an item of feedback is invalid; None if it is valid."""
    if item.value is not None and not (math.isfinite(item.value) and 0.0 <= item.value <= 1.0):
        return "value", "A value must be a number from 0 to 1."
    if not (item.rollout_id or item.trace_id or item.conversation_id):
        return (
            "rollout_id",
            "Name a rollout, a trace or a conversation.",
        )
    return _FAULTS[item.kind](item)


def _thumbs(item: Feedback) -> Fault | None:
    return None if item.value in (0.0, 1.0) else ("value", "Thumbs must be 1 for up or 0 for down.")


def _rating(item: Feedback) -> Fault | None:
    return ("value", "A rating needs a value from 0 to 1.") if item.value is None else None


def _correction(item: Feedback) -> Fault | None:
    return ("content", "A correction needs the right answer.") if item.content is None else None


def _preference(item: Feedback) -> Fault | None:
    content = item.content
    if isinstance(content, dict) and {"chosen", "rejected"} <= content.keys():
        return None
    return "content", 'A preference needs {"chosen": …, "rejected": …}.'


def _comment(item: Feedback) -> Fault | None:
    return None if item.comment.strip() else ("comment", "A comment must not be empty.")


def _signal(item: Feedback) -> Fault | None:
    """Behavioural signals need no further field."""
    return None


_FAULTS: dict[FeedbackKind, Callable[[Feedback], Fault | None]] = {
    "thumbs": _thumbs,
    "rating": _rating,
    "correction": _correction,
    "preference": _preference,
    "comment": _comment,
    "retry": _signal,
    "abandonment": _signal,
    "copy": _signal,
}
"""Validator of each kind."""
