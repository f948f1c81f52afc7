"""Message parts in the shape of OpenTelemetry's conventions for generative AI.

Source: docs/gen-ai/non-normative/models.py of open-telemetry/semantic-conventions-genai.
Binary content is not stored; its part has the size and the type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from ratchet.observe.model_apis.bounded_json import (
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
    size_of,
)

Part: TypeAlias = dict[str, Any]

_FIRST = 10


def text(content: Any, annotations: Any = None) -> Part:
    """Part of text, with the sources that it cites."""
    part: Part = {"type": "text", "content": bounded_text(content)}
    if annotations:
        part["annotations"] = bounded_value(annotations)
    return part


def reasoning(content: Any) -> Part:
    """Part of a model's reasoning."""
    return {"type": "reasoning", "content": bounded_text(content)}


def tool_call(call_id: Any, tool: Any, arguments: Any) -> Part:
    """Part of a tool call; arguments that are JSON text are embedded as JSON."""
    part: Part = {"type": "tool_call", "id": name(call_id), "name": name(tool)}
    part["arguments"] = arguments_of_call(arguments)
    return part


def tool_response(call_id: Any, response: Any) -> Part:
    """Part of a tool's result."""
    return {"type": "tool_call_response", "id": name(call_id), "response": response}


def other(kind: Any, **more: Any) -> Part:
    """Part of a type that the conventions do not define."""
    return {"type": name(kind) or "unknown", **more}


def plain(part: Mapping[str, Any], fields: Mapping[str, tuple[str, ...]]) -> Part:
    """Part of a type that the conventions do not define.

    Args:
        part: The part.
        fields: By documented type, the fields to record; of any other type only the type is.
    """
    kind = name(part.get("type"))
    recorded = {key: bounded_value(part[key]) for key in fields.get(kind, ()) if key in part}
    return other(kind, **recorded)


def server_tool_call(call_id: Any, tool: Any, call: Mapping[str, Any]) -> Part:
    """Part of a call of a tool that the provider itself runs.

    Args:
        call_id: Id of the call.
        tool: Name of the tool.
        call: What is known of the call.
    """
    return other("server_tool_call", id=name(call_id), name=name(tool), server_tool_call=call)


def media(modality: str, address: Any, mime_type: Any = None) -> Part:
    """Part of an image, a sound or a document, by its URL; for a data URL only type and size."""
    if not isinstance(address, str):
        return other(modality)
    if address.startswith("data:"):
        header = address[:300].partition(",")[0]
        declared = header.removeprefix("data:").partition(";")[0]
        return blob(modality, declared or mime_type, size_of(address) - len(header) - 1)
    part: Part = {"type": "uri", "modality": modality, "uri": address[: 2 * NAME_LIMIT]}
    if mime_type:
        part["mime_type"] = name(mime_type)
    return part


def blob(modality: str, mime_type: Any, encoded_size: int) -> Part:
    """Part of content sent as base64, which is not stored."""
    part: Part = {"type": "blob", "modality": modality}
    if mime_type:
        part["mime_type"] = name(mime_type)
    part["size"] = max(encoded_size, 0) * 3 // 4
    return part


def file(modality: str, file_id: Any) -> Part:
    """Part of a file stored by the provider."""
    return {"type": "file", "modality": modality, "file_id": name(file_id)}


def messages_text(messages: list[Any], convert: Callable[[Any], dict[str, Any]]) -> str:
    """JSON text of a request's messages; if there are very many, the first and the newest.

    Args:
        messages: Messages of the request.
        convert: Converts a message to the shape of the conventions.
    """
    if len(messages) <= MAX_ITEMS:
        return json_text([convert(message) for message in messages])
    some = [convert(message) for message in (*messages[:_FIRST], *messages[_FIRST - MAX_ITEMS :])]
    some.insert(_FIRST, omitted(len(messages) - MAX_ITEMS))
    return json_text(some)


def tool_definition(tool: Any) -> Part:
    """Definition of a tool: each dialect has its name, description and schema."""
    tool = mapping(tool)
    # Chat completions nest the definition.
    own = mapping(tool.get("function")) or mapping(tool.get("custom")) or tool
    part: Part = {"type": name(tool.get("type")) or "function", "name": name(own.get("name"))}
    if isinstance(own.get("description"), str):
        part["description"] = bounded_text(own["description"])
    schema = own.get("parameters") or own.get("input_schema")
    if isinstance(schema, dict):
        part["parameters"] = bounded_value(schema)
    return part


def arguments_of_call(value: Any) -> Any:
    """Arguments of a call, for embedding: JSON text becomes JSON, other text stays text."""
    if not isinstance(value, str) or type(value) is CutText or len(value) > TEXT_LIMIT:
        return bounded_value(value)
    if value.startswith(("{", "[")) and holds_json(value):
        return msgspec.Raw(value.encode())
    return bounded_text(value)
