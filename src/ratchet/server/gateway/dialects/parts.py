"""Parts of messages, as OpenTelemetry's conventions for generative AI shape them.

Their source is docs/gen-ai/non-normative/models.py of open-telemetry/semantic-conventions-genai.
Binary content is not kept: a part says how large it was, and of which type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from ratchet.server.gateway.dialects.bounded_json import (
    MAX_ITEMS,
    NAME_LIMIT,
    TEXT_LIMIT,
    CutText,
    bounded_text,
    bounded_value,
    holds_json,
    json_text,
    mapping,
    name,
    omitted,
)

Part: TypeAlias = dict[str, Any]

_FIRST = 10


def text(content: Any) -> Part:
    """Words."""
    return {"type": "text", "content": bounded_text(content)}


def reasoning(content: Any) -> Part:
    """What a model thought."""
    return {"type": "reasoning", "content": bounded_text(content)}


def tool_call(call_id: Any, tool: Any, arguments: Any) -> Part:
    """A model's wish to call a tool; arguments that are JSON text stand as their value."""
    part: Part = {"type": "tool_call", "id": name(call_id), "name": name(tool)}
    part["arguments"] = _arguments(arguments)
    return part


def tool_response(call_id: Any, response: Any) -> Part:
    """What a tool returned."""
    return {"type": "tool_call_response", "id": name(call_id), "response": response}


def other(kind: Any, **more: Any) -> Part:
    """A part that the conventions do not know."""
    return {"type": name(kind) or "unknown", **more}


def media(modality: str, address: Any, mime_type: Any = None) -> Part:
    """An image, a sound or a document, by its URL; of a data URL only the type and the size."""
    if not isinstance(address, str):
        return other(modality)
    if address.startswith("data:"):
        header = address[:300].partition(",")[0]
        declared = header.removeprefix("data:").partition(";")[0]
        return blob(modality, declared or mime_type, len(address) - len(header) - 1)
    part: Part = {"type": "uri", "modality": modality, "uri": address[: 2 * NAME_LIMIT]}
    if mime_type:
        part["mime_type"] = name(mime_type)
    return part


def blob(modality: str, mime_type: Any, encoded_size: int) -> Part:
    """Content that was sent as base64; it is not kept."""
    part: Part = {"type": "blob", "modality": modality}
    if mime_type:
        part["mime_type"] = name(mime_type)
    part["size"] = max(encoded_size, 0) * 3 // 4
    return part


def file(modality: str, file_id: Any) -> Part:
    """A file that the provider has."""
    return {"type": "file", "modality": modality, "file_id": name(file_id)}


def messages_text(messages: list[Any], shown: Callable[[Any], dict[str, Any]]) -> str:
    """JSON text of a request's messages; of very many, the first and the newest.

    Args:
        messages: As the request has them.
        shown: One of them, in the shape of the conventions.
    """
    if len(messages) <= MAX_ITEMS:
        return json_text([shown(one) for one in messages])
    some = [shown(one) for one in (*messages[:_FIRST], *messages[_FIRST - MAX_ITEMS :])]
    some.insert(_FIRST, omitted(len(messages) - MAX_ITEMS))
    return json_text(some)


def tool_definition(tool: Any) -> Part:
    """A tool that a model may call: all dialects name, describe and give a schema to it."""
    tool = mapping(tool)
    # Chat nests what the others do not.
    own = mapping(tool.get("function")) or mapping(tool.get("custom")) or tool
    part: Part = {"type": name(tool.get("type")) or "function", "name": name(own.get("name"))}
    if isinstance(own.get("description"), str):
        part["description"] = bounded_text(own["description"])
    schema = own.get("parameters") or own.get("input_schema")
    if isinstance(schema, dict):
        part["parameters"] = bounded_value(schema)
    return part


def _arguments(value: Any) -> Any:
    if not isinstance(value, str) or type(value) is CutText or len(value) > TEXT_LIMIT:
        return bounded_value(value)
    if value.startswith(("{", "[")) and holds_json(value):
        return msgspec.Raw(value.encode())
    return bounded_text(value)
