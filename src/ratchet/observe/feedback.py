"""`ratchet.feedback`: records what users think of the agent's answers, sent in the background.

It never raises into the program and never blocks it. Unsent feedback waits on disk.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import time
import uuid
from typing import Any, Literal

from ratchet.observe import setup
from ratchet.observe.capture import capture, plain, readable, shorten
from ratchet.types import Feedback, FeedbackKind, InputError, fault

_log = logging.getLogger("ratchet")

MAX_TEXT = 20_000
"""Maximum number of characters of a comment."""

MAX_CONTENT = 100_000
"""Maximum number of characters of a correction, or of both answers of a preference together."""

MAX_ID = 200


def feedback(
    value: float | None = None,
    *,
    thumbs: Literal["up", "down"] | bool | None = None,
    rating: float | None = None,
    scale: tuple[float, float] = (0.0, 1.0),
    correction: Any = None,
    preference: tuple[Any, Any] | None = None,
    signal: Literal["retry", "abandonment", "copy"] | None = None,
    comment: str = "",
    rollout_id: str = "",
    trace_id: str = "",
    span_id: str = "",
    conversation_id: str = "",
    id: str | None = None,
) -> str:
    """Rate something that the agent did, now or long after.

    Without an id it applies to the current trace and conversation. It is sent in the background;
    errors are logged, not raised.

    Args:
        value: A score in [0, 1]; 1 is best.
        thumbs: `up` or `down`; True or False.
        rating: A score on the scale.
        scale: The worst and the best rating, such as (1, 5).
        correction: The correct answer; any JSON value.
        preference: The better and the worse of two answers.
        signal: What the user did: asked again, left, or copied the answer.
        comment: Free text.
        rollout_id: The rollout that it rates.
        trace_id: The trace that it rates, as `step.trace_id` returns it.
        span_id: The span of the trace.
        conversation_id: The conversation that it rates.
        id: An id of your own. Only the first statement with an id is stored.

    Returns:
        Its id; empty if nothing is sent.

    Example:
        with ratchet.trace("answer") as step:
            reply, trace_id = answer(question), step.trace_id
        ...
        ratchet.feedback(thumbs="down", trace_id=trace_id, comment="It is on page 3.")
    """
    if setup.is_disabled(os.environ):
        return ""
    try:
        kind, value, content = _statement(
            value, thumbs, rating, scale, correction, preference, signal, comment
        )
        about = {
            "rollout_id": rollout_id,
            "trace_id": _hex(trace_id, 32),
            "span_id": _hex(span_id, 16),
            "conversation_id": conversation_id,
        }
        if not (rollout_id or trace_id or conversation_id):
            about = {**_current(), **({"span_id": about["span_id"]} if span_id else {})}
        item = Feedback(
            id=_word(id) or uuid.uuid4().hex,
            kind=kind,
            value=value,
            comment=shorten(readable(str(comment)), MAX_TEXT - 50),
            content=content,
            created_at=time.time(),
            **{name: _word(subject_id) for name, subject_id in about.items()},
        )
        wrong = fault(item)
        if wrong is not None:
            raise InputError(wrong[1])
        return item.id if setup.feedback_pipeline().take_feedback(item) else ""
    except Exception as error:
        _log.warning("Feedback was not sent: %s", error)
        return ""


def _statement(
    value: float | None,
    thumbs: Any,
    rating: float | None,
    scale: tuple[float, float],
    correction: Any,
    preference: tuple[Any, Any] | None,
    signal: Any,
    comment: str,
) -> tuple[FeedbackKind, float | None, Any]:
    """Kind, value and content of a statement.

    Raises:
        InputError: No argument rates anything, or several do.
    """
    statements = {
        "thumbs": thumbs,
        "rating": rating,
        "correction": correction,
        "preference": preference,
        "signal": signal,
    }
    kinds = [name for name, argument in statements.items() if argument is not None]
    if len(kinds) > 1:
        raise InputError(
            f"One call takes only one of {', '.join(kinds)}.", hint="Make a call for each."
        )
    if value is not None and kinds and kinds[0] in ("thumbs", "rating"):
        raise InputError(f"value cannot be given with {kinds[0]}.", hint="Omit one of them.")
    number = None if value is None else float(value)
    if not kinds:
        return ("rating" if value is not None or not comment else "comment"), number, None
    if kinds == ["thumbs"]:
        if thumbs not in ("up", "down", True, False):
            raise InputError(f"Thumbs are 'up' or 'down', not {thumbs!r}.")
        return "thumbs", 1.0 if thumbs in ("up", True) else 0.0, None
    if rating is not None:
        worst, best = scale
        if not (math.isfinite(worst) and math.isfinite(best) and worst != best):
            raise InputError(
                f"The scale {scale!r} is not two different finite numbers.",
                hint="Give the worst and the best rating, such as (1, 5).",
            )
        return "rating", (float(rating) - worst) / (best - worst), None
    if preference is not None:
        if not isinstance(preference, (tuple, list)) or len(preference) != 2:
            raise InputError("A preference is a pair of answers: the better and the worse.")
        chosen, rejected = preference
        return "preference", number, {"chosen": _content(chosen), "rejected": _content(rejected)}
    if correction is not None:
        return "correction", number, _content(correction)
    if signal not in ("retry", "abandonment", "copy"):
        raise InputError(f"A signal is retry, abandonment or copy, not {signal!r}.")
    return signal, number, None


def _content(value: Any) -> Any:
    text = capture(value, MAX_CONTENT // 2)
    return plain(value) if len(text) <= MAX_CONTENT // 2 else text


def _current() -> dict[str, str]:
    """Ids of the current trace and conversation."""
    about: dict[str, str] = {}
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry.context import get_value
        from opentelemetry.trace import get_current_span

        from ratchet.observe.conversations import CONVERSATION

        context = get_current_span().get_span_context()
        if context.is_valid:
            about["trace_id"] = f"{context.trace_id:032x}"
        attributes = get_value(CONVERSATION)
        if isinstance(attributes, dict):
            about["conversation_id"] = str(attributes.get("gen_ai.conversation.id", ""))
    return about


def _hex(id: Any, digits: int) -> Any:
    """An id in hex digits, as spans have it; OpenTelemetry's own objects have a number."""
    if isinstance(id, int) and not isinstance(id, bool):
        return f"{id:0{digits}x}"
    return id.strip().lower() if isinstance(id, str) else id


def _word(value: Any) -> str:
    return readable(str(value))[:MAX_ID] if value is not None else ""
