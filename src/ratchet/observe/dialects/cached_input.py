"""Input tokens include cached ones, as in OpenTelemetry's conventions; some reports exclude
them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.observe.dialects import names
from ratchet.observe.model_apis.bounded_json import count


def whole_input(model: Mapping[str, Any]) -> int | None:
    """All input tokens, if the reported ones exclude the cached ones; else None.

    Args:
        model: Attributes of a span, with those of the span model.
    """
    reported = count(model.get(names.INPUT_TOKENS))
    cached = sum(
        count(model.get(key)) or 0 for key in (names.CACHE_READ_TOKENS, names.CACHE_WRITE_TOKENS)
    )
    if reported is None or not cached:
        return None
    input_tokens = reported + cached
    # Strands reports the counts of Bedrock, whose total tells.
    total = count(model.get("gen_ai.usage.total_tokens"))
    excludes = total == input_tokens + (count(model.get(names.OUTPUT_TOKENS)) or 0)
    return input_tokens if excludes or _is_of_vercel_and_anthropic(model) else None


def _is_of_vercel_and_anthropic(model: Mapping[str, Any]) -> bool:
    """Whether Vercel's AI SDK reports an Anthropic model; from version 6 on, it has details."""
    return (
        "ai.usage.cachedInputTokens" in model
        and str(model.get("gen_ai.system", "")).startswith("anthropic")
        and not any(key.startswith("ai.usage.inputTokenDetails.") for key in model)
    )
