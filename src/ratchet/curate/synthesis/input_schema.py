"""JSON schema of inputs, inferred from examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ENUM_VALUES, ENUM_REPEATS = 8, 4
"""A text field is a choice if it has at most `ENUM_VALUES` values, seen on average at least
`ENUM_REPEATS` times each."""

MAX_ENUM_CHARACTERS = 60


def infer_schema(values: Sequence[Any]) -> dict[str, Any]:
    """Infer the JSON Schema that all values fit, with their bounds.

    Args:
        values: At least one JSON value.
    """
    by_kind: dict[str, list[Any]] = {}
    for value in values:
        by_kind.setdefault(_kind(value), []).append(value)
    if "integer" in by_kind and "number" in by_kind:
        by_kind["number"] += by_kind.pop("integer")
    schemas = [_INFER[kind](some) if kind in _INFER else {} for kind, some in by_kind.items()]
    typed = [{"type": kind, **schema} for kind, schema in zip(by_kind, schemas, strict=True)]
    return typed[0] if len(typed) == 1 else {"anyOf": typed}


def loosened(schema: Any) -> Any:
    """The schema without bounds of values: types, fields and required fields stay."""
    bounds = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "enum")
    if isinstance(schema, list):
        return [loosened(subschema) for subschema in schema]
    if not isinstance(schema, dict):
        return schema
    loose = {key: value for key, value in schema.items() if key not in bounds}
    for key in ("items", "anyOf"):
        if key in loose:
            loose[key] = loosened(loose[key])
    if "properties" in loose:
        loose["properties"] = {
            name: loosened(subschema) for name, subschema in loose["properties"].items()
        }
    return loose


def _kind(value: Any) -> str:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return "null" if value is None else kinds.get(type(value), "object")


def _of_object(values: Sequence[dict[str, Any]]) -> dict[str, Any]:
    names = list(dict.fromkeys(name for value in values for name in value))
    return {
        "properties": {
            name: infer_schema([value[name] for value in values if name in value]) for name in names
        },
        "required": [name for name in names if all(name in value for value in values)],
        "additionalProperties": False,
    }


def _of_array(values: Sequence[list[Any]]) -> dict[str, Any]:
    sizes = [len(value) for value in values]
    items = [item for value in values for item in value]
    schema: dict[str, Any] = {"minItems": min(sizes), "maxItems": max(sizes)}
    return {**schema, "items": infer_schema(items)} if items else schema


def _of_number(values: Sequence[float]) -> dict[str, Any]:
    return {"minimum": min(values), "maximum": max(values)}


def _of_string(values: Sequence[str]) -> dict[str, Any]:
    different = list(dict.fromkeys(values))
    few = len(different) <= ENUM_VALUES and len(values) >= ENUM_REPEATS * len(different)
    if few and max(map(len, different)) <= MAX_ENUM_CHARACTERS:
        return {"enum": different}
    return {"minLength": min(map(len, values)), "maxLength": max(map(len, values))}


_INFER: dict[str, Any] = {
    "object": _of_object,
    "array": _of_array,
    "integer": _of_number,
    "number": _of_number,
    "string": _of_string,
}
