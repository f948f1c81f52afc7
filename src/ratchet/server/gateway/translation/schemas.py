"""Schemas of structured output, in the part of JSON Schema that the other API accepts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ratchet.observe.model_apis.bounded_json import mapping
from ratchet.server.gateway.translation.features import Findings

_INSIDE = ("anyOf", "oneOf", "allOf")
_NAMED = ("properties", "$defs", "definitions")
_ACCEPTED = frozenset(
    {"$ref", "type", "enum", "const", "title", "description", "default", "required", "items"}
    | {*_INSIDE, *_NAMED, "additionalProperties"}
)
_FORMATS = frozenset(
    {*("date-time", "time", "date", "duration", "email", "hostname"), "uri", "ipv4", "ipv6", "uuid"}
)


def closed(schema: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """A schema as Anthropic accepts it: objects have only the keys that are named.

    Limits that it cannot enforce, such as `minimum`, move into the description, as its own
    libraries do.

    Args:
        schema: Any JSON schema.
        findings: Takes what the schema loses.
    """
    stated = {key: value for key, value in schema.items() if not _accepts(key, value)}
    result = _with_inner(
        {key: value for key, value in schema.items() if key not in stated},
        lambda inner: closed(inner, findings),
    )
    if "oneOf" in result:
        result["anyOf"] = result.pop("oneOf")
    if "object" in _types(schema) or "properties" in schema:
        if schema.get("additionalProperties", False) is not False:
            advice = "name the keys under `properties`, or make it a list of pairs"
            findings.refuse("a schema of objects with any keys", advice)
        result["additionalProperties"] = False
    if stated:
        findings.leave_out("enforcement of " + ", ".join(sorted(stated)))
        limits = json.dumps(stated, ensure_ascii=False)
        result["description"] = f"{schema.get('description') or ''}\n\n{limits}".strip()
    return result


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Whether OpenAI can enforce a schema: each key is named and required."""
    strict = True

    def look(inner: dict[str, Any]) -> dict[str, Any]:
        nonlocal strict
        strict = strict and is_strict(inner)
        return inner

    _with_inner(schema, look)
    if "object" in _types(schema) or "properties" in schema:
        names = set(mapping(schema.get("properties")))
        required = schema.get("required")
        strict = strict and schema.get("additionalProperties") is False
        strict = strict and names == set(required if isinstance(required, list) else ())
    return strict


def _accepts(key: str, value: Any) -> bool:
    if key == "format":
        return value in _FORMATS
    if key == "minItems":
        return value in (0, 1)
    return key in _ACCEPTED


def _types(schema: Mapping[str, Any]) -> list[Any]:
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [kind]


def _with_inner(
    schema: Mapping[str, Any], convert: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    """A copy of a schema whose inner schemas are converted."""
    result = dict(schema)
    for key in _INSIDE:
        if isinstance(result.get(key), list):
            result[key] = [convert(mapping(inner)) for inner in result[key]]
    for key in _NAMED:
        if key in result:
            inner_schemas = mapping(result[key])
            result[key] = {name: convert(mapping(inner)) for name, inner in inner_schemas.items()}
    if isinstance(result.get("items"), dict):
        result["items"] = convert(result["items"])
    return result
