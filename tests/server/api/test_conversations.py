"""Conversations over HTTP and through the client."""

from __future__ import annotations

import json
from typing import Any

from ratchet._http import httpx2
from ratchet.client import Client
from ratchet.types import Span, SpanRecord
from tests.serving import RunningServer

SECOND = 1_000_000_000


def add(server: RunningServer, number: int, conversation: str, **fields: Any) -> None:
    """A call of a model, in a trace of its own."""
    history = [{"role": "user", "content": f"question {n}"} for n in range(number + 1)]
    attributes = {
        "gen_ai.conversation.id": conversation,
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(history),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": "yes"}]),
    }
    span = Span(
        trace_id=f"{number + 1:032x}",
        span_id=f"{number + 1:016x}",
        name="chat",
        start_ns=(number + 1) * SECOND,
        end_ns=(number + 2) * SECOND,
        attributes=attributes,
        **fields,
    )
    with Client(server.url) as client:
        client.spans.put([SpanRecord(span=span, agent="bot")])


def test_conversations_are_listed_read_and_followed_step_by_step(
    server: RunningServer, http: httpx2.Client
) -> None:
    for number in range(3):
        add(server, number, "chat-1")
    add(server, 3, "chat-2")
    page = http.get("/v1/conversations", params={"limit": 1}).json()
    assert [one["id"] for one in page["conversations"]] == ["chat-2"]
    rest = http.get("/v1/conversations", params={"cursor": page["next_cursor"]}).json()
    assert [(one["id"], one["turns"]) for one in rest["conversations"]] == [("chat-1", 3)]
    log = http.get("/v1/conversations/chat-1").json()
    said = [(one["role"], one["parts"][0]["content"]) for one in log["messages"]]
    assert said[:2] == [("user", "question 0"), ("assistant", "yes")]
    assert [words for role, words in said if role == "user"] == [f"question {n}" for n in range(3)]
    steps = http.get("/v1/conversations/chat-1/operations", params={"limit": 2}).json()
    assert [one["kind"] for one in steps["operations"]] == ["chat", "chat"]
    more = http.get(
        "/v1/conversations/chat-1/operations", params={"cursor": steps["next_cursor"]}
    ).json()
    assert (len(more["operations"]), more["next_cursor"]) == (1, None)
