"""What the simulated model says. It has no abilities: it follows the form that is asked for.

The same conversation always gets the same answer, and another one another.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from ratchet.wire.checking.simulated_dspy import Sample, dspy_text

MODEL = "ratchet-simulated-model"
_DEPTH = 8
"""Levels of a schema that are filled."""


class Tool(NamedTuple):
    """A tool that is offered."""

    name: str
    schema: dict[str, Any]


class Asked(NamedTuple):
    """A request, whatever its dialect."""

    texts: Sequence[str]
    """Of all messages in order, the system's first."""
    tools: Sequence[Tool] = ()
    called: Sequence[str] = ()
    """Names of tools that were called since the last message of the user."""
    forced: str = ""
    """Name of the tool that must be called; `*` for any."""
    schema: dict[str, Any] | None = None
    """Of the answer, where it must be JSON; empty for any object."""
    way: int = 0
    """Which way to take where several are open: each calls another tool; all but 0 say no."""
    address: str = ""
    """Of a page for tools that read one."""


class Turn(NamedTuple):
    """What the model says: a text, or the call of a tool."""

    text: str
    tool: str = ""
    arguments: dict[str, Any] = {}


def answer(asked: Asked) -> Turn:
    """Answer a request in the form that it asks for: a tool once, then a text or JSON."""
    mark = hashlib.sha256("\0".join(asked.texts).encode()).hexdigest()[:8]
    valued = partial(sample, yes=asked.way == 0)
    open_tools = [tool for tool in asked.tools if tool.name not in asked.called]
    if asked.forced:
        wanted = [tool for tool in asked.tools if asked.forced in ("*", tool.name)]
        # One that was called may look things up, and another give the answer.
        wanted = [tool for tool in wanted if tool.name not in asked.called] or wanted[-1:]
        if wanted:
            return _call(wanted[0], asked, mark, valued)
    if open_tools and len(asked.called) < 2:
        chosen = open_tools[(int(mark, 16) + asked.way) % len(open_tools)]
        return _call(chosen, asked, mark, valued)
    if asked.schema:
        return Turn(json.dumps(valued(asked.schema, mark)))
    if asked.schema is not None:
        return Turn(_any_object(_text(asked.texts, mark, valued)))
    return Turn(_text(asked.texts, mark, valued))


def written_schema(texts: Sequence[str]) -> dict[str, Any]:
    """The JSON schema that a message states, as the Vercel AI SDK writes it; empty without one."""
    for text in reversed(texts):
        _, found, rest = text.rpartition("JSON schema:")
        if found:
            try:
                schema, _ = json.JSONDecoder().raw_decode(rest.lstrip())
            except ValueError:
                continue
            if isinstance(schema, dict):
                return schema
    return {}


def _call(tool: Tool, asked: Asked, mark: str, valued: Sample) -> Turn:
    found = valued(tool.schema, mark)
    if not isinstance(found, dict):
        return Turn("", tool.name)
    made_up, number = f"simulated {mark}", int(mark, 16) + asked.way
    page = f"{asked.address}/{mark}" if asked.address else ""

    def fitting(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [fitting(name.removesuffix("s"), one) for one in value]
        if value != made_up:
            return value
        return (page if _ADDRESS.search(name) else _one_listed(name, asked.texts, number)) or value

    return Turn("", tool.name, {name: fitting(name, value) for name, value in found.items()})


_ADDRESS = re.compile(r"(?:^|_)(?:url|uri|link|href)$|[a-z](?:U[Rr][Ll]|Uri|Link|Href)$")


def _any_object(text: str) -> str:
    """A text as a JSON object, if it is none."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return text if isinstance(found, dict) else json.dumps({"answer": text})


def _one_listed(argument: str, texts: Sequence[str], number: int) -> str:
    """What the messages list, for `agent_name` a line `Stock Agent: …`; empty without one."""
    noun = re.sub(r"_?(name|id)$", "", argument.lower())
    if not noun or noun == argument.lower():
        return ""
    line = rf"^[\s\-*\d.]*([^:\n]{{0,60}}\b{re.escape(noun)}\b[^:\n]{{0,60}}):\s*\S"
    listed = [
        one.strip() for one in re.findall(line, "\n".join(texts), re.MULTILINE | re.IGNORECASE)
    ]
    return listed[number % len(listed)] if listed else ""


def _text(texts: Sequence[str], mark: str, valued: Sample) -> str:
    whole, last = "\n".join(texts), texts[-1] if texts else ""
    said = f"Simulated answer {mark} to: {' '.join(last.split()[:12])}"
    fields = dspy_text(texts, said, mark, valued)
    if fields is not None:
        return fields
    if "Final Answer:" in whole:  # ReAct, CrewAI
        return f"Thought: I now can give a great answer\nFinal Answer: {said}"
    if re.search(r"\bjson\b", whole, re.IGNORECASE):
        keys = re.findall(r'"(\w+)"\s*:', whole)
        if keys:
            return json.dumps(dict.fromkeys(dict.fromkeys(keys), said))
    return said


def sample(
    schema: Any, mark: str = "", root: Any = None, depth: int = 0, *, yes: bool = True
) -> Any:
    """A value that fits a JSON schema, as far as it states types, enumerations and bounds."""
    root = schema if root is None else root
    if not isinstance(schema, dict) or depth > _DEPTH:
        return f"simulated {mark}".strip()
    if "$ref" in schema:
        return sample(_referred(root, str(schema["$ref"])), mark, root, depth + 1, yes=yes)
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            chosen = [one for one in schema[key] if one.get("type") != "null"] or schema[key]
            return sample(chosen[0], mark, root, depth + 1, yes=yes)
    if schema.get("allOf"):
        merged: dict[str, Any] = {}
        for one in schema["allOf"]:
            merged |= _referred(root, str(one["$ref"])) if "$ref" in one else one
        return sample(merged, mark, root, depth + 1, yes=yes)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][int(mark or "0", 16) % len(schema["enum"])]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = next((one for one in kind if one != "null"), "null") if isinstance(kind, list) else kind
    match kind:
        case "object":
            properties = schema.get("properties", {})
            return {
                key: sample(one, mark, root, depth + 1, yes=yes) for key, one in properties.items()
            }
        case "array":
            count = max(1, int(schema.get("minItems", 1)))
            return [
                sample(schema.get("items", {}), mark, root, depth + 1, yes=yes)
                for _ in range(count)
            ]
        case "integer" | "number":
            low: float = schema.get("minimum", schema.get("exclusiveMinimum", 0)) or 0
            high: float = schema.get("maximum", low + 1)
            return min(low + 1, high)
        case "boolean":
            return yes
        case "null":
            return None
    formats = {"date": "2026-01-02", "date-time": "2026-01-02T03:04:05Z", "uri": "http://x.invalid"}
    return formats.get(schema.get("format", ""), f"simulated {mark}".strip())


def _referred(root: Any, reference: str) -> Any:
    found = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part, {}) if isinstance(found, dict) else {}
    return found


def texts_of(content: Any) -> str:
    """The text of a message's content in any dialect."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return texts_of(content.get("text") or content.get("content") or content.get("parts") or "")
    if isinstance(content, list):
        return "\n".join(filter(None, map(texts_of, content)))
    return ""
