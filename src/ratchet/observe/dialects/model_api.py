"""`ratchet.model_api`: raw requests and answers of the provider's API, from the npm package.

What is read of them is the same as at the gateway and of the clients in Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.observe.dialects import messages as form
from ratchet.observe.dialects import names
from ratchet.observe.model_apis import MODEL_APIS
from ratchet.types import SpanEvent

API = "ratchet.model_api"
"""Attribute with the provider's dialect and the path of the API, as "openai/chat/completions"."""

MARKERS = frozenset({API})
"""Attributes that identify this dialect."""

REPLACES = {names.INPUT: names.INPUT_MESSAGES, names.OUTPUT: names.OUTPUT_MESSAGES}
"""Attributes with a request or an answer, by what is read from them."""

_APIS = {f"{provider}/{path}": api for (provider, path), api in MODEL_APIS.items()}


def read(name: str, attributes: Mapping[str, Any], events: Sequence[SpanEvent]) -> dict[str, Any]:
    """Attributes of the span model that this dialect provides.

    Args:
        name: The span's name.
        attributes: Its attributes.
        events: Its events.
    """
    api = _APIS.get(str(attributes[API]))
    if api is None:
        return {}
    request = form.decoded(attributes.get(names.INPUT))
    answer = form.decoded(attributes.get(names.OUTPUT))
    return {
        **(api.request_attributes(request) if isinstance(request, dict) else {}),
        **(api.response_attributes(answer) if isinstance(answer, dict) else {}),
    }
