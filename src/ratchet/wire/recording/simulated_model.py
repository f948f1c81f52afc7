"""A simulated model, for a run without a key. It has no abilities: it follows the form asked for.

A request with tools gets the call of one, with arguments that fit its schema; then a text. One that
asks for JSON gets JSON that fits the schema. The same conversation gets the same answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ratchet.observe.model_apis.bounded_json import decoded, items, mapping
from ratchet.run.model_relay import Answer, RelayedRequest
from ratchet.wire.recording.model_calls import (
    asks_model,
    called_tools,
    dialect_of,
    texts_of_request,
)
from ratchet.wire.recording.python_hook.ratchet_recording_hook.shapes import about_models
from ratchet.wire.recording.simulated_dialects import MODEL, Turn, embeddings, spoken
from ratchet.wire.recording.simulated_dspy import dspy_text

SAME = 3
"""Requests with the same texts that are answered by a tool's call; then by a text."""
MOST_CALLS = 2
"""Tools that are called for one message of the user."""
_DEPTH = 8
"""Levels of a schema that are filled."""


class Tool(msgspec.Struct, frozen=True):
    """A tool that is offered."""

    name: str
    schema: Mapping[str, Any]


class SimulatedModel:
    """Answers requests in the dialect that they are made in."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self._hosts: set[str] = set()

    def answer(self, request: RelayedRequest) -> Answer | None:
        """The answer to a request; None where it asks no model."""
        try:
            body = decoded(request.body) if request.body else {}
        except ValueError:
            return None
        path = request.path.partition("?")[0]
        if about_models(path):
            return _whole(_about(path))
        if request.method != "POST":
            return None
        host = urlsplit(request.url).netloc
        if not asks_model(request, body):
            # What else its host is told, such as traces of runs, is taken and forgotten.
            return _whole({}) if host in self._hosts else None
        self._hosts.add(host)
        if "embed" in path.lower():
            return _whole(embeddings(path, body))
        mark = _mark(body)
        self._asked[mark] += 1
        # An agent that hands the conversation on and back again would never end.
        turn = turn_of(body, mark, calls=self._asked[mark] <= SAME)
        return spoken(dialect_of(path, body), path, body, turn)


def turn_of(body: Mapping[str, Any], mark: str, *, calls: bool = True) -> Turn:
    """What the model says to a request: a tool's call once, then a text or JSON.

    Args:
        body: The decoded request.
        mark: Of the request, in hexadecimal digits.
        calls: Whether tools may be called without being forced.
    """
    texts = [text.text for text in texts_of_request(body)]
    tools, called = tools_of(body), called_tools(body)
    forced = _forced(body)
    if forced:
        named = [tool for tool in tools if forced in ("*", tool.name)]
        # One that was called may look things up, and another give the answer.
        wanted = [tool for tool in named if tool.name not in called] or named[-1:]
        if wanted:
            return _call(wanted[0], mark)
    left = [tool for tool in tools if tool.name not in called]
    if calls and left and len(called) < MOST_CALLS:
        return _call(left[int(mark, 16) % len(left)], mark)
    schema = _schema(body)
    if schema is None:
        return Turn(_text(texts, mark))
    schema = schema or _written_schema(texts)
    return Turn(json.dumps(sample(schema, mark)) if schema else _object(_text(texts, mark)))


def tools_of(body: Mapping[str, Any]) -> list[Tool]:
    """The tools that a request offers, in any dialect; without those of the provider's own."""
    found = []
    offered = items(body.get("tools")) or items(mapping(body.get("toolConfig")).get("tools"))
    for entry in offered:
        entry = mapping(entry)
        for tool in items(entry.get("functionDeclarations")) or [
            entry.get("function") or entry.get("toolSpec") or entry
        ]:
            tool = mapping(tool)
            schema = tool.get("parameters") or tool.get("parametersJsonSchema")
            schema = schema or tool.get("input_schema") or mapping(tool.get("inputSchema"))
            schema = mapping(schema)
            if tool.get("name") and ("parameters" in tool or schema or "function" in entry):
                schema = mapping(schema.get("json", schema))
                found.append(Tool(str(tool["name"]), _lowered(schema)))
    return found


def _forced(body: Mapping[str, Any]) -> str:
    """Name of the tool that must be called; `*` for any, empty for none."""
    config = mapping(body.get("toolConfig"))
    choice = body.get("tool_choice") or config.get("toolChoice")
    if choice in ("required", "any") or (
        mapping(config.get("functionCallingConfig")).get("mode") == "ANY"
    ):
        return "*"
    choice = mapping(choice)
    function = mapping(choice.get("function") or choice.get("tool") or choice)
    return str(function.get("name") or ("*" if choice.get("type") == "any" else ""))


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Schema of an answer in JSON: empty for any object; None for a text."""
    form = mapping(body.get("response_format"))
    settings = mapping(body.get("generationConfig"))
    candidates = (
        mapping(form.get("json_schema")).get("schema"),
        mapping(mapping(body.get("text")).get("format")).get("schema"),
        settings.get("responseSchema") or settings.get("responseJsonSchema"),
        mapping(body.get("output_format")).get("schema"),
        mapping(mapping(body.get("output_config")).get("format")).get("schema"),
        body.get("format"),
    )
    for candidate in candidates:
        if isinstance(candidate, dict):
            return mapping(_lowered(candidate))
    any_object = form.get("type") == "json_object" or body.get("format") == "json"
    if any_object or settings.get("responseMimeType") == "application/json":
        return {}
    return None


def _written_schema(texts: Sequence[str]) -> Mapping[str, Any]:
    """The JSON schema that a message states in words; empty without one."""
    for text in reversed(texts):
        _, label, rest = text.rpartition("JSON schema:")
        if label:
            try:
                schema, _ = json.JSONDecoder().raw_decode(rest.lstrip())
            except ValueError:
                continue
            return mapping(schema)
    return {}


def _call(tool: Tool, mark: str) -> Turn:
    return Turn("", tool.name, mapping(sample(tool.schema, mark)))


def _object(text: str) -> str:
    """A text as a JSON object, if it is none."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return text if isinstance(value, dict) else json.dumps({"answer": text})


def _text(texts: Sequence[str], mark: str) -> str:
    whole, last = "\n".join(texts), texts[-1] if texts else ""
    said = f"Simulated answer {mark} to: {' '.join(last.split()[:12])}"
    fields = dspy_text(texts, said, mark, partial(sample))
    if fields is not None:
        return fields
    if "Final Answer:" in whole:  # the form of ReAct
        return f"Thought: I now can give a great answer\nFinal Answer: {said}"
    if re.search(r"\bjson\b", whole, re.IGNORECASE):
        keys = re.findall(r'"(\w+)"\s*:', whole)
        if keys:
            return json.dumps(dict.fromkeys(keys, said))
    return said


def sample(schema: Any, mark: str = "", root: Any = None, depth: int = 0) -> Any:
    """A value that fits a JSON schema, as far as it states types, enumerations and bounds."""
    root = schema if root is None else root
    text = f"simulated {mark}".strip()
    if not isinstance(schema, dict) or depth > _DEPTH:
        return text
    inner = partial(sample, mark=mark, root=root, depth=depth + 1)
    if "$ref" in schema:
        return inner(_referred(root, str(schema["$ref"])))
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            real = [option for option in schema[key] if option.get("type") != "null"]
            return inner((real or schema[key])[0])
    if schema.get("allOf"):
        merged: dict[str, Any] = {}
        for part in schema["allOf"]:
            merged |= _referred(root, str(part["$ref"])) if "$ref" in part else part
        return inner(merged)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][int(mark or "0", 16) % len(schema["enum"])]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    match kind:
        case "object":
            return {name: inner(value) for name, value in schema.get("properties", {}).items()}
        case "array":
            count = max(1, int(schema.get("minItems", 1)))
            return [inner(schema.get("items", {})) for _ in range(count)]
        case "integer" | "number":
            low = schema.get("minimum", schema.get("exclusiveMinimum", 0)) or 0
            return min(low + 1, schema.get("maximum", low + 1))
        case "boolean":
            return True
        case "null":
            return None
    formats = {"date": "2026-01-02", "date-time": "2026-01-02T03:04:05Z", "uri": "http://x.invalid"}
    return formats.get(schema.get("format", ""), text)


def _referred(root: Any, reference: str) -> Any:
    target = root
    for part in reference.removeprefix("#/").split("/"):
        target = mapping(target).get(part, {})
    return target


def _lowered(schema: Any) -> Any:
    """Gemini writes types in capitals."""
    if isinstance(schema, dict):
        return {
            key: value.lower() if key == "type" and isinstance(value, str) else _lowered(value)
            for key, value in schema.items()
        }
    return [_lowered(part) for part in schema] if isinstance(schema, list) else schema


def _mark(body: Mapping[str, Any]) -> str:
    texts: Iterable[str] = (text.text for text in texts_of_request(body))
    return hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()[:8]


def _about(path: str) -> Any:
    if path.endswith("/api/version"):
        return {"version": "0.0.0"}
    if path.endswith("/api/show"):
        return {"template": "", "model_info": {}, "capabilities": ["completion", "tools"]}
    if path.endswith("/api/tags"):
        details = {"family": "simulated", "parameter_size": "0B", "quantization_level": "none"}
        model = {"name": MODEL, "model": MODEL, "modified_at": "2026-01-02T03:04:05Z", "size": 0}
        return {"models": [{**model, "digest": "0", "details": details}]}
    if path.endswith(("tokens", "Tokens")):
        return {"input_tokens": 20, "totalTokens": 20}
    model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "ratchet"}
    return model if "/models/" in path else {"object": "list", "data": [model]}


def _whole(value: Any) -> Answer:
    return Answer(pieces=[json.dumps(value).encode()])
