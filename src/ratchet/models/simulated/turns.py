"""The answers of a simulated model. It has no abilities: it follows the requested form.

A request with tools gets the call of one, with arguments that fit its schema; then a text. One that
asks for JSON gets JSON that fits the schema.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from ratchet.observe.model_apis.bounded_json import either_case, items, mapping

MAX_CALLS = 2
"""Tools that are called for one user message."""
ANSWER = "Simulated answer"
"""Beginning of every text for which no other form is requested."""
MAX_EXTRA_TURNS = 300
"""Number of answers to a loop that may wait for a phrase, before its requests are refused."""
ENOUGH = (
    f"The simulated model has answered {MAX_EXTRA_TURNS} requests that begin alike. If the agent"
    " waits for something that this model never says, record with a real one, without --simulated."
)
_SAMPLE = "simulated"
_DAY = "2026-01-02"
_DEPTH = 8
"""Levels of a schema that are filled."""

_MARKED = re.compile(
    r"`\[\[ ## (\w+) ## \]\]`(?: \(must be formatted as a valid Python (.+?)\)(?=,|\.|$))?"
)
"""The fields that DSPy requests, with their types unless they are texts."""


_PHRASE = re.compile(
    r"\"([^\"\n{}]{2,60})\"|(?<!\w)'([^'\n{}]{2,60})'(?!\w)|`([^`\n{}]{2,60})`|\b([A-Z][A-Z_]{3,})\b"
)
"""Phrases that a prompt quotes, or writes in capitals."""


_LABEL = re.compile(r"^[-*\d. ]*([A-Za-z][\w &/-]{2,40}): +\S", re.MULTILINE)
"""A name at the beginning of a line, before what is said of it."""


_FINAL = re.compile(r"\bfinal[ _]?(?:answer|result|response|output|tool)", re.I)


class Turn(msgspec.Struct, frozen=True):
    """An answer: a text, or a tool call."""

    text: str
    tool: str = ""
    arguments: Mapping[str, Any] = {}
    is_error: bool = False
    """Whether the request is refused, with the text as the reason."""

    @property
    def id(self) -> str:
        """A key that is equal for equal turns."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:12]


class Tool(msgspec.Struct, frozen=True):
    name: str
    schema: Mapping[str, Any]
    ends: bool
    """Whether its call is the answer: its name or description says that it is the final one."""


def turn_of(
    body: Mapping[str, Any],
    texts: Sequence[str],
    called: Sequence[str],
    mark: str,
    *,
    calls: bool,
    extra_turns: int = 0,
) -> Turn:
    """The model's answer: one call of a tool, then a text or JSON.

    Args:
        body: The decoded request, in any dialect.
        texts: Of its messages, in order.
        called: Names of the tools that were called since the last message of the user.
        mark: Of the request, in hexadecimal digits: another one gets another answer.
        calls: Whether tools may be called that need not be.
        extra_turns: How often a loop was answered that may wait for a phrase to end.
    """
    if extra_turns > MAX_EXTRA_TURNS:
        return Turn(ENOUGH, is_error=True)
    forced = _forced(body)
    tools = [tool for tool in _tools(body) if not forced or forced in ("*", tool.name)]
    left = [tool for tool in tools if tool.name not in called]
    wanted: Sequence[Tool] = ()
    if forced:  # one of them may look things up, and another give the answer
        wanted = left or tools[-1:]
    elif calls:
        wanted = _optional(left, len(called))
    phrases = _quoted(texts) if extra_turns else ()
    phrase = phrases[(extra_turns - 1) % len(phrases)] if phrases else ""
    if wanted:
        tool = wanted[int(mark, 16) % len(wanted)]
        arguments = mapping(sample(tool.schema, mark))
        if phrase:  # what ends the loop may be an argument, such as a command
            free = (name for name, value in arguments.items() if str(value).startswith(_SAMPLE))
            arguments |= dict.fromkeys(free, phrase)
        return Turn("", tool.name, {**arguments, **_listed(tool.schema, texts, mark)})
    schema = _schema(body)
    if schema is None:
        text = _text(texts, mark)
        return Turn(phrase if phrase and text.startswith(ANSWER) else text)
    schema = schema or _written_schema(texts)
    if schema:
        return Turn(json.dumps(sample(schema, mark)))
    text = _text(texts, mark)
    return Turn(text if text.startswith("{") else json.dumps({"answer": text}))


def _optional(left: Sequence[Tool], called: int) -> list[Tool]:
    """The tools of which one is called next, though none must be; empty for a text."""
    others = [tool for tool in left if not tool.ends]
    return others if others and called < MAX_CALLS else [tool for tool in left if tool.ends]


_SCHEMAS = ("parameters", "parametersJsonSchema", "inputSchema")
"""Keys of a tool's JSON schema in the dialects."""


def _tools(body: Mapping[str, Any]) -> list[Tool]:
    """The tools that a request offers, in any dialect, except those built into the provider."""
    offered = []
    configured = mapping(either_case(body, "toolConfig")).get("tools")
    for entry in items(body.get("tools")) or items(configured):
        entry = mapping(entry)
        alone = entry.get("function") or entry.get("toolSpec") or entry
        for tool in map(mapping, items(either_case(entry, "functionDeclarations")) or [alone]):
            schemas = (either_case(tool, key) for key in _SCHEMAS)
            schema = next((mapping(schema) for schema in schemas if schema), {})
            if tool.get("name") and (schema or "parameters" in tool or "function" in entry):
                name = str(tool["name"])
                ends = bool(_FINAL.search(f"{name} {tool.get('description')}"))
                offered.append(Tool(name, _lowered(schema.get("json", schema)), ends))
    return offered


def _forced(body: Mapping[str, Any]) -> str:
    """Name of the tool that must be called; `*` for any, empty for none."""
    config = mapping(either_case(body, "toolConfig"))
    choice = body.get("tool_choice") or config.get("toolChoice")
    mode = mapping(either_case(config, "functionCallingConfig")).get("mode")
    if choice in ("required", "any") or mode == "ANY":
        return "*"
    choice = mapping(choice)
    function = mapping(choice.get("function") or choice.get("tool") or choice)
    return str(function.get("name") or ("*" if choice.get("type") == "any" else ""))


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Schema of a JSON answer: empty for any object; None for a text."""
    form = mapping(body.get("response_format"))
    settings = mapping(either_case(body, "generationConfig"))
    candidates = (
        mapping(form.get("json_schema")).get("schema"),
        mapping(mapping(body.get("text")).get("format")).get("schema"),
        either_case(settings, "responseSchema") or either_case(settings, "responseJsonSchema"),
        mapping(mapping(body.get("output_config")).get("format")).get("schema"),
        mapping(body.get("output_format")).get("schema"),
        body.get("format"),
    )
    for candidate in candidates:
        if isinstance(candidate, dict):
            return mapping(_lowered(candidate))
    any_object = form.get("type") == "json_object" or body.get("format") == "json"
    any_object |= either_case(settings, "responseMimeType") == "application/json"
    return {} if any_object else None


def _listed(schema: Mapping[str, Any], texts: Sequence[str], mark: str) -> dict[str, str]:
    """Arguments that name what a message lists: `agent_name` takes `Billing Agent: answers …`."""
    listed = [label for text in texts for label in _LABEL.findall(text)]
    arguments = {}
    for name, value in mapping(schema.get("properties")).items():
        kinds = {word for word in name.lower().split("_") if word not in ("name", "id")}
        fitting = [label for label in listed if kinds & {label.lower().split()[-1]}]
        if fitting and mapping(value).get("type") == "string" and "enum" not in value:
            arguments[name] = fitting[int(mark, 16) % len(fitting)]
    return arguments


def _written_schema(texts: Sequence[str]) -> Mapping[str, Any]:
    """The JSON schema that a message states in words; empty if it states none."""
    for text in reversed(texts):
        _, label, after = text.rpartition("JSON schema:")
        if label:
            try:
                return mapping(json.JSONDecoder().raw_decode(after.lstrip())[0])
            except ValueError:
                continue
    return {}


def _text(texts: Sequence[str], mark: str) -> str:
    joined, last = "\n".join(texts), texts[-1] if texts else ""
    answer = f"{ANSWER} {mark} to: {' '.join(last.split()[:12])}"
    fields_so_far, _, instructions = last.rpartition("Respond with ")
    fields = [(name, kind) for name, kind in _MARKED.findall(instructions) if name != "completed"]
    if fields:
        lines = [
            f"[[ ## {name} ## ]]\n{_field(kind, answer, fields_so_far)}" for name, kind in fields
        ]
        return "\n\n".join([*lines, "[[ ## completed ## ]]"])
    if "Final Answer:" in joined:  # the form of ReAct
        return f"Thought: I now can give a great answer\nFinal Answer: {answer}"
    keys = re.findall(r'"(\w+)"\s*:', joined) if re.search(r"\bjson\b", joined, re.I) else []
    return json.dumps(dict.fromkeys(keys, answer)) if keys else answer


def _quoted(texts: Sequence[str]) -> tuple[str, ...]:
    """Phrases that texts quote, and words in capitals; without those of this model's answers."""
    phrases = [
        phrase
        for text in texts
        for groups in _PHRASE.findall(text.partition(ANSWER)[0])
        for phrase in groups
        if phrase
    ]
    return tuple(dict.fromkeys(phrases))


def _field(kind: str, answer: str, fields_so_far: str) -> str:
    """A value for a field of a marked form, according to its Python type."""
    if kind.startswith("Literal["):
        options = [str(option) for option in ast.literal_eval(kind.removeprefix("Literal"))]
        before = fields_so_far.rpartition("[[ ## trajectory ## ]]")[
            2
        ]  # of an agent that calls tools
        return next((option for option in options if option not in before), options[-1])
    typed = {"int": "1", "float": "0.5", "bool": "True", "list": "[]", "dict": "{}"}
    return typed.get(kind.partition("[")[0], answer)


def sample(
    schema: Any, mark: str = "", root: Mapping[str, Any] | None = None, depth: int = 0
) -> Any:
    """A value that fits a JSON schema; only types, enumerations and bounds are considered."""
    text = f"{_SAMPLE} {mark}".strip()
    if not isinstance(schema, dict) or depth > _DEPTH:
        return text
    root = schema if root is None else root
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
            return {
                name: _DAY if _is_day(name, value) else inner(value)
                for name, value in schema.get("properties", {}).items()
            }
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
    formats = {"date": _DAY, "date-time": "2026-01-02T03:04:05Z", "uri": "http://x.invalid"}
    return formats.get(schema.get("format", ""), text)


def _is_day(name: str, schema: Any) -> bool:
    """Whether a text is a date by its name or description, where no format says so."""
    if mapping(schema).get("type") != "string" or "enum" in schema or "format" in schema:
        return False
    described = str(schema.get("description", ""))
    return bool(re.search(r"(^|_)(date|day)$", name) or re.search("yyyy-mm-dd", described, re.I))


def _referred(root: Any, reference: str) -> Any:
    for part in reference.removeprefix("#/").split("/"):
        root = mapping(root).get(part, {})
    return root


def _lowered(schema: Any) -> Any:
    """A schema with its types in lower case; Gemini's are in capital letters."""
    if isinstance(schema, dict):
        return {
            key: value.lower() if key == "type" and isinstance(value, str) else _lowered(value)
            for key, value in schema.items()
        }
    return [_lowered(part) for part in schema] if isinstance(schema, list) else schema
