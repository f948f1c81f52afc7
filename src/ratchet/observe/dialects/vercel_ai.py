"""Vercel's AI SDK: `ai.usage.*`. Most other data of its calls is in `gen_ai.*` attributes.

Source: vercel/ai, packages/ai/src/telemetry and the docs of its telemetry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.observe.dialects import messages as form
from ratchet.observe.dialects import names
from ratchet.observe.model_apis.bounded_json import count, mapping
from ratchet.observe.model_apis.usage import usage_of_messages
from ratchet.types import SpanEvent

RENAMED = {
    "ai.usage.inputTokens": names.INPUT_TOKENS,
    "ai.usage.promptTokens": names.INPUT_TOKENS,  # version 4
    "ai.usage.tokens": names.INPUT_TOKENS,  # embeddings
    "ai.usage.outputTokens": names.OUTPUT_TOKENS,
    "ai.usage.completionTokens": names.OUTPUT_TOKENS,  # version 4
    "ai.usage.cachedInputTokens": names.CACHE_READ_TOKENS,
    "ai.usage.inputTokenDetails.cacheReadTokens": names.CACHE_READ_TOKENS,  # version 6
    "ai.usage.inputTokenDetails.cacheWriteTokens": names.CACHE_WRITE_TOKENS,
    "ai.usage.reasoningTokens": names.REASONING_TOKENS,
    "ai.usage.outputTokenDetails.reasoningTokens": names.REASONING_TOKENS,
}
"""Names with the same meaning; the first of several for one name takes precedence."""

MARKERS = frozenset(RENAMED)
"""Attributes that identify this dialect."""


def read(name: str, attributes: Mapping[str, Any], events: Sequence[SpanEvent]) -> dict[str, Any]:
    """Attributes of the span model that this dialect provides.

    Args:
        name: The span's name.
        attributes: Its attributes.
        events: Its events.
    """
    operation = str(attributes.get("ai.operationId", name))
    if operation.startswith("ai.") and ".do" not in operation:
        return {}  # sums up the calls below it
    embeds = "mbed" in operation
    normalised: dict[str, Any] = {names.OPERATION: "embeddings" if embeds else "chat"}
    if "ai.model.id" in attributes:
        normalised[names.REQUEST_MODEL] = attributes["ai.model.id"]
    for key, normal in RENAMED.items():
        if count(attributes.get(key)) is not None:
            normalised.setdefault(normal, attributes[key])
    metadata = mapping(form.decoded(attributes.get("ai.response.providerMetadata")))
    of_anthropic = mapping(metadata.get("anthropic"))
    cache_write_tokens = count(of_anthropic.get("cacheCreationInputTokens"))
    if cache_write_tokens is not None:
        normalised.setdefault(names.CACHE_WRITE_TOKENS, cache_write_tokens)
    for key, value in usage_of_messages(mapping(of_anthropic.get("usage"))).items():
        normalised.setdefault(key, value)
    return normalised
