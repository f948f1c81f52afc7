"""A simulator in the place of a model: it follows two rules that its instructions may hold.

It speaks the streaming forms of OpenAI's chat completions and of Anthropic's messages. Asked about
a city it calls the tool `weather`; told what the tool said, it answers with it. It answers in
French when its instructions say so, and in English otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.server.gateway.upstreams import Seen, StubUpstream, Wire, chunk, event, stream_head


def model_simulator() -> StubUpstream:
    """A simulated model behind a real socket; close it at the end."""
    return StubUpstream(script=_answer)


def _answer(seen: Seen, wire: Wire) -> None:
    request = seen.json
    assert request["stream"] is True
    assert request["tools"]
    speak = _messages if seen.target.endswith("/messages") else _chat
    wire.send(stream_head())
    for piece in speak(request):
        wire.send(chunk(piece))
    wire.send(chunk(b""))


def _city(question: str) -> str:
    found = re.search(r"in (\w+)\?", question)
    assert found is not None, question
    return found[1]


def _sentence(instructions: str, city: str, weather: str) -> list[str]:
    french = "in French" in instructions
    return ["Il y a ", weather, " à ", f"{city}."] if french else [f"{city} has ", weather, "."]


def _chat(request: dict[str, Any]) -> Iterator[bytes]:
    messages = request["messages"]
    system, question, last = messages[0]["content"], messages[1]["content"], messages[-1]

    def piece(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return event({"id": "c1", "model": request["model"], "choices": [choice]})

    def call(**changes: Any) -> bytes:
        return piece({"tool_calls": [{"index": 0, **changes}]})

    yield piece({"role": "assistant", "content": ""})
    if last["role"] == "tool":
        for words in _sentence(system, _city(question), last["content"]):
            yield piece({"content": words})
        yield piece({}, "stop")
    else:
        yield call(id="call_1", type="function", function={"name": "weather", "arguments": ""})
        yield call(function={"arguments": '{"city": '})
        yield call(function={"arguments": f'"{_city(question)}"}}'})
        yield piece({}, "tool_calls")
    usage = {"prompt_tokens": 60, "completion_tokens": 12, "total_tokens": 72}
    yield event({"id": "c1", "model": request["model"], "choices": [], "usage": usage})
    yield event("[DONE]")


def _messages(request: dict[str, Any]) -> Iterator[bytes]:
    messages = request["messages"]
    system, question, last = request["system"], messages[0]["content"], messages[-1]["content"]

    def say(kind: str, **data: Any) -> bytes:
        return event({"type": kind, **data}, kind)

    def delta(kind: str, key: str, value: str) -> bytes:
        return say("content_block_delta", index=0, delta={"type": kind, key: value})

    message = {"id": "m1", "type": "message", "role": "assistant", "model": request["model"]}
    yield say(
        "message_start",
        message={
            **message,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 60, "output_tokens": 1},
        },
    )
    if isinstance(last, list):
        reason = "end_turn"
        yield say("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for words in _sentence(system, _city(question), last[0]["content"]):
            yield delta("text_delta", "text", words)
    else:
        reason = "tool_use"
        block = {"type": "tool_use", "id": "tool_1", "name": "weather", "input": {}}
        yield say("content_block_start", index=0, content_block=block)
        yield delta("input_json_delta", "partial_json", '{"city": ')
        yield delta("input_json_delta", "partial_json", f'"{_city(question)}"}}')
    yield say("content_block_stop", index=0)
    yield say(
        "message_delta",
        delta={"stop_reason": reason, "stop_sequence": None},
        usage={"output_tokens": 12},
    )
    yield say("message_stop")
