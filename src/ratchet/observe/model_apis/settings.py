"""Request settings, as attributes of OpenTelemetry's conventions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.observe.model_apis.bounded_json import bounded_text, count, items, name, number

_NUMBERS = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "top_k": "gen_ai.request.top_k",
    "seed": "gen_ai.request.seed",
}

_TOKEN_LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")


def settings(request: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of the settings that all dialects share."""
    attributes: dict[str, Any] = {}
    model = name(request.get("model"))
    if model:
        attributes["gen_ai.request.model"] = model
    for key, attribute in _NUMBERS.items():
        if key in request:
            value = number(request[key])
            if value is not None:
                attributes[attribute] = value
    for key in _TOKEN_LIMITS:
        limit = count(request.get(key))
        if limit is not None:
            attributes["gen_ai.request.max_tokens"] = limit
            break
    if request.get("stream") is True:
        attributes["gen_ai.request.stream"] = True
    choices = count(request.get("n"))
    if choices is not None and choices != 1:
        attributes["gen_ai.request.choice.count"] = choices
    stop = request.get("stop") or request.get("stop_sequences")
    if isinstance(stop, str):
        attributes["gen_ai.request.stop_sequences"] = [bounded_text(stop)]
    elif isinstance(stop, list):
        attributes["gen_ai.request.stop_sequences"] = [
            bounded_text(sequence) for sequence in items(stop)[:16]
        ]
    return attributes
