"""Dollars of calls that were recorded without their cost, by published prices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from ratchet.llm.prices import Usage, dollars
from ratchet.types import Span
from ratchet.types.trace import ModelCall

COST = "ratchet.cost_usd"
"""Attribute of a span: dollars of its call."""

SELLERS = {
    "aws.bedrock": "aws",
    "azure.ai.inference": "azure",
    "azure.ai.openai": "azure",
    "gcp.gemini": "google",
    "gcp.gen_ai": "google",
    "gcp.vertex_ai": "google",
    "mistral_ai": "mistral",
    "x_ai": "x-ai",
}
"""Providers that genai-prices calls otherwise than OpenTelemetry's GenAI conventions do."""


def price(call: ModelCall) -> float | None:
    """What a call costs by the prices of today; None when nobody publishes one for the model.

    Args:
        call: With its model. Where it names no provider, the one that is known for the model.
    """
    if not call.model or not (call.input_tokens or call.output_tokens):
        return None
    usage = Usage(
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        cache_read_tokens=call.cache_read_tokens,
        cache_write_tokens=call.cache_write_tokens,
    )
    provider = call.provider.lower()
    return dollars(SELLERS.get(provider, provider), call.model, usage, call.tier)


def with_price(span: Span) -> Span:
    """The span with the dollars of its call in its attributes, when they can be known.

    Args:
        span: Of any kind; one that says its cost, or reports no tokens, is returned as it is.
    """
    attributes = span.attributes
    if COST in attributes or not has_tokens(attributes):
        return span
    usd = price(_call(attributes))
    if usd is None:
        return span
    return msgspec.structs.replace(span, attributes={**attributes, COST: usd})


def has_tokens(attributes: Mapping[str, Any]) -> bool:
    """Whether a span's attributes report the tokens of a call."""
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
