"""A simulator of model APIs: asks for the weather tool first, then answers with what the tool said.

OpenAI's chat completions, responses and embeddings, and Anthropic's messages, each at once and as a
stream. It stands for no model's abilities: what it answers depends on nothing but the conversation.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

ASKING = (42, 7)
ANSWERING = (60, 11)
"""Tokens of a call in which the model asks for a tool, and of one in which it answers: in, out."""

OPENAI_MODEL = "gpt-4o-mini-2024-07-18"
CITY = "Paris"
_TIME = 1_700_000_000
_OBSERVED = "Observation:"  # how smolagents tells a model what a tool said


class Turn(NamedTuple):
    """What the model says."""

    text: str
    tool: str
    """Name of the tool that it asks for, empty when it answers."""
    arguments: dict[str, Any]

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens of the call: in, out."""
        return ASKING if self.tool else ANSWERING


def next_turn(offered: list[str], result: str | None) -> Turn:
    """What the model says next.

    Args:
        offered: Names of the tools that it may ask for.
        result: What the last tool said; None before it was asked.
    """
    if result is None:
        for name in offered:
            if "get_weather" in name:
                return Turn("", name, {"city": CITY})
    answer = f"The weather in {CITY}: {result}." if result else "I have no tool for that."
    # smolagents has a tool for the answer too.
    if "final_answer" in offered:
        return Turn("", "final_answer", {"answer": answer})
    return Turn(answer, "", {})


class ModelSimulator:
    """The simulator as a server on a free port of loopback; a context manager."""

    def __init__(self) -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def url(self) -> str:
        """Where it is reached, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def calls(self) -> list[tuple[int, int]]:
        """Tokens of each call of a model that it answered: in, out."""
        return list(self._server.calls)

    def __enter__(self) -> ModelSimulator:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.calls: list[tuple[int, int]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing when a client goes away in the middle."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._send_json({"object": "list", "data": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        path = self.path.split("?")[0].rstrip("/")
        for ending, (next_of, answer, stream) in _APIS.items():
            if path.endswith(ending):
                turn = next_of(body)
                self.server.calls.append(turn.tokens)
                if body.get("stream"):
                    self._send_events(stream(body, turn))
                else:
                    self._send_json(answer(body, turn))
                return
        if path.endswith("/embeddings"):
            self._send_json(_embeddings(body))
            return
        self._send_json({"error": {"message": f"no such path: {path}"}}, 404)

    def _send_json(self, value: Any, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_events(self, events: Iterator[tuple[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for name, value in events:
            data = value if isinstance(value, str) else json.dumps(value)
            line = f"event: {name}\n" if name else ""
            self.wfile.write(f"{line}data: {data}\n\n".encode())
        self.close_connection = True


# OpenAI: chat completions.


def _chat_turn(body: dict[str, Any]) -> Turn:
    result = None
    for message in body["messages"]:
        said = _text(message.get("content"))
        if message["role"] == "tool":
            result = said
        elif message["role"] == "user" and said.startswith(_OBSERVED):
            result = said.removeprefix(_OBSERVED).strip()
    offered = [each["function"]["name"] for each in body.get("tools") or []]
    if not offered:
        by_text = _turn_by_text(body["messages"])
        if by_text is not None:
            return by_text
    return next_turn(offered, result)


def _turn_by_text(messages: list[dict[str, Any]]) -> Turn | None:
    """DSPy describes its tools in words, and wants fields between marks."""
    said = "\n".join(_text(each.get("content")) for each in messages)
    if "[[ ## next_tool_name ## ]]" in said:
        asked = "[[ ## observation_0 ## ]]" in said or "observation_0" in said
        name, arguments = ("finish", {}) if asked else ("get_weather", {"city": CITY})
        fields = {
            "next_thought": "I look.",
            "next_tool_name": name,
            "next_tool_args": json.dumps(arguments),
        }
    elif "[[ ## answer ## ]]" in said:
        fields = {"reasoning": "The tool said so.", "answer": f"The weather in {CITY}: 18 C."}
    else:
        return None
    marked = [f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items()]
    return Turn("\n\n".join([*marked, "[[ ## completed ## ]]"]), "", {})


def _calls(turn: Turn) -> list[dict[str, Any]]:
    function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
    return [{"id": "call_1", "type": "function", "function": function}]


def _usage(turn: Turn) -> dict[str, int]:
    sent, said = turn.tokens
    return {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said}


def _chat(body: dict[str, Any], turn: Turn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None}
    if turn.tool:
        message["tool_calls"] = _calls(turn)
    reason = "tool_calls" if turn.tool else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": _TIME,
        "model": OPENAI_MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": _usage(turn),
    }


def _chat_stream(body: dict[str, Any], turn: Turn) -> Iterator[tuple[str, Any]]:
    head = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": _TIME,
        "model": OPENAI_MODEL,
    }

    def chunk(delta: dict[str, Any], reason: str | None = None) -> tuple[str, Any]:
        return "", {
            **head,
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }

    yield chunk({"role": "assistant", "content": None if turn.tool else ""})
    if turn.tool:
        (call,) = _calls(turn)
        text = call["function"]["arguments"]
        begun = {**call, "index": 0, "function": {"name": turn.tool, "arguments": ""}}
        yield chunk({"tool_calls": [begun]})
        for piece in (text[:4], text[4:]):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        yield chunk({}, "tool_calls")
    else:
        for piece in (turn.text[:9], turn.text[9:]):
            yield chunk({"content": piece})
        yield chunk({}, "stop")
    if (body.get("stream_options") or {}).get("include_usage"):
        yield "", {**head, "choices": [], "usage": _usage(turn)}
    yield "", "[DONE]"


# OpenAI: responses.


def _responses_turn(body: dict[str, Any]) -> Turn:
    result = None
    sent = body["input"]
    for item in sent if isinstance(sent, list) else []:
        if item.get("type") == "function_call_output":
            result = _text(item["output"])
    return next_turn([each["name"] for each in body.get("tools") or [] if "name" in each], result)


def _response(body: dict[str, Any], turn: Turn, *, done: bool = True) -> dict[str, Any]:
    sent, said = turn.tokens
    usage = {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sent + said,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": _TIME,
        "status": "completed" if done else "in_progress",
        "model": OPENAI_MODEL,
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


def _item(turn: Turn) -> dict[str, Any]:
    if turn.tool:
        return {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": turn.tool,
            "arguments": json.dumps(turn.arguments),
            "status": "completed",
        }
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": turn.text, "annotations": []}],
    }


def _responses_stream(body: dict[str, Any], turn: Turn) -> Iterator[tuple[str, Any]]:
    number = -1

    def event(kind: str, **fields: Any) -> tuple[str, Any]:
        nonlocal number
        number += 1
        return kind, {"type": kind, "sequence_number": number, **fields}

    item = _item(turn)
    place = {"item_id": item["id"], "output_index": 0}
    begun = _response(body, turn, done=False)
    yield event("response.created", response=begun)
    if turn.tool:
        empty = {**item, "arguments": "", "status": "in_progress"}
        yield event("response.output_item.added", output_index=0, item=empty)
        whole = item["arguments"]
        for piece in (whole[:4], whole[4:]):
            yield event("response.function_call_arguments.delta", **place, delta=piece)
        yield event("response.function_call_arguments.done", **place, arguments=whole)
    else:
        empty = {**item, "content": [], "status": "in_progress"}
        yield event("response.output_item.added", output_index=0, item=empty)
        part = {"type": "output_text", "text": "", "annotations": []}
        place["content_index"] = 0
        yield event("response.content_part.added", **place, part=part)
        for piece in (turn.text[:9], turn.text[9:]):
            yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
        yield event("response.output_text.done", **place, text=turn.text, logprobs=[])
        yield event("response.content_part.done", **place, part={**part, "text": turn.text})
    yield event("response.output_item.done", output_index=0, item=item)
    yield event("response.completed", response=_response(body, turn))


# OpenAI: embeddings.


def _embeddings(body: dict[str, Any]) -> dict[str, Any]:
    sent = body["input"] if isinstance(body["input"], list) else [body["input"]]
    return {
        "object": "list",
        "model": body["model"],
        "data": [
            {"object": "embedding", "index": index, "embedding": [0.1, 0.2, 0.3]}
            for index in range(len(sent))
        ],
        "usage": {"prompt_tokens": 5, "total_tokens": 5},
    }


# Anthropic: messages.


def _messages_turn(body: dict[str, Any]) -> Turn:
    result = None
    for message in body["messages"]:
        for part in message["content"] if isinstance(message["content"], list) else []:
            if part.get("type") == "tool_result":
                result = _text(part["content"])
    return next_turn([each["name"] for each in body.get("tools") or []], result)


def _block(turn: Turn) -> dict[str, Any]:
    if turn.tool:
        return {"type": "tool_use", "id": "toolu_1", "name": turn.tool, "input": turn.arguments}
    return {"type": "text", "text": turn.text}


def _reason(turn: Turn) -> str:
    return "tool_use" if turn.tool else "end_turn"


def _messages(body: dict[str, Any], turn: Turn) -> dict[str, Any]:
    sent, said = turn.tokens
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [_block(turn)],
        "stop_reason": _reason(turn),
        "stop_sequence": None,
        "usage": {"input_tokens": sent, "output_tokens": said},
    }


def _messages_stream(body: dict[str, Any], turn: Turn) -> Iterator[tuple[str, Any]]:
    sent, said = turn.tokens

    def event(kind: str, **fields: Any) -> tuple[str, Any]:
        return kind, {"type": kind, **fields}

    begun = {**_messages(body, turn), "content": [], "stop_reason": None}
    begun["usage"] = {"input_tokens": sent, "output_tokens": 1}
    yield event("message_start", message=begun)
    if turn.tool:
        empty: dict[str, Any] = {**_block(turn), "input": {}}
        whole, kind, key = json.dumps(turn.arguments), "input_json_delta", "partial_json"
    else:
        empty = {"type": "text", "text": ""}
        whole, kind, key = turn.text, "text_delta", "text"
    yield event("content_block_start", index=0, content_block=empty)
    for piece in (whole[:4], whole[4:]):
        yield event("content_block_delta", index=0, delta={"type": kind, key: piece})
    yield event("content_block_stop", index=0)
    ended = {"stop_reason": _reason(turn), "stop_sequence": None}
    yield event("message_delta", delta=ended, usage={"output_tokens": said})
    yield event("message_stop")


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        return "".join(_text(part.get("text", "")) for part in content if isinstance(part, dict))
    return json.dumps(content)


_APIS: dict[str, tuple[Callable[[dict[str, Any]], Turn], Any, Any]] = {
    "/chat/completions": (_chat_turn, _chat, _chat_stream),
    "/responses": (_responses_turn, _response, _responses_stream),
    "/messages": (_messages_turn, _messages, _messages_stream),
}
"""By the end of the path: what the model says next, said at once, and said as a stream."""
