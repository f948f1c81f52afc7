"""An outcome as it is kept: spans in the one span model, and what its model calls cost.

The library that made a span has names of its own for messages and tokens; whoever looks at rollouts
later, and the coach above all, knows one. Dollars are those of published prices where nobody, such
as the gateway, has said them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ratchet.observe.dialects import normalise
from ratchet.types import Outcome, Span
from ratchet.types.trace import SUMS, ModelCall

if TYPE_CHECKING:
    from ratchet.observe.redaction import Redactor

COST = "ratchet.cost_usd"


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
        outcome: As an executor reports it. One that says its cost keeps it.
    """
    if not outcome.spans:
        return outcome
    spans = tuple(_normalised(span) for span in outcome.spans)
    if all(new is old for new, old in zip(spans, outcome.spans, strict=True)) and not any(
        _has_tokens(span.attributes) for span in spans
    ):
        return outcome
    priced = tuple(_priced(span) for span in spans)
    cost = outcome.cost_usd + math.fsum(
        span.attributes[COST] for span, old in zip(priced, spans, strict=True) if span is not old
    )
    return msgspec.structs.replace(outcome, spans=priced, cost_usd=cost)


def _normalised(span: Span) -> Span:
    attributes = normalise(span.name, span.attributes, span.events)
    if attributes is span.attributes:
        return span
    return msgspec.structs.replace(span, attributes=attributes)


def _priced(span: Span) -> Span:
    attributes = span.attributes
    if COST in attributes or not _has_tokens(attributes):
        return span
    if attributes.get("gen_ai.operation.name") in SUMS:
        return span
    from ratchet.llm import price  # forty megabytes of prices, for agents that call models

    dollars = price(_call(attributes))
    if dollars is None:
        return span
    return msgspec.structs.replace(span, attributes={**attributes, COST: dollars})


def _has_tokens(attributes: Mapping[str, Any]) -> bool:
    return "gen_ai.usage.input_tokens" in attributes or "gen_ai.usage.output_tokens" in attributes


def _call(attributes: Mapping[str, Any]) -> ModelCall:
    get = attributes.get
    return ModelCall(
        model=_name(get("gen_ai.response.model") or get("gen_ai.request.model")),
        provider=_name(get("gen_ai.provider.name") or get("gen_ai.system")),
        input_tokens=_count(get("gen_ai.usage.input_tokens")),
        output_tokens=_count(get("gen_ai.usage.output_tokens")),
        cache_read_tokens=_count(get("gen_ai.usage.cache_read.input_tokens")),
        cache_write_tokens=_count(get("gen_ai.usage.cache_creation.input_tokens")),
        tier=_name(get("openai.response.service_tier")),
    )


def _name(value: Any) -> str:
    return value[:200] if isinstance(value, str) else ""


def _count(value: Any) -> int:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return int(value) if is_number and math.isfinite(value) and value > 0 else 0
