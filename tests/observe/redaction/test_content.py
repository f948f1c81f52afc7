"""Spans without content keep their structure, and nothing that was said."""

from __future__ import annotations

import json

import pytest

from ratchet.observe.redaction import RedactionRules, Redactor, without_content
from ratchet.types import Span, SpanEvent

SAID = "Book me a flight to Lisbon"


def full() -> Span:
    messages = [
        {"role": "user", "parts": [{"type": "text", "content": SAID}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "find", "arguments": {"q": SAID}}],
            "finish_reason": "tool_calls",
        },
    ]
    return Span(
        trace_id="1" * 32,
        span_id="2" * 16,
        parent_id="3" * 16,
        name="chat gpt-4o-mini",
        start_ns=10,
        end_ns=20,
        status="error",
        message=SAID,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "gpt-4o-mini",
            "gen_ai.usage.input_tokens": 12,
            "gen_ai.response.finish_reasons": ["tool_calls"],
            "gen_ai.conversation.id": "c-7",
            "gen_ai.input.messages": json.dumps(messages),
            "gen_ai.system_instructions": SAID,
            "gen_ai.tool.call.arguments": SAID,
            "ratchet.input": SAID,
            "llm.input_messages.0.message.content": SAID,
            "ratchet.token_ids": [[1, 2, 3]],
            "my.own.note": SAID,
            "service.name": "agent",
        },
        events=(SpanEvent("exception", 15, {"exception.type": "E", "exception.message": SAID}),),
    )


def test_structure_times_counts_and_models_are_kept() -> None:
    left = without_content(full())
    assert (left.trace_id, left.span_id, left.parent_id) == ("1" * 32, "2" * 16, "3" * 16)
    assert (left.name, left.start_ns, left.end_ns, left.status) == (
        "chat gpt-4o-mini",
        10,
        20,
        "error",
    )
    assert left.attributes["gen_ai.usage.input_tokens"] == 12
    assert left.attributes["gen_ai.conversation.id"] == "c-7"
    assert left.attributes["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert left.attributes["ratchet.content.removed"] == 6
    assert left.events[0].attributes["exception.type"] == "E"
    assert json.loads(left.attributes["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "characters": len(SAID)}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "tool_call", "id": "c1", "name": "find", "characters": len(SAID) + 8}
            ],
        },
    ]


@pytest.mark.parametrize("enabled", [True, False])
def test_a_redactor_may_keep_structure_alone_and_nothing_that_was_said(enabled: bool) -> None:
    redactor = Redactor(RedactionRules(enabled=enabled, capture_content=False))
    left = redactor.span(full())
    assert left == without_content(full()) == without_content(left)
    assert SAID not in repr(left)
    assert "[1, 2, 3]" not in repr(left)
