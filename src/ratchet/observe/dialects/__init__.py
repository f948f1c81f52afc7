"""Dialects: map the attribute names of different instrumentations to one span model.

A dialect is a module in this package and an entry in `SPAN_DIALECTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ratchet.observe.dialects import gen_ai, model_api, names, openinference, traceloop, vercel_ai
from ratchet.observe.dialects.cached_input import whole_input
from ratchet.observe.dialects.messages import json_text
from ratchet.observe.dialects.names import JSON_TEXT
from ratchet.types import SpanEvent

__all__ = ["SPAN_DIALECTS", "SpanDialect", "normalise"]


class SpanDialect(NamedTuple):
    """The naming of one family of instrumentations."""

    markers: frozenset[str]
    """Attributes that identify the dialect; a span has at least one of them."""
    read: Callable[[str, Mapping[str, Any], Sequence[SpanEvent]], dict[str, Any]]
    """Maps a span's name, attributes and events to attributes of the span model."""
    replaces: Mapping[str, str] = {}
    """Attributes that are dropped once the attribute that replaces them was read."""


SPAN_DIALECTS = {
    "gen_ai": SpanDialect(gen_ai.MARKERS, gen_ai.read),
    "openinference": SpanDialect(openinference.MARKERS, openinference.read),
    "traceloop": SpanDialect(traceloop.MARKERS, traceloop.read),
    "vercel_ai": SpanDialect(vercel_ai.MARKERS, vercel_ai.read),
    "model_api": SpanDialect(model_api.MARKERS, model_api.read, model_api.REPLACES),
}
"""In order of precedence."""

_MESSAGES = {names.INPUT_MESSAGES: "user", names.OUTPUT_MESSAGES: "assistant"}

_MARKERS = frozenset().union(*(dialect.markers for dialect in SPAN_DIALECTS.values()))


def normalise(
    name: str, attributes: dict[str, Any], events: Sequence[SpanEvent] = ()
) -> dict[str, Any]:
    """Add the attributes of the span model to a span's attributes.

    The model is OpenTelemetry's GenAI conventions, with messages, tools' arguments and results as
    JSON text, and `ratchet.input` and `ratchet.output` for other steps. An attribute that the span
    already has under a name of the model is kept, except a count of input tokens that excludes the
    cached ones; structured values become JSON text.

    Args:
        name: The span's name.
        attributes: Its attributes; not changed.
        events: Its events.

    Returns:
        All attributes; the same dictionary if nothing was added.
    """
    if _MARKERS.isdisjoint(attributes):
        return attributes
    model = dict(attributes)
    for dialect in SPAN_DIALECTS.values():
        if not dialect.markers.isdisjoint(attributes):
            for key, value in dialect.read(name, attributes, events).items():
                model.setdefault(key, value)
            for key, replaced_by in dialect.replaces.items():
                if replaced_by in model:
                    model.pop(key, None)
    if (input_tokens := whole_input(model)) is not None:
        model[names.INPUT_TOKENS] = input_tokens
    for key in JSON_TEXT.intersection(model):
        if model[key].__class__ is not str:
            model[key] = json_text(model[key])
    for key, role in _MESSAGES.items():
        if key in model:
            model[key] = gen_ai.in_parts(model[key], role)
    return model
