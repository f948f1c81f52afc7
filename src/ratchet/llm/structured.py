"""Structured answers: extracts JSON from a model's answer and validates it against a schema."""

# ruff: noqa: RUF001
from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ratchet.llm import lenient_json
from ratchet.llm.answer_text import code_blocks, without_reasoning
from ratchet.types import InputError

MAX_SEARCHED = 200_000
"""How much of an answer is searched, in characters."""

MAX_POSITIONS = 200
"""Maximum positions in prose at which an object is searched."""

MAX_LENIENT = 12
"""How many of these are parsed leniently, which may scan the whole text."""

_BEGINS = re.compile(r"[{\[｛]")

_strict = json.JSONDecoder(strict=False, parse_constant=lambda name: _no_constant(name))


class AnswerSchema:
    """A JSON schema that answers must fit.

    Args:
        schema: A JSON schema of an object.

    Raises:
        InputError: It is not a JSON schema.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        from jsonschema import Draft202012Validator, SchemaError

        self.schema = dict(schema)
        try:
            Draft202012Validator.check_schema(self.schema)
        except SchemaError as error:
            raise InputError(f"The answer schema is not a JSON schema: {error.message}.") from None
        self._validator = Draft202012Validator(self.schema)

    def read(self, text: str) -> tuple[Any, str]:
        """Extract the JSON value that fits the schema.

        Returns:
            The value, the last if several fit, and an empty string; or None and what is wrong.
        """
        wrong = ""
        fitting: list[Any] = []
        for wrapped in values_in(text):
            for value in _unwrapped(wrapped):
                problem = self.problem(value)
                if not problem:
                    fitting.append(value)
                    break
                wrong = wrong or problem
        if fitting:
            return fitting[-1], ""
        return None, wrong or "it contains no JSON object"

    def problem(self, value: Any) -> str:
        """Why a value does not fit; empty if it does."""
        from jsonschema.exceptions import best_match

        try:
            error = best_match(self._validator.iter_errors(value))
        except RecursionError:
            return "it is nested too deeply"
        if error is None:
            return ""
        where = error.json_path.removeprefix("$").removeprefix(".")
        return f"{where + ': ' if where else ''}{error.message[:300]}"

    @property
    def is_strict(self) -> bool:
        """Whether strict mode can enforce it: objects are closed and all properties required."""
        return _is_strict(self.schema)


def values_in(text: str) -> Iterator[Any]:
    """Objects and lists in a text, in order, whatever surrounds them.

    Leading reasoning is ignored. Values in code fences take precedence over values in prose.
    """
    text = without_reasoning(text).strip()[:MAX_SEARCHED]
    parsed = _read(text, 0)
    if parsed is not None and not text[parsed[1] :].strip():
        yield parsed[0]
        return
    fenced = [fenced_value for block in code_blocks(text) for fenced_value in _scan(block.text)]
    yield from fenced or _scan(text)


def instruction(schema: Mapping[str, Any]) -> str:
    """Prompt text that asks for this format, for endpoints that do not enforce it."""
    return (
        "Answer with one JSON object that fits this JSON schema, and with nothing before or after"
        f" it:\n{json.dumps(schema, ensure_ascii=False)}"
    )


def _scan(text: str) -> list[Any]:
    values: list[Any] = []
    at = attempts = 0
    while attempts < MAX_POSITIONS and (match := _BEGINS.search(text, at)) is not None:
        attempts += 1
        value = _read(text, match.start(), leniently=attempts <= MAX_LENIENT)
        if value is None:
            at = match.start() + 1
        else:
            values.append(value[0])
            at = value[1]
    return values


def _read(text: str, at: int, leniently: bool = True) -> tuple[Any, int] | None:
    """Parse the object or list at a position; None if there is none."""
    begin = at
    while begin < len(text) and text[begin].isspace():
        begin += 1
    if text[begin : begin + 1] not in ("{", "[", "｛", '"'):
        return None
    try:
        value, end = _strict.raw_decode(text, begin)
    except (ValueError, RecursionError):
        if not leniently:
            return None
        try:
            value, end = lenient_json.read_lenient_json(text, begin)
        except (lenient_json.NotJSON, RecursionError):
            return None
    return (value, end) if isinstance(value, (dict, list)) or begin == 0 else None


def _unwrapped(value: Any) -> Iterator[Any]:
    """Yield the value, then the values that it may wrap."""
    yield value
    if isinstance(value, list) and len(value) == 1:
        yield value[0]
    elif isinstance(value, dict) and len(value) == 1:
        yield next(iter(value.values()))
    elif isinstance(value, str):
        inner = _read(value, 0)
        if inner is not None:
            yield inner[0]


def _is_strict(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or properties is not None:
        property_names = set(properties or {})
        if schema.get("additionalProperties") is not False:
            return False
        if property_names != set(schema.get("required", ())):
            return False
    inner = [value for key, value in schema.items() if key not in ("properties", "enum", "const")]
    return _is_strict([*inner, *(properties or {}).values()])


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
