"""The simulated model's answers in the form of each provider's API; whole or streamed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from ratchet.models.simulated.turns import Turn

MODEL = "ratchet-simulated-model"
_TIME = 1_700_000_000
_IN, _OUT = 20, 10
"""Number of tokens reported for each call."""

Body: TypeAlias = Mapping[str, Any]
Event: TypeAlias = tuple[str, Any]


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """An answer over HTTP."""

    pieces: Iterable[bytes]
    status: int = 200
    content_type: str = "application/json"


def spoken(dialect: str, path: str, body: Body, turn: Turn) -> Spoken:
    """Format a turn as the answer to a request."""
    if turn.is_error:
        error = {"message": turn.text, "type": "invalid_request_error", "code": 400}
        return Spoken(pieces=[json.dumps({"error": error}).encode()], status=400)
    ollama = dialect == "ollama"
    streams = bool(body.get("stream", ollama)) or "stream" in path.rpartition("/")[2].lower()
    match dialect:
        case "openai-chat":
            answer, events = _chat(turn), _chat_events(body, turn)
        case "openai-responses":
            answer, events = _response(body, turn), _response_events(body, turn)
        case "anthropic":
            answer, events = _message(turn), _message_events(turn)
        case "gemini":
            answer, events = _content(turn), iter([("", _content(turn))])
        case "ollama":
            chat = path.endswith("/api/chat")
            answer, events = _ollama(chat, turn), _ollama_lines(chat, turn)
        case "bedrock" if "stream" in path:
            why = "The simulated model does not stream in Bedrock's binary format."
            return Spoken(pieces=[json.dumps({"message": why}).encode()], status=501)
        case "bedrock":
            answer, events = _converse(turn), iter(())
            if path.endswith("/invoke"):  # answers in the form of the model's maker
                answer = {**_message(turn), "generation": turn.text}
        case _:
            answer, events = _plain(turn), _plain_events(turn)
    if not streams:
        return Spoken(pieces=[json.dumps(answer).encode()])
    if ollama:
        lines = (json.dumps(value).encode() + b"\n" for _, value in events)
        return Spoken(pieces=lines, content_type="application/x-ndjson")
    return Spoken(pieces=_as_events(events), content_type="text/event-stream")


def _as_events(events: Iterable[Event]) -> Iterator[bytes]:
    for name, value in events:
        data = value if isinstance(value, str) else json.dumps(value)
        yield (f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode()


# OpenAI's chat completions.


def _tool_call(turn: Turn) -> dict[str, Any]:
    function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
    return {"id": f"call_{turn.id}", "type": "function", "function": function}


def _chat(turn: Turn) -> Any:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None}
    if turn.tool:
        message["tool_calls"] = [_tool_call(turn)]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(turn)}
    head = {"id": f"chatcmpl-{turn.id}", "object": "chat.completion", "created": _TIME}
    return {**head, "model": MODEL, "choices": [choice], "usage": _CHAT_USAGE}


_CHAT_USAGE = {"prompt_tokens": _IN, "completion_tokens": _OUT, "total_tokens": _IN + _OUT}


def _reason(turn: Turn) -> str:
    return "tool_calls" if turn.tool else "stop"


def _chat_events(body: Body, turn: Turn) -> Iterator[Event]:
    head = {"id": f"chatcmpl-{turn.id}", "object": "chat.completion.chunk", "created": _TIME}

    def chunk(delta: Body, reason: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return "", {**head, "model": MODEL, "choices": [choice]}

    yield chunk({"role": "assistant", "content": None if turn.tool else ""})
    if turn.tool:
        yield chunk({"tool_calls": [{**_tool_call(turn), "index": 0}]})
    else:
        yield chunk({"content": turn.text})
    yield chunk({}, _reason(turn))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield "", {**head, "model": MODEL, "choices": [], "usage": _CHAT_USAGE}
    yield "", "[DONE]"


# OpenAI's responses.


def _item(turn: Turn) -> dict[str, Any]:
    if turn.tool:
        call = {"name": turn.tool, "arguments": json.dumps(turn.arguments), "status": "completed"}
        return {
            "type": "function_call",
            "id": f"fc_{turn.id}",
            "call_id": f"call_{turn.id}",
            **call,
        }
    content = [{"type": "output_text", "text": turn.text, "annotations": []}]
    head = {"type": "message", "id": f"msg_{turn.id}", "role": "assistant"}
    return {**head, "status": "completed", "content": content}


def _response(body: Body, turn: Turn, *, completed: bool = True) -> Any:
    usage = {
        "input_tokens": _IN,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": _OUT,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": _IN + _OUT,
    }
    return {
        "id": f"resp_{turn.id}",
        "object": "response",
        "created_at": _TIME,
        "status": "completed" if completed else "in_progress",
        "model": MODEL,
        "output": [_item(turn)] if completed else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "usage": usage if completed else None,
    }


def _response_events(body: Body, turn: Turn) -> Iterator[Event]:
    item, number = _item(turn), -1

    def event(kind: str, **fields: Any) -> Event:
        nonlocal number
        number += 1
        return kind, {"type": kind, "sequence_number": number, **fields}

    place: dict[str, Any] = {"item_id": item["id"], "output_index": 0}
    yield event("response.created", response=_response(body, turn, completed=False))
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


# Anthropic's messages.


def _message(turn: Turn) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": turn.text}
    if turn.tool:
        call = {"name": turn.tool, "input": turn.arguments}
        block = {"type": "tool_use", "id": f"toolu_{turn.id}", **call}
    return {
        "id": f"msg_{turn.id}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [block],
        "stop_reason": "tool_use" if turn.tool else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": _IN, "output_tokens": _OUT},
    }


def _message_events(turn: Turn) -> Iterator[Event]:
    def event(kind: str, **fields: Any) -> Event:
        return kind, {"type": kind, **fields}

    message = _message(turn)
    yield event("message_start", message={**message, "content": [], "stop_reason": None})
    delta: Body = {"type": "text_delta", "text": turn.text}
    begun: Body = {"type": "text", "text": ""}
    if turn.tool:
        begun = {**message["content"][0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(turn.arguments)}
    yield event("content_block_start", index=0, content_block=begun)
    yield event("content_block_delta", index=0, delta=delta)
    yield event("content_block_stop", index=0)
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=ended, usage={"output_tokens": _OUT})
    yield event("message_stop")


# Gemini, Bedrock, Ollama, and others.


def _content(turn: Turn) -> Any:
    part: dict[str, Any] = {"text": turn.text}
    if turn.tool:
        part = {"functionCall": {"name": turn.tool, "args": turn.arguments}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": _IN, "candidatesTokenCount": _OUT, "totalTokenCount": _IN + _OUT}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL}


def _converse(turn: Turn) -> Any:
    part: dict[str, Any] = {"text": turn.text}
    if turn.tool:
        call = {"toolUseId": f"tool_{turn.id}", "name": turn.tool, "input": turn.arguments}
        part = {"toolUse": call}
    message = {"role": "assistant", "content": [part]}
    usage = {"inputTokens": _IN, "outputTokens": _OUT, "totalTokens": _IN + _OUT}
    reason = "tool_use" if turn.tool else "end_turn"
    outcome = {"stopReason": reason, "usage": usage, "metrics": {"latencyMs": 1}}
    return {"output": {"message": message}, **outcome}


def _ollama(chat: bool, turn: Turn) -> dict[str, Any]:
    head = {"model": MODEL, "created_at": "2026-01-02T03:04:05Z", "done": True}
    usage = {"done_reason": "stop", "prompt_eval_count": _IN, "eval_count": _OUT}
    durations = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
    ended = {**head, **usage, **dict.fromkeys(durations, 1_000_000)}
    if not chat:
        return {**ended, "response": turn.text, "context": [1]}
    message: dict[str, Any] = {"role": "assistant", "content": turn.text}
    if turn.tool:
        message["tool_calls"] = [{"function": {"name": turn.tool, "arguments": turn.arguments}}]
    return {**ended, "message": message}


def _ollama_lines(chat: bool, turn: Turn) -> Iterator[Event]:
    yield "", {**_ollama(chat, turn), "done": False}
    yield "", _ollama(chat, Turn(""))


def _plain(turn: Turn) -> Any:
    """Of OpenAI's completions, Cohere, and servers of open models."""
    text = turn.text or json.dumps({"name": turn.tool, "arguments": turn.arguments})
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": "stop"}
    head = {"id": f"cmpl-{turn.id}", "object": "text_completion", "created": _TIME, "model": MODEL}
    texts = {"text": text, "generated_text": text, "output_text": text, "message": message}
    return {**head, **texts, "choices": [choice], "usage": _CHAT_USAGE}


def _plain_events(turn: Turn) -> Iterator[Event]:
    yield "", _plain(turn)
    yield "", "[DONE]"


def about_models(path: str) -> Any:
    """The server's answer to a question about its models, or about a request's token count."""
    if path.endswith(("tokens", "Tokens")):
        return {"input_tokens": 20, "totalTokens": 20}
    if path.endswith("/api/version"):
        return {"version": "0.0.0"}
    if path.endswith("/api/show"):
        return {"template": "", "model_info": {}, "capabilities": ["completion", "tools"]}
    ollama = {"name": MODEL, "modified_at": "2026-01-02T03:04:05Z", "size": 0, "digest": "0"}
    model = {"id": MODEL, "model": MODEL, "object": "model", "created": 0, "owned_by": "ratchet"}
    if "/models/" in path:
        return model
    return {"object": "list", "data": [model], "models": [{**model, **ollama, "details": {}}]}


_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwAD"
    "hgGAWjR9awAAAABJRU5ErkJggg=="
)


def beside(path: str) -> Any:
    """The answer to a request that is not for a model's text: an image of one pixel, a moderation
    that flags nothing, a transcription; None for any other."""
    if path.endswith(("/images/generations", "/images/edits", "/images/variations")):
        image = {"url": f"data:image/png;base64,{_PIXEL}", "b64_json": _PIXEL}
        return {"created": 0, "data": [image]}
    if path.endswith("/moderations"):
        result = {"flagged": False, "categories": {}, "category_scores": {}}
        return {"id": "modr-simulated", "model": MODEL, "results": [result]}
    if path.endswith(("/audio/transcriptions", "/audio/translations")):
        return {"text": "Simulated transcription"}
    return None


def embeddings(path: str, body: Body) -> Any:
    """Vectors derived from the texts, of the requested length."""
    texts = body.get("input", body.get("prompt", body.get("content", body.get("requests", ""))))
    several = isinstance(texts, list) and bool(texts) and not isinstance(texts[0], int)
    wanted = body.get("dimensions", body.get("outputDimensionality"))
    size = wanted if isinstance(wanted, int) and 0 < wanted <= 4096 else _usual_size(body)
    vectors = [_vector(str(text), size) for text in (texts if several else [texts])]
    if path.endswith("/api/embeddings"):
        return {"embedding": vectors[0]}
    if path.endswith("/api/embed"):
        return {"model": MODEL, "embeddings": vectors}
    if ":batchEmbedContents" in path:
        return {"embeddings": [{"values": vector} for vector in vectors]}
    if ":embedContent" in path:
        return {"embedding": {"values": vectors[0]}}
    rows = [
        {"object": "embedding", "index": number, "embedding": vector}
        for number, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": _IN, "total_tokens": _IN}
    return {"object": "list", "model": MODEL, "data": rows, "usage": usage}


_SIZES = {"embedding-3-large": 3072, "mxbai": 1024, "mistral": 1024, "minilm": 384, "nomic": 768}
"""Length if the request does not give another: a column of a vector store has a fixed size."""


def _usual_size(body: Body) -> int:
    name = str(body.get("model", "")).lower()
    return next((size for part, size in _SIZES.items() if part in name), 1536)


def _vector(text: str, size: int) -> list[float]:
    """Of about unit length."""
    digest = hashlib.shake_256(text.encode("utf-8", "replace")).digest(size)
    return [round((byte - 127.5) / 127.5 / (size / 3) ** 0.5, 6) for byte in digest]
