"""Infers a JSON schema from examples."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

MAX_CHOICES = 8
"""Maximum number of distinct texts of a field that counts as a choice."""

SEEN_EACH = 5
"""Minimum number of examples per distinct text of a choice."""

MIN_EXAMPLES = 20
"""Minimum number of examples to infer a pattern or a bound."""

MAX_MASK_LENGTH = 24
"""Maximum length of a text whose shape is a pattern, in characters."""

_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def schema_of(values: Sequence[Any]) -> dict[str, Any]:
    """A JSON Schema that all these values fit, as narrow as their number allows.

    Fields that every object has are required; more fields are allowed. Few distinct texts become
    a choice, texts of one shape a pattern, numbers that are never negative have a minimum.
    """
    kinds = sorted({_kind(value) for value in values})
    if "number" in kinds and "integer" in kinds:
        kinds.remove("integer")
    schema: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds}
    for kind in kinds:
        some = [value for value in values if _kind(value) == kind or _whole(value, kind)]
        schema.update(_NARROWER[kind](some, kinds))
    return schema


def mask_of(texts: Sequence[str]) -> str | None:
    """A regular expression of the shape that all texts share, character by character."""
    if (
        not texts
        or len({len(text) for text in texts}) > 1
        or not 0 < len(texts[0]) <= MAX_MASK_LENGTH
    ):
        return None
    masks = {"".join(map(_class, text)) for text in texts}
    if len(masks) != 1:
        return None
    mask = masks.pop()
    if not any(mark in mask for mark in "dAa"):
        return None
    parts = []
    for run in re.finditer(r"(d+|A+|a+|\\?.)", mask):
        text = run.group(0)
        char_class = {"d": r"\d", "A": "[A-Z]", "a": "[a-z]"}.get(text[0])
        if char_class is None:
            parts.append(text)
        else:
            parts.append(char_class + (f"{{{len(text)}}}" if len(text) > 1 else ""))
    return "".join(parts)


def _class(character: str) -> str:
    if character in "0123456789":
        return "d"
    if "A" <= character <= "Z":
        return "A"
    if "a" <= character <= "z":
        return "a"
    # Escaped only where it must be: engines other than Python's read schemas too.
    return f"\\{character}" if character in r"\.^$*+?{}[]|()" else character


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else _TYPES.get(type(value), "string")


def _whole(value: Any, kind: str) -> bool:
    return kind == "number" and _kind(value) == "integer"


def _object(values: Sequence[dict[str, Any]], _: Sequence[str]) -> dict[str, Any]:
    keys = dict.fromkeys(key for value in values for key in value)
    return {
        "properties": {
            key: schema_of([value[key] for value in values if key in value]) for key in keys
        },
        "required": [key for key in keys if all(key in value for value in values)],
    }


def _array(values: Sequence[list[Any]], _: Sequence[str]) -> dict[str, Any]:
    items = [item for value in values for item in value]
    schema: dict[str, Any] = {"items": schema_of(items)} if items else {}
    if len(values) >= MIN_EXAMPLES and all(values):
        schema["minItems"] = 1
    return schema


def _text(values: Sequence[str], kinds: Sequence[str]) -> dict[str, Any]:
    distinct = sorted(set(values))
    enough = len(values) >= max(MIN_EXAMPLES, SEEN_EACH * len(distinct))
    if len(kinds) == 1 and len(distinct) <= MAX_CHOICES and enough:
        return {"enum": distinct}
    if len(values) < MIN_EXAMPLES:
        return {}
    mask = mask_of(values)
    if mask is not None:
        return {"pattern": f"^{mask}$"}
    return {"minLength": 1} if all(value.strip() for value in values) else {}


def _number(values: Sequence[float], _: Sequence[str]) -> dict[str, Any]:
    return {"minimum": 0} if len(values) >= MIN_EXAMPLES and min(values) >= 0 else {}


def _nothing(_: Sequence[Any], __: Sequence[str]) -> dict[str, Any]:
    return {}


_NARROWER: dict[str, Any] = {
    "object": _object,
    "array": _array,
    "string": _text,
    "number": _number,
    "integer": _number,
    "boolean": _nothing,
    "null": _nothing,
}
