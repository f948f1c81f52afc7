"""Separates the long texts of a span's attributes, which are stored once, and restores them.

A model call carries the whole conversation again, so the texts of its span are mostly those of the
span before. A text that is a JSON list, such as messages or tools, is separated item by item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise, takewhile
from typing import Any

import msgspec

from ratchet.store.columns import decode, encode
from ratchet.types import json_items
from ratchet.types.json_items import JsonItems

MIN_TEXT = 1_024
"""Minimum length of at least one text in a span whose texts are separated, in characters."""

_TEXTS = (
    *("gen_ai.input.messages", "gen_ai.tool.call.result", "ratchet.output", "ratchet.input"),
    *("gen_ai.output.messages", "gen_ai.tool.definitions", "gen_ai.system_instructions"),
)
"""Attributes with texts that recur."""

MIN_JSON_LIST = 128
"""Minimum length of a JSON list, in characters."""

MIN_OTHER_TEXT = 512
"""Minimum length of another text, in characters: a row of its own costs about 100 bytes."""

_LEAST_ITEM = 32
"""Minimum mean length of items; a list of numbers, for example, stays a single text."""

_SENDER = (
    *("service.", "deployment.", "telemetry.", "otel.scope.", "host.", "container.", "k8s."),
    *("cloud.", "ratchet.import."),
)
"""Attributes that describe the sender, equal in all its spans. They come first."""

_OBJECT = "{}"
"""In place of a separator: the text is a JSON object of the sender's attributes."""

LongTexts = dict[str, JsonItems]
"""Long texts by attribute; the separator is empty for a text that stays in one piece."""

References = dict[str, tuple[str, list[int]]]
"""By attribute: the separator, and the numbers of the stored texts."""

_decode = msgspec.json.Decoder(References).decode


def has_long_text(attributes: Mapping[str, Any]) -> bool:
    """Whether to separate the texts of a span. Runs for every span, so it is fast."""
    for key in _TEXTS:
        if key in attributes:
            value = attributes[key]
            if value.__class__ is str and len(value) >= MIN_TEXT:
                return True
    return False


def separated(attributes: Mapping[str, Any]) -> tuple[Mapping[str, Any], LongTexts]:
    """Take out the long texts, whose attributes become None, and the sender's description."""
    long_texts: LongTexts = {}
    for key, value in attributes.items():
        if key and value.__class__ is str and len(value) >= MIN_JSON_LIST:
            long = _items(value)
            if long is not None:
                long_texts[key] = long
    short = {**attributes, **dict.fromkeys(long_texts)}
    sender = dict(takewhile(_describes_sender, short.items()))
    if sender and long_texts.keys().isdisjoint(sender):
        long_texts[""] = JsonItems(_OBJECT, [encode(sender).encode()])
        for key in sender:
            del short[key]
    return short, long_texts


def _describes_sender(attribute: tuple[str, Any]) -> bool:
    return attribute[0].startswith(_SENDER)


def _items(value: str) -> JsonItems | None:
    listed = json_items.split(value)
    if listed is not None and len(value) >= _LEAST_ITEM * len(listed.items):
        return listed
    if len(value) < MIN_OTHER_TEXT:
        return None
    try:
        return JsonItems("", [value.encode()])
    except UnicodeEncodeError:  # a lone surrogate, which cannot be stored
        return None


def restored(
    attributes: Mapping[str, Any], references: References, texts: Mapping[int, str]
) -> dict[str, Any]:
    """The attributes with their long texts: the inverse of `separated`.

    Args:
        attributes: Attributes whose long texts are None.
        references: Which texts they are.
        texts: Texts by number.
    """
    complete = dict(attributes)
    for key, (separator, numbers) in references.items():
        items = [texts[number] for number in numbers]
        if separator == _OBJECT:
            complete = decode(items[0]) | complete
        else:
            complete[key] = json_items.join(separator, items) if separator else items[0]
    return complete


def references_text(references: References) -> str:
    """Encode references for column `texts` of a span."""
    # As differences: texts that follow each other were mostly stored after each other.
    return encode(
        {
            key: (separator, [b - a for a, b in pairwise((0, *numbers))])
            for key, (separator, numbers) in references.items()
        }
    )


def references_of(stored: str) -> References:
    """Decode column `texts` of a span."""
    if not stored:
        return {}
    return {
        key: (separator, list(accumulate(differences)))
        for key, (separator, differences) in _decode(stored).items()
    }


def numbers_in(stored: Iterable[str]) -> set[int]:
    """Numbers of the texts that spans refer to, given their columns `texts`."""
    return {
        number
        for stored_text in stored
        for _, listed in references_of(stored_text).values()
        for number in listed
    }
