"""What a call leaves behind: token ids, traces, streams that were cut, bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ratchet.observe.model_apis import MODEL_APIS, chat, responses
from ratchet.observe.model_apis.bounded_json import JSON_LIMIT, TEXT_LIMIT, GrowingText
from ratchet.server.gateway.sse import EVENT_LIMIT, EventStreamParser
from tests.server.gateway.conftest import Site, exchange
from tests.server.gateway.upstreams import StubUpstream


def ask(site: Site, **headers: str) -> None:
    exchange(site, "/gateway/bot/openai/v1/chat/completions", headers=headers)


# Traces


def test_a_call_joins_the_trace_that_the_client_names(site: Site, upstream: StubUpstream) -> None:
    upstream.answers({})
    ask(site, traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
    span = site.span()
    assert (span.trace_id, span.parent_id) == ("a" * 32, "b" * 16)
    # It passes on, as it would without a gateway.
    assert upstream.seen[0].header("traceparent") == f"00-{'a' * 32}-{'b' * 16}-01"


@pytest.mark.parametrize(
    "header",
    [
        f"00-{'0' * 32}-{'b' * 16}-01",
        f"00-{'a' * 32}-{'0' * 16}-01",
        f"ff-{'a' * 32}-{'b' * 16}-01",
        f"00-{'a' * 32}-{'b' * 16}-01-more",
        f"00-{'A' * 32}-{'b' * 16}-01",
        "nonsense",
        "\xff\xfe",
    ],
)
def test_an_invalid_trace_context_is_ignored(
    site: Site, upstream: StubUpstream, header: str
) -> None:
    upstream.answers({})
    ask(site, traceparent=header)
    span = site.span()
    assert span.parent_id is None
    assert span.trace_id not in ("a" * 32, "0" * 32)


# Streams


def test_a_cut_stream_of_responses_is_recorded_as_far_as_it_came() -> None:
    assembly = responses.assembly()
    item = {"type": "function_call", "call_id": "c", "name": "weather", "arguments": ""}
    for each in (
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Hm."},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "Let "},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "me"},
        {"type": "response.output_item.added", "output_index": 2, "item": item},
        {
            "type": "response.function_call_arguments.delta",
            "output_index": 2,
            "delta": '{"city": "Par',
        },
    ):
        assembly.add(each)
    found = responses.response_attributes(assembly.response())
    assert found["gen_ai.response.id"] == "resp_1"
    assert json.loads(found["gen_ai.output.messages"])[0]["parts"] == [
        {"type": "reasoning", "content": "Hm."},
        {"type": "text", "content": "Let me"},
        {"type": "tool_call", "id": "c", "name": "weather", "arguments": '{"city": "Par'},
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_found_however_the_bytes_are_cut(size: int) -> None:
    stream = (
        b": hi\r\ndata: one\r\n\r\nevent: x\ndata:two\nid: 1\ndata: more\n\n\n\ndata: \n\ndata: cut"
    )
    events = EventStreamParser()
    found = [
        data
        for start in range(0, len(stream), size)
        for data in events.feed(stream[start : start + size])
    ]
    assert found == [b"one", b"two\nmore", b""]


def test_an_event_that_is_too_long_is_skipped_and_the_next_one_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert EVENT_LIMIT >= 1_000_000
    monkeypatch.setattr("ratchet.server.gateway.sse.EVENT_LIMIT", 100)
    events = EventStreamParser()
    found = events.feed(b"data: a\n\ndata: ")
    for _ in range(50):
        found += events.feed(b"x" * 10)
    found += events.feed(b"\ndata: rest\n\ndata: b\n\n")
    assert found == [b"a", b"b"]
    assert events.skipped == 1


# Bounds


def test_a_text_that_grows_without_end_is_kept_to_its_limit() -> None:
    growing = GrowingText()
    for _ in range(TEXT_LIMIT + 5):
        growing.add("x")
    growing.add(None)
    assert growing.text().endswith("x… [5 more characters]")
    found = chat.response_attributes({"choices": [{"message": {"content": growing.text()}}]})
    part = json.loads(found["gen_ai.output.messages"])[0]["parts"][0]
    assert part["content"].count("more characters") == 1


@pytest.mark.parametrize("dialect", MODEL_APIS.values(), ids=[path for _, path in MODEL_APIS])
def test_many_large_messages_stay_within_the_limit(dialect: Any) -> None:
    large = [{"role": "user", "content": "y" * 10_000} for _ in range(2_000)]
    tools = [{"type": "function", "name": "t", "description": "z" * 10_000}] * 200
    texts = ["y" * 10_000] * 2_000
    request = {
        "messages": large,
        "input": texts if dialect.OPERATION == "embeddings" else large,
        "prompt": texts,
        "tools": tools,
        "system": [{"type": "text", "text": "y" * 10_000}] * 100,
    }
    for value in dialect.request_attributes(request).values():
        if isinstance(value, str):
            assert len(value) <= JSON_LIMIT
            assert isinstance(json.loads(value), list)


@pytest.mark.parametrize(("depth", "kind"), [(700, dict), (1_500, str)])
def test_an_argument_that_is_nested_too_deeply_stands_as_text(depth: int, kind: type) -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": '{"a":' * depth + "1" + "}" * depth}}
    found = chat.response_attributes({"choices": [{"message": {"tool_calls": [call]}}]})
    (message,) = json.loads(found["gen_ai.output.messages"])
    (part,) = message["parts"]
    assert (part["type"], part["name"]) == ("tool_call", "f")
    assert isinstance(part["arguments"], kind)
