"""The simulated model as a server of Ollama: chat, generate, embeddings and what it has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ratchet.wire.checking.simulated_answers import MODEL, Asked, Tool, Turn, texts_of

Body = dict[str, Any]
_AT = "2026-01-02T03:04:05Z"
_USAGE = {"prompt_eval_count": 20, "eval_count": 10}
_DURATIONS = dict.fromkeys(
    ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration"), 1_000_000
)


def chat_asked(body: Body) -> Asked:
    messages = body.get("messages") or []
    called: list[str] = []
    for message in messages:
        if message.get("role") == "user":
            called = []
        called += [call["function"]["name"] for call in message.get("tool_calls") or ()]
    return Asked(
        [texts_of(message.get("content")) for message in messages],
        [
            Tool(one["function"]["name"], one["function"].get("parameters") or {})
            for one in body.get("tools") or ()
        ],
        called,
        schema=_schema(body),
    )


def generate_asked(body: Body) -> Asked:
    texts = [str(body[name]) for name in ("system", "prompt") if body.get(name)]
    return Asked(texts, schema=_schema(body))


def _schema(body: Body) -> Body | None:
    form = body.get("format")
    return form if isinstance(form, dict) else {} if form == "json" else None


def chat_whole(body: Body, turn: Turn) -> Body:
    message: Body = {"role": "assistant", "content": turn.text}
    if turn.tool:
        message["tool_calls"] = [{"function": {"name": turn.tool, "arguments": turn.arguments}}]
    return {"message": message, **_ended()}


def generate_whole(body: Body, turn: Turn) -> Body:
    return {"response": turn.text, "context": [1], **_ended()}


def chat_lines(body: Body, turn: Turn) -> Iterator[tuple[str, Any]]:
    yield "", {**chat_whole(body, turn), "done": False}
    yield "", {**chat_whole(body, Turn("")), "done": True}


def generate_lines(body: Body, turn: Turn) -> Iterator[tuple[str, Any]]:
    yield "", {**generate_whole(body, turn), "done": False}
    yield "", {**generate_whole(body, Turn("")), "done": True}


def _ended() -> Body:
    said = {"model": MODEL, "created_at": _AT, "done": True, "done_reason": "stop"}
    return {**said, **_USAGE, **_DURATIONS}


def about_models(path: str) -> Body | None:
    """What the server says of its models; None for another path."""
    if path.endswith("/api/tags"):
        details = {"family": "simulated", "parameter_size": "0B", "quantization_level": "none"}
        named = {"name": MODEL, "model": MODEL, "modified_at": _AT, "size": 0, "digest": "0"}
        return {"models": [{**named, "details": details}]}
    if path.endswith("/api/show"):
        return {"template": "", "model_info": {}, "capabilities": ["completion", "tools"]}
    return None


def as_line(value: Any) -> bytes:
    """A piece of a stream, which is a line of JSON."""
    return json.dumps(value).encode() + b"\n"
