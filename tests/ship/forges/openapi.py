"""Checks of requests and responses against an OpenAPI document, and responses made from it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

ABSENT = object()


class Description:
    """An OpenAPI 3.0 document."""

    def __init__(self, path: Path) -> None:
        self.document = json.loads(path.read_text())

    def operation(self, method: str, path: str) -> tuple[dict[str, Any], dict[str, str]] | None:
        """The operation of a request, with the values of its path's parameters."""
        for template, methods in self.document["paths"].items():
            pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(template))
            found = re.fullmatch(pattern, path)
            if found and method.lower() in methods:
                return methods[method.lower()], found.groupdict()
        return None

    def wrong_request(
        self, operation: dict[str, Any], query: dict[str, str], body: Any
    ) -> list[str]:
        """What is wrong with a request; parameters and fields that do not exist are, too."""
        known = {p["name"]: p for p in operation["parameters"] if p["in"] == "query"}
        wrong = [f"no query parameter {name}" for name in query.keys() - known.keys()]
        for name, parameter in known.items():
            if name in query:
                value: Any = query[name]
                if self.resolved(parameter["schema"]).get("type") == "integer":
                    value = int(value) if value.isdigit() else value
                wrong += self.wrong(parameter["schema"], value)
            elif parameter["required"]:
                wrong.append(f"query parameter {name} is missing")
        given = operation.get("requestBody")
        if given is None or not given["content"]:
            return wrong + (["takes no body"] if body is not ABSENT else [])
        if body is ABSENT:
            return wrong + (["needs a body"] if given["required"] else [])
        schema = given["content"]["application/json"]["schema"]
        fields = self._fields(schema)
        if isinstance(body, dict):
            wrong += [f"no field {name}" for name in body.keys() - fields]
        return wrong + self.wrong(schema, body)

    def wrong_response(self, operation: dict[str, Any], status: int, body: Any) -> list[str]:
        """What is wrong with a response."""
        answer = operation["responses"].get(str(status))
        if answer is None:
            return [] if status in (401, 429) or status >= 500 else [f"no response {status}"]
        if "content" not in answer:
            return []
        return self.wrong(answer["content"]["application/json"]["schema"], body)

    def wrong(self, schema: dict[str, Any], value: Any) -> list[str]:
        """Where a value differs from a schema."""
        checked = {**_nullable(schema), "components": _nullable(self.document["components"])}
        validator = Draft202012Validator(checked, format_checker=FormatChecker())
        return [f"{e.json_path}: {e.message[:200]}" for e in validator.iter_errors(value)]

    def example(self, operation: dict[str, Any], status: int) -> Any:
        """The smallest response of an operation."""
        return self._made(operation["responses"][str(status)]["content"]["application/json"])

    def schema(self, name: str) -> Any:
        """The smallest value of a named schema."""
        return self._made({"schema": {"$ref": f"#/components/schemas/{name}"}})

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return schema

    def _fields(self, schema: dict[str, Any]) -> set[str]:
        schema = self.resolved(schema)
        fields = set(schema.get("properties", ()))
        for key in ("oneOf", "anyOf", "allOf"):
            for each in schema.get(key, ()):
                fields |= self._fields(each)
        return fields

    def _made(self, holder: dict[str, Any]) -> Any:
        schema = self.resolved(holder["schema"])
        if schema.get("nullable"):
            return None
        for key in ("oneOf", "anyOf"):
            if key in schema:
                return self._made({"schema": schema[key][0]})
        if "allOf" in schema:
            return {k: v for s in schema["allOf"] for k, v in self._made({"schema": s}).items()}
        if "enum" in schema:
            return schema["enum"][0]
        kind = schema.get("type", "object")
        if kind == "object":
            required = schema.get("required", ())
            given = schema.get("properties", {})
            return {name: self._made({"schema": given[name]}) for name in required}
        if kind == "string":
            formats = {"date-time": "2026-01-02T03:04:05Z", "uri": "https://github.test/x"}
            return formats.get(schema.get("format", ""), "x")
        return {"integer": 1, "number": 1.0, "boolean": False, "array": []}[kind]


def _nullable(schema: Any) -> Any:
    """OpenAPI 3.0's `nullable` in JSON Schema's own words."""
    if isinstance(schema, list):
        return [_nullable(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _nullable(value) for key, value in schema.items() if key != "nullable"}
    return {"anyOf": [made, {"type": "null"}]} if schema.get("nullable") is True else made
