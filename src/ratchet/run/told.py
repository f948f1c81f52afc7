"""An outcome as it is kept: spans in the one span model, with the prices of its model calls.

The library that made a span has names of its own for messages and tokens; whoever looks at rollouts
later, and the coach above all, knows one. Each span of a call says its dollars by published prices
where nobody, such as the gateway, has said them; the store counts them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ratchet.observe.dialects import normalise
from ratchet.types import Outcome, Span
from ratchet.types.trace import CALLS

if TYPE_CHECKING:
    from ratchet.observe.redaction import Redactor


def prepared(redactor: Redactor | None, *, for_store: bool) -> Callable[[Outcome], Outcome]:
    """What is done to each outcome on its way: told, and redacted.

    Args:
        redactor: Whose rules hold.
        for_store: Whether it goes straight into a store: then all built-in rules hold where there
            is no redactor. A server redacts by itself.
    """
    if redactor is None and for_store:
        # Much of a worker's start would go by importing it.
        from ratchet.observe.redaction import Redactor

        redactor = Redactor()
    if redactor is None:
        return told
    redact = redactor.outcome
    return lambda outcome: redact(told(outcome))


def told(outcome: Outcome) -> Outcome:
    """The same outcome, with its spans normalised and its model calls priced.

    Args:
        outcome: As an executor reports it. A span that says its cost keeps it.
    """
    if not outcome.spans:
        return outcome
    spans = tuple(_priced(_normalised(span)) for span in outcome.spans)
    if all(new is old for new, old in zip(spans, outcome.spans, strict=True)):
        return outcome
    return msgspec.structs.replace(outcome, spans=spans)


def _normalised(span: Span) -> Span:
    attributes = normalise(span.name, span.attributes, span.events)
    if attributes is span.attributes:
        return span
    return msgspec.structs.replace(span, attributes=attributes)


def _priced(span: Span) -> Span:
    if not _has_usage(span):
        return span
    from ratchet.llm import with_price  # forty megabytes of prices, for agents that call models

    return with_price(span)


def records_calls(outcome: Outcome) -> bool:
    """Whether a span of the outcome records a model call."""
    return any(
        "ratchet.cost_usd" in span.attributes
        or _has_usage(span)
        or str(span.attributes.get("gen_ai.operation.name")) in CALLS
        for span in outcome.spans
    )


def _has_usage(span: Span) -> bool:
    return any(name.startswith("gen_ai.usage.") for name in span.attributes)
