"""Dollars of calls that were recorded without their cost, by published prices."""

from __future__ import annotations

from ratchet.llm.prices import Usage, dollars
from ratchet.types.trace import ModelCall

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
