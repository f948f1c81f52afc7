"""Builds messages in the form of OpenTelemetry's GenAI conventions: a role and parts.

Schemas: `gen-ai-input-messages.json` and `gen-ai-output-messages.json` in
open-telemetry/semantic-conventions-genai.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

Part: TypeAlias = dict[str, Any]
Message: TypeAlias = dict[str, Any]

MAX_BLOB = 4_096
"""Maximum number of characters of an image or a sound in a part. The content of a larger one is
only in the original attribute."""

_SPARE_DEPTH = 100
"""Nesting depth that a decoded value leaves to the data it becomes part of."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

_FAILURES = (msgspec.DecodeError, RecursionError, UnicodeError)


def json_text(value: Any) -> str:
    """A value as JSON text."""
    try:
        return _encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _encode(repr(value).encode("utf-8", "replace").decode()).decode()


def as_json(value: Any, declared: bool = True) -> str:
    """JSON text of a value that may be JSON text already.

    Args:
        value: The attribute.
        declared: Whether a text value may be JSON; if not, it is encoded as a string.
    """
    if value.__class__ is not str:
        return json_text(value)
    if declared and is_json(value):
        return str(value)
    return json_text(value)


def is_json(text: str) -> bool:
    """Whether a text is JSON."""
    try:
        _decode(text)
    except _FAILURES:
        return False
    return True


def decoded(value: Any) -> Any:
    """The value of a JSON text; anything else is returned unchanged."""
    if value.__class__ is not str:
        return value
    try:
        parsed = _decode(value)
        if value.count("[") + value.count("{") > _SPARE_DEPTH:  # else it cannot be deep
            nested = parsed
            for _ in range(_SPARE_DEPTH):
                nested = [nested]
            _encode(nested)
    except _FAILURES:
        return value
    return parsed


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list, or of the JSON text of one; a single object is a list of one."""
    parsed = decoded(value)
    if isinstance(parsed, dict):
        return [parsed]
    if isinstance(parsed, (list, tuple)):
        return [entry for entry in parsed if isinstance(entry, dict)]
    return []


def as_text(value: Any) -> str:
    """A value as text."""
    return value if isinstance(value, str) else json_text(value)


def message(role: Any, default_role: str, parts: list[Part], finish_reason: Any = None) -> Message:
    """A message; without a role it gets `default_role`."""
    converted: Message = {"role": as_text(role) if role else default_role, "parts": parts}
    if finish_reason:
        converted["finish_reason"] = as_text(finish_reason)
    return converted


def text(content: Any) -> Part:
    """A text part."""
    return {"type": "text", "content": as_text(content)}


def reasoning(content: Any) -> Part:
    """A reasoning part."""
    return {"type": "reasoning", "content": as_text(content)}


def tool_call(id: Any, name: Any, arguments: Any) -> Part:
    """A tool call part."""
    return {
        "type": "tool_call",
        "id": None if id is None else as_text(id),
        "name": "" if name is None else as_text(name),
        "arguments": decoded(arguments),
    }


def tool_result(id: Any, response: Any) -> Part:
    """A tool result part."""
    return {
        "type": "tool_call_response",
        "id": None if id is None else as_text(id),
        "response": response,
    }


def media(modality: str, url: Any, mime_type: Any = None) -> Part:
    """An image, audio or document part, from an address or a `data:` URL."""
    address = as_text(url)
    if address.startswith("data:"):
        head, _, data = address.partition(",")
        kind = head[len("data:") :].split(";")[0]
        return blob(modality, mime_type or kind or None, data)
    return {"type": "uri", "modality": modality, "mime_type": mime_type, "uri": address}


def blob(modality: str, mime_type: Any, data: Any) -> Part:
    """A part with inline content in base64."""
    small = isinstance(data, str) and len(data) <= MAX_BLOB
    return {
        "type": "blob",
        "modality": modality,
        "mime_type": mime_type,
        "content": data if small else None,
    }


def chat_message(raw: Mapping[str, Any], default_role: str) -> Message:
    """Convert a message of the chat APIs (`role`, `content`, `tool_calls`); one in the conventions'
    form is accepted too.
    """
    role = raw.get("role") or default_role
    parts = raw.get("parts")
    if isinstance(parts, list):
        return {**raw, "role": as_text(role)}
    content_parts = chat_parts(raw.get("content"))
    call_id = raw.get("tool_call_id", raw.get("id") if role == "tool" else None)
    if role == "tool" or call_id is not None:
        answer = content_parts[0]["content"] if _is_one_text(content_parts) else raw.get("content")
        return message(role, "tool", [tool_result(call_id, answer)])
    for call in objects(raw.get("tool_calls")):
        function = call.get("function")
        callee = function if isinstance(function, dict) else call
        content_parts.append(tool_call(call.get("id"), callee.get("name"), callee.get("arguments")))
    if raw.get("refusal"):
        content_parts.append(text(raw["refusal"]))
    return message(role, default_role, content_parts, raw.get("finish_reason"))


def chat_parts(content: Any) -> list[Part]:
    """Parts of a content: a text, or a list in the form of the chat APIs, possibly as JSON text."""
    if content is None or content == "":
        return []
    if content.__class__ is str:
        # Any other JSON is a text that happens to be JSON.
        if not content.startswith("[{"):
            return [text(content)]
        listed = decoded(content)
        if not (isinstance(listed, list) and all(_is_part(part) for part in listed)):
            return [text(content)]
        content = listed
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, (list, tuple)):
        return [text(content)]
    return [_chat_part(part) for part in content]


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def _is_one_text(parts: Sequence[Part]) -> bool:
    return len(parts) == 1 and parts[0].get("type") == "text" and "content" in parts[0]


def _chat_part(raw: Any) -> Part:
    if not _is_part(raw):
        return text(raw)
    kind = raw["type"]
    read = _CHAT_PARTS.get(kind)
    part = read(raw) if read else None
    return raw if part is None else part


def _text_part(raw: Part) -> Part | None:
    return text(raw["text"]) if "text" in raw else None


def _reasoning_part(raw: Part) -> Part | None:
    thought = raw.get("thinking", raw.get("text"))
    return None if thought is None else reasoning(thought)


def _image(raw: Part) -> Part | None:
    url = raw.get("image_url")
    if isinstance(url, dict):
        url = url.get("url")
    return None if url is None else media("image", url)


def _source(raw: Part) -> Part | None:
    source = raw.get("source")
    if not isinstance(source, dict):
        return None
    if "url" in source:
        return media(raw["type"], source["url"], source.get("media_type"))
    return blob(raw["type"], source.get("media_type"), source.get("data"))


def _tool_use(raw: Part) -> Part | None:
    return tool_call(raw.get("id"), raw.get("name"), raw.get("input"))


def _tool_answer(raw: Part) -> Part | None:
    return tool_result(raw.get("tool_use_id"), raw.get("content"))


def _audio_part(raw: Part) -> Part | None:
    sound = raw.get("input_audio")
    if not isinstance(sound, dict):
        return None
    form = sound.get("format")
    return blob("audio", f"audio/{form}" if isinstance(form, str) else None, sound.get("data"))


_CHAT_PARTS: dict[str, Callable[[Part], Part | None]] = {
    "text": _text_part,
    "input_text": _text_part,
    "output_text": _text_part,
    "thinking": _reasoning_part,
    "reasoning": _reasoning_part,
    "image_url": _image,
    "input_image": _image,
    "image": _source,
    "document": _source,
    "input_audio": _audio_part,
    "tool_use": _tool_use,
    "tool_result": _tool_answer,
}
"""Part types of OpenAI's and Anthropic's APIs. Parts of other types are left unchanged, as the
conventions allow."""
