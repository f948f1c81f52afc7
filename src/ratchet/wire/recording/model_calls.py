"""Model calls from the relay's record: dialect, texts and answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

from ratchet.hooks.python.ratchet_recording_hook.shapes import is_model_request
from ratchet.hooks.python.ratchet_recording_hook.values import is_secret_name
from ratchet.observe.model_apis import MODEL_APIS, ModelApi
from ratchet.observe.model_apis.bounded_json import decoded, either_case, mapping
from ratchet.run.model_relay import Exchange, RelayedRequest
from ratchet.wire.recording.recording import ModelText, is_embedding

Body: TypeAlias = Mapping[str, Any]

_ENDINGS = {
    "/chat/completions": "openai-chat",
    "/responses": "openai-responses",
    "/completions": "openai-completions",
    "/embeddings": "openai-embeddings",
    "/messages": "anthropic",
    ":generateContent": "gemini",
    ":streamGenerateContent": "gemini",
    "/api/chat": "ollama",
    "/api/generate": "ollama",
    "/generate": "tgi",
    "/generate_stream": "tgi",
    "/completion": "llama.cpp",
}
"""Dialects by the end of the path."""


def asks_model(request: RelayedRequest, body: Any) -> bool:
    """Whether a request with a decoded body is a model call.

    One of an unknown form to this machine is for a program of the owner's own.
    """
    if request.method != "POST" or not is_model_request(request.path, body):
        return False
    return bool(dialect_of(request.path, body)) or not is_loopback(
        urlsplit(request.url).hostname or ""
    )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.")  # noqa: S104


def request_of(exchange: Exchange) -> Any:
    """The decoded body of a request; None if it is not JSON."""
    return body_of(exchange.request)


def body_of(request: RelayedRequest) -> Any:
    """The decoded body of a request that arrived; None if it is not JSON."""
    try:
        return decoded(request.body)
    except ValueError:
        return None


def dialect_of(path: str, request: Any) -> str:
    """The dialect of a request; empty for an unknown one."""
    path = path.partition("?")[0].rstrip("/")
    dialect = next((name for end, name in _ENDINGS.items() if path.endswith(end)), "")
    if not dialect and "contents" in mapping(request):
        return "gemini"
    if not dialect and is_embedding(path):
        return "embeddings"
    return "bedrock" if not dialect and path.startswith("/model/") else dialect


def api_of(dialect: str) -> ModelApi | None:
    """The reader of a dialect's span attributes; None if there is none."""
    provider, _, name = dialect.partition("-")
    if provider == "anthropic":
        return MODEL_APIS["anthropic", "messages"]
    if provider == "gemini":
        return MODEL_APIS["gemini", "models/{model}:generateContent"]
    paths = {"chat": "chat/completions"}
    return MODEL_APIS.get(("openai", paths.get(name, name))) if provider == "openai" else None


def texts_of_request(request: Any) -> tuple[ModelText, ...]:
    """Every text in a system, developer or user message, whatever the dialect."""
    sent = _request_texts(mapping(request))
    return tuple(ModelText(role=role, text=text) for role, text in sent if text.strip())


_ROLES = {"developer": "system", "human": "user", "ai": "assistant", "model": "assistant"}


def _request_texts(body: Body) -> Iterator[tuple[str, str]]:
    for key in ("system", "instructions", "systemInstruction", "system_instruction", "preamble"):
        for text in texts_of(body.get(key)):
            yield "system", text
    for key in ("messages", "contents", "input", "chat_history"):
        value = body.get(key)
        for message in value if isinstance(value, list) else [value]:
            if not isinstance(message, dict):
                for text in texts_of(message):
                    yield "user", text
                continue
            if message.get("type") in ("function_call", "reasoning"):
                continue
            role = str(message.get("role") or ("tool" if "output" in message else "user")).lower()
            content = message.get("content", message.get("parts", message.get("output")))
            for part in content if isinstance(content, list) else [content]:
                for text in texts_of(part):
                    yield "tool" if _is_tool_result(part) else _ROLES.get(role, role), text
    for key in ("prompt", "inputs", "message", "inputText"):
        for text in texts_of(body.get(key)):
            yield "user", text


def texts_of(content: Any) -> list[str]:
    """The texts in a message's content, in any dialect: a text, a part, or a list of these."""
    if isinstance(content, str):
        return [content]
    if isinstance(content, list):
        return [text for part in content for text in texts_of(part)]
    if isinstance(content, dict):
        for key in ("text", "content", "parts", "input_text"):
            if isinstance(content.get(key), (str, list)):
                return texts_of(content[key])
    return []


def _is_tool_result(part: Any) -> bool:
    """Whether a part of a user's message is what a tool returned."""
    part = mapping(part)
    named = ("toolResult", "functionResponse", "function_response")
    return part.get("type") == "tool_result" or not part.keys().isdisjoint(named)


def turns_of(request: Any) -> int:
    """Number of messages, tool calls and results in a request, whatever the dialect."""
    turns = (mapping(request).get(key) for key in ("messages", "contents", "input"))
    return sum(len(turn) for turn in turns if isinstance(turn, list))


def called_tools(request: Body) -> list[str]:
    """Names of the tools called since the user's last message."""
    called: list[str] = []
    for key in ("messages", "contents", "input"):
        value = request.get(key)
        for message in value if isinstance(value, list) else []:
            message = mapping(message)
            content = message.get("content", message.get("parts"))
            results = isinstance(content, list) and any(map(_is_tool_result, content))
            if message.get("role") == "user" and not results:
                called = []
            called += [call["name"] for call in _said(message)[1]]
    return called


def answer_of(exchange: Exchange, dialect: str) -> str:
    """The answer's text; of tool calls, their names and arguments as JSON."""
    text = exchange.body.decode("utf-8", "replace")
    assembled = _assembled(text, exchange.content_type, dialect)
    answer, calls = _said(assembled)
    return answer or (json.dumps(calls, ensure_ascii=False) if calls else "")


def is_streamed(exchange: Exchange) -> bool:
    """Whether the answer was streamed."""
    kind = exchange.content_type
    return any(word in kind for word in ("event-stream", "ndjson", "eventstream"))


def path_without_keys(path: str) -> str:
    """A path whose query keeps the names of keys but not their values."""
    place = urlsplit(path)
    if not place.query:
        return path
    pairs = [
        (name, "redacted" if is_secret_name(name) or name == "key" else value)
        for name, value in parse_qsl(place.query, keep_blank_values=True)
    ]
    return f"{place.path}?{urlencode(pairs)}"


def _assembled(text: str, content_type: str, dialect: str) -> list[Any]:
    """The decoded answer, whole or as the pieces of a stream."""
    if "event-stream" in content_type or text.startswith(("data:", "event:")):
        events = _decoded_lines(
            line[5:].strip() for line in text.splitlines() if line.startswith("data:")
        )
        api = api_of(dialect)
        if api is None:
            return events
        assembly = api.assembly()
        for event in events:
            if isinstance(event, dict):
                assembly.add(event)
        return [assembly.response()]
    try:
        return [decoded(text)]
    except ValueError:
        return _decoded_lines(text.splitlines())


def _decoded_lines(lines: Any) -> list[Any]:
    values = []
    for line in lines:
        try:
            values.append(decoded(line))
        except ValueError:
            continue
    return values


_ANSWERS = (
    "choices",
    "output",
    "content",
    "candidates",
    "message",
    "parts",
    "delta",
    "generations",
)
_TEXTS = (
    "text",
    "response",
    "content",
    "completion",
    "outputText",
    "output_text",
    "generated_text",
)


def _said(value: Any, depth: int = 0) -> tuple[str, list[dict[str, Any]]]:
    """Texts and tool calls of an answer, in whatever dialect."""
    if depth > 12:
        return "", []
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    if isinstance(value, list):
        for part in value:
            text, more = _said(part, depth + 1)
            texts.append(text)
            calls += more
    elif isinstance(value, dict):
        if value.get("type") == "reasoning":
            return "", []
        call = value.get("function") or either_case(value, "functionCall") or value.get("toolUse")
        if call is None and value.get("type") in ("tool_use", "function_call"):
            call = value
        if isinstance(call, dict) and "name" in call:
            arguments = call.get("arguments", call.get("args", call.get("input")))
            return "", [{"name": call["name"], "arguments": arguments}]
        content = next((value[key] for key in _TEXTS if isinstance(value.get(key), str)), "")
        for key in () if content else _ANSWERS:
            if isinstance(value.get(key), dict | list) and not (content or calls):
                content, calls = _said(value[key], depth + 1)
        texts.append(content)
        calls += _said(value.get("tool_calls"), depth + 1)[1]
    return "".join(texts), calls
