"""Harmless edits: they change an output's form but not its content, and must not lower a score."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from typing import Any

from ratchet.evaluate.corruptions.corruption import Change, Material, like, parsed

_LARGE = re.compile(r"(?<![\w.,-])[1-9]\d{4,}(?![\w-])")


def outer_space(material: Material, rng: random.Random) -> Any:
    """Add white space around the text."""
    return f"\n{material.output}\n " if isinstance(material.output, str) else material.output


def key_order(material: Material, rng: random.Random) -> Any:
    """Reorder the keys of objects."""
    value = parsed(material.output)
    return material.output if value is None else like(_reversed_keys(value), material.output)


def json_layout(material: Material, rng: random.Random) -> Any:
    """Change the indentation of JSON text."""
    value = parsed(material.output)
    if value is None or not isinstance(material.output, str):
        return material.output
    return json.dumps(value, ensure_ascii=False, indent=3)


def inner_space(material: Material, rng: random.Random) -> Any:
    """Double the spaces between words."""
    if parsed(material.output) is not None or not isinstance(material.output, str):
        return material.output
    return material.output.replace(" ", "  ")


def number_format(material: Material, rng: random.Random) -> Any:
    """Add thousands separators to large numbers."""
    if parsed(material.output) is not None or not isinstance(material.output, str):
        return material.output
    return _LARGE.sub(lambda m: f"{int(m[0]):,}", material.output)


HARMLESS_EDITS: Mapping[str, Change] = {
    "outer space": outer_space,
    "key order": key_order,
    "JSON layout": json_layout,
    "inner space": inner_space,
    "number format": number_format,
}

FORM_ONLY = frozenset({"outer space", "JSON layout", "inner space", "number format"})
"""Edits that a strict comparison with the expected answer may treat as differences."""


def _reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed_keys(value[key]) for key in reversed(value)}
    return [_reversed_keys(item) for item in value] if isinstance(value, list) else value
