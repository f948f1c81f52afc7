"""Feedback: what people and their behaviour say of what an agent did."""

from __future__ import annotations

import math
from collections.abc import Callable
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
    """The corrected answer; of a preference `{"chosen": …, "rejected": …}`; any JSON value."""
    created_at: float = 0.0
    """Unix seconds."""


BAD_BELOW = 0.5
"""A value below this says that something was not good."""

_DISSATISFIED = frozenset({"correction", "retry", "abandonment"})
"""Kinds that say so without a value: who corrects, asks again or leaves did not get what they
wanted."""


def is_bad(item: Feedback) -> bool:
    """Whether feedback says that something was not good."""
    if item.value is None:
        return item.kind in _DISSATISFIED
    return item.value < BAD_BELOW


Fault: TypeAlias = tuple[str, str]
"""A field, and what is wrong with it."""


def fault(item: Feedback) -> Fault | None:
    """What keeps a statement from being one; None when nothing does."""
    if item.value is not None and not (math.isfinite(item.value) and 0.0 <= item.value <= 1.0):
        return "value", "A value is a number from 0 to 1."
    if not (item.rollout_id or item.trace_id or item.conversation_id):
        return (
            "rollout_id",
            "It says of nothing what it says: name a rollout, a trace or a conversation.",
        )
    return _FAULTS[item.kind](item)


def _thumbs(item: Feedback) -> Fault | None:
    return None if item.value in (0.0, 1.0) else ("value", "Thumbs are 1 for up and 0 for down.")


def _rating(item: Feedback) -> Fault | None:
    return ("value", "A rating has a value from 0 to 1.") if item.value is None else None


def _correction(item: Feedback) -> Fault | None:
    return ("content", "A correction has the right answer.") if item.content is None else None


def _preference(item: Feedback) -> Fault | None:
    content = item.content
    if isinstance(content, dict) and {"chosen", "rejected"} <= content.keys():
        return None
    return "content", 'A preference has {"chosen": …, "rejected": …}.'


def _comment(item: Feedback) -> Fault | None:
    return None if item.comment.strip() else ("comment", "A comment says something.")


def _signal(item: Feedback) -> Fault | None:
    """Behaviour says something by itself."""
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
"""What each kind needs."""
