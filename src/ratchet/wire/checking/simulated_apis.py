"""The simulated model's APIs: OpenAI, Anthropic, Gemini, Ollama; at once and as streams."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ratchet.wire.checking import simulated_ollama as ollama
from ratchet.wire.checking.simulated_answers import (
    MODEL,
    Asked,
    Tool,
    Turn,
    texts_of,
    written_schema,
)

_TIME = 1_700_000_000
_USAGE = (20, 10)
"""Tokens that each call is said to take: in, out."""

Body = dict[str, Any]
Event = tuple[str, Any]


class Dialect(NamedTuple):
    """One API."""

    ending: str
    """Of the path."""
    asked: Callable[[Body], Asked]
    whole: Callable[[Body, Turn], Any]
    events: Callable[[Body, Turn], Iterator[Event]]
    in_lines: bool = False
    """Whether a stream is lines of JSON, and what is sent where the request does not say."""


def dialect_of(path: str) -> Dialect | None:
    """The API that a path belongs to."""
    path = path.partition("?")[0].rstrip("/")
    return next((one for one in _DIALECTS if path.endswith(one.ending)), None)


# OpenAI: chat completions.


def _chat_asked(body: Body) -> Asked:
    messages = body.get("messages") or []
    called: list[str] = []
    for message in messages:
        if message.get("role") == "user":
            called = []
        called += [call["function"]["name"] for call in message.get("tool_calls") or ()]
    wanted = body.get("response_format") or {}
    schema = (wanted.get("json_schema") or {}).get("schema")
    if schema is None and wanted.get("type") == "json_object":
        texts = [texts_of(message.get("content")) for message in messages]
        schema = written_schema(texts) or (None if _named_keys(messages) else {})
    return Asked(
        [texts_of(message.get("content")) for message in messages],
        [
            Tool(one["function"]["name"], one["function"].get("parameters") or {})
            for one in body.get("tools") or ()
            if one.get("type") == "function"
        ],
        called,
        _forced(body.get("tool_choice")),
        schema,
    )


def _named_keys(messages: list[Body]) -> bool:
    return any('":' in texts_of(message.get("content")) for message in messages)


def _forced(choice: Any) -> str:
    if choice in ("required", "any"):
        return "*"
    if isinstance(choice, dict):
        function = choice.get("function") or choice
        return str(function.get("name") or ("*" if choice.get("type") == "any" else ""))
    return ""


def _tool_call(turn: Turn) -> Body:
    function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
    return {"id": f"call_{_short(turn)}", "type": "function", "function": function}


def _short(turn: Turn) -> str:
    return hashlib.sha256(repr(turn).encode()).hexdigest()[:12]


def _chat(body: Body, turn: Turn) -> Any:
    message: Body = {"role": "assistant", "content": turn.text or None, "refusal": None}
    if turn.tool:
        message["tool_calls"] = [_tool_call(turn)]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(turn)}
    return {
        "id": f"chatcmpl-{_short(turn)}",
        "object": "chat.completion",
        "created": _TIME,
        "model": MODEL,
        "choices": [choice],
        "usage": _chat_usage(),
    }


def _reason(turn: Turn) -> str:
    return "tool_calls" if turn.tool else "stop"


def _chat_usage() -> Body:
    return {
        "prompt_tokens": _USAGE[0],
        "completion_tokens": _USAGE[1],
        "total_tokens": sum(_USAGE),
    }


def _chat_events(body: Body, turn: Turn) -> Iterator[Event]:
    head = {
        "id": f"chatcmpl-{_short(turn)}",
        "object": "chat.completion.chunk",
        "created": _TIME,
        "model": MODEL,
    }

    def chunk(delta: Body, reason: str | None = None) -> Event:
        return "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": None if turn.tool else ""})
    if turn.tool:
        yield chunk({"tool_calls": [{**_tool_call(turn), "index": 0}]})
    else:
        yield chunk({"content": turn.text})
    yield chunk({}, _reason(turn))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield "", {**head, "choices": [], "usage": _chat_usage()}
    yield "", "[DONE]"


# OpenAI: responses.


def _responses_asked(body: Body) -> Asked:
    given = body.get("input") or []
    items = given if isinstance(given, list) else [{"role": "user", "content": given}]
    called: list[str] = []
    for item in items:
        if item.get("role") == "user":
            called = []
        if item.get("type") == "function_call":
            called.append(item["name"])
    form = (body.get("text") or {}).get("format") or {}
    return Asked(
        [
            texts_of(body.get("instructions")),
            *(texts_of(item.get("content") or item.get("output")) for item in items),
        ],
        [
            Tool(one["name"], one.get("parameters") or {})
            for one in body.get("tools") or ()
            if one.get("type") == "function"
        ],
        called,
        _forced(body.get("tool_choice")),
        form.get("schema"),
    )


def _item(turn: Turn) -> Body:
    if turn.tool:
        return {
            "type": "function_call",
            "id": f"fc_{_short(turn)}",
            "call_id": f"call_{_short(turn)}",
            "name": turn.tool,
            "arguments": json.dumps(turn.arguments),
            "status": "completed",
        }
    return {
        "type": "message",
        "id": f"msg_{_short(turn)}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": turn.text, "annotations": []}],
    }


def _response(body: Body, turn: Turn, *, done: bool = True) -> Any:
    usage = {
        "input_tokens": _USAGE[0],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": _USAGE[1],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sum(_USAGE),
    }
    return {
        "id": f"resp_{_short(turn)}",
        "object": "response",
        "created_at": _TIME,
        "status": "completed" if done else "in_progress",
        "model": MODEL,
        "output": [_item(turn)] if done else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": usage if done else None,
    }


def _response_events(body: Body, turn: Turn) -> Iterator[Event]:
    item, number = _item(turn), -1

    def event(kind: str, **fields: Any) -> Event:
        nonlocal number
        number += 1
        return kind, {"type": kind, "sequence_number": number, **fields}

    place: Body = {"item_id": item["id"], "output_index": 0}
    yield event("response.created", response=_response(body, turn, done=False))
    if turn.tool:
        begun = {**item, "arguments": "", "status": "in_progress"}
        yield event("response.output_item.added", output_index=0, item=begun)
        kind = "response.function_call_arguments"
        yield event(f"{kind}.delta", **place, delta=item["arguments"])
        yield event(f"{kind}.done", **place, arguments=item["arguments"])
    else:
        begun = {**item, "content": [], "status": "in_progress"}
        yield event("response.output_item.added", output_index=0, item=begun)
        part = {"type": "output_text", "text": "", "annotations": []}
        place["content_index"] = 0
        yield event("response.content_part.added", **place, part=part)
        yield event("response.output_text.delta", **place, delta=turn.text, logprobs=[])
        yield event("response.output_text.done", **place, text=turn.text, logprobs=[])
        yield event("response.content_part.done", **place, part={**part, "text": turn.text})
    yield event("response.output_item.done", output_index=0, item=item)
    yield event("response.completed", response=_response(body, turn))


# Anthropic: messages.


def _messages_asked(body: Body) -> Asked:
    called: list[str] = []
    for message in body.get("messages") or ():
        parts = message["content"] if isinstance(message["content"], list) else []
        if message["role"] == "user" and not any(p.get("type") == "tool_result" for p in parts):
            called = []
        called += [part["name"] for part in parts if part.get("type") == "tool_use"]
    return Asked(
        [
            texts_of(body.get("system")),
            *(texts_of(message["content"]) for message in body.get("messages") or ()),
        ],
        [
            Tool(one["name"], one.get("input_schema") or {})
            for one in body.get("tools") or ()
            if "input_schema" in one
        ],
        called,
        _forced(body.get("tool_choice")),
    )


def _block(turn: Turn) -> Body:
    if turn.tool:
        name = f"toolu_{_short(turn)}"
        return {"type": "tool_use", "id": name, "name": turn.tool, "input": turn.arguments}
    return {"type": "text", "text": turn.text}


def _message(body: Body, turn: Turn) -> Any:
    return {
        "id": f"msg_{_short(turn)}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [_block(turn)],
        "stop_reason": "tool_use" if turn.tool else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": _USAGE[0], "output_tokens": _USAGE[1]},
    }


def _message_events(body: Body, turn: Turn) -> Iterator[Event]:
    def event(kind: str, **fields: Any) -> Event:
        return kind, {"type": kind, **fields}

    whole = _message(body, turn)
    yield event("message_start", message={**whole, "content": [], "stop_reason": None})
    if turn.tool:
        begun: Body = {**_block(turn), "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(turn.arguments)}
    else:
        begun = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": turn.text}
    yield event("content_block_start", index=0, content_block=begun)
    yield event("content_block_delta", index=0, delta=delta)
    yield event("content_block_stop", index=0)
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=ended, usage={"output_tokens": _USAGE[1]})
    yield event("message_stop")


# Gemini: generateContent.


def _contents_asked(body: Body) -> Asked:
    contents = body.get("contents") or []
    called = [
        part["functionCall"]["name"]
        for content in contents
        for part in content.get("parts") or ()
        if "functionCall" in part
    ]
    settings = body.get("generationConfig") or {}
    schema = settings.get("responseSchema") or settings.get("responseJsonSchema")
    return Asked(
        [
            texts_of(body.get("systemInstruction") or body.get("system_instruction")),
            *(texts_of(content.get("parts")) for content in contents),
        ],
        [
            Tool(one["name"], _lowered(one.get("parameters") or {}))
            for tools in body.get("tools") or ()
            for one in tools.get("functionDeclarations") or ()
        ],
        called,
        schema=_lowered(schema) if schema else None,
    )


def _lowered(schema: Any) -> Any:
    """Gemini writes types in capitals."""
    if isinstance(schema, dict):
        return {
            key: value.lower() if key == "type" and isinstance(value, str) else _lowered(value)
            for key, value in schema.items()
        }
    return [_lowered(one) for one in schema] if isinstance(schema, list) else schema


def _content(body: Body, turn: Turn) -> Any:
    part: Body = {"text": turn.text}
    if turn.tool:
        part = {"functionCall": {"name": turn.tool, "args": turn.arguments}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {
        "promptTokenCount": _USAGE[0],
        "candidatesTokenCount": _USAGE[1],
        "totalTokenCount": sum(_USAGE),
    }
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL}


def _content_events(body: Body, turn: Turn) -> Iterator[Event]:
    yield "", _content(body, turn)


_DIALECTS = (
    Dialect("/chat/completions", _chat_asked, _chat, _chat_events),
    Dialect("/responses", _responses_asked, _response, _response_events),
    Dialect("/messages", _messages_asked, _message, _message_events),
    Dialect(":generateContent", _contents_asked, _content, _content_events),
    Dialect(":streamGenerateContent", _contents_asked, _content, _content_events),
    Dialect("/api/chat", ollama.chat_asked, ollama.chat_whole, ollama.chat_lines, in_lines=True),
    Dialect(
        "/api/generate",
        ollama.generate_asked,
        ollama.generate_whole,
        ollama.generate_lines,
        in_lines=True,
    ),
)
