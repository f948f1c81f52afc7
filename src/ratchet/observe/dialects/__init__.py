"""Dialects: what different instrumentations call the same things, brought to one span model.

A dialect is a file beside its siblings and a line in `DIALECTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ratchet.observe.dialects import gen_ai, names, openinference, traceloop
from ratchet.observe.dialects.messages import json_text
from ratchet.observe.dialects.names import JSON_TEXT
from ratchet.types import SpanEvent

__all__ = ["DIALECTS", "SpanDialect", "normalise"]


class SpanDialect(NamedTuple):
    """How one family of instrumentations names things."""

    markers: frozenset[str]
    """A span that has one of these attributes speaks the dialect."""
    read: Callable[[str, Mapping[str, Any], Sequence[SpanEvent]], dict[str, Any]]
    """From a span's name, attributes and events: its attributes in the span model."""


DIALECTS = {
    "gen_ai": SpanDialect(gen_ai.MARKERS, gen_ai.read),
    "openinference": SpanDialect(openinference.MARKERS, openinference.read),
    "traceloop": SpanDialect(traceloop.MARKERS, traceloop.read),
}
"""Where two say the same, the one that stands first here counts."""

_MESSAGES = {names.INPUT_MESSAGES: "user", names.OUTPUT_MESSAGES: "assistant"}

_MARKERS = frozenset().union(*(dialect.markers for dialect in DIALECTS.values()))


def normalise(
    name: str, attributes: dict[str, Any], events: Sequence[SpanEvent] = ()
) -> dict[str, Any]:
    """A span's attributes with those of the span model beside them.

    The model is OpenTelemetry's GenAI conventions, with messages, tools' arguments and results as
    JSON text, and `ratchet.input` and `ratchet.output` for other steps. What the span says under a
    name of the model holds; what is structured there becomes JSON text.

    Args:
        name: The span's name.
        attributes: Its attributes; they are left as they are.
        events: Its events.

    Returns:
        All of the attributes; the same dictionary when there was nothing to add.
    """
    if _MARKERS.isdisjoint(attributes):
        return attributes
    model = dict(attributes)
    for dialect in DIALECTS.values():
        if not dialect.markers.isdisjoint(attributes):
            for key, value in dialect.read(name, attributes, events).items():
                model.setdefault(key, value)
    for key in JSON_TEXT.intersection(model):
        if model[key].__class__ is not str:
            model[key] = json_text(model[key])
    for key, role in _MESSAGES.items():
        if key in model:
            model[key] = gen_ai.in_parts(model[key], role)
    return model
