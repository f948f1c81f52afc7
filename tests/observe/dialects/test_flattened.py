"""Flattened lists, OpenInference's and Traceloop's corners, and spans that make no sense."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ratchet.observe.dialects import normalise
from ratchet.observe.dialects.names import JSON_TEXT
from ratchet.types import SpanEvent
from tests.effort import calls
from tests.observe.dialects.model import call, messages, text


def test_numbers_with_holes_and_far_apart_are_in_order_and_cost_nothing_special() -> None:
    span = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.999999999999.message.content": "last",
        "llm.input_messages.1000000000.message.content": "third",
        "llm.input_messages.7.message.content": "second",
        "llm.input_messages.0.message.content": "first",
    }
    model = normalise("x", span)
    said = [each["parts"][0]["content"] for each in messages(model, "input")]
    assert said == ["first", "second", "third", "last"]


def test_values_of_unexpected_types_are_kept_as_text() -> None:
    span: dict[str, Any] = {
        "openinference.span.kind": ["LLM"],
        "llm.input_messages.0.message.role": 7,
        "llm.input_messages.0.message.content": {"a": 1},
        "llm.input_messages.1.message.tool_calls": "not a list",
        "llm.input_messages.1.message.tool_calls.0.tool_call.function.name": None,
        "llm.input_messages.1.message.tool_calls.0.tool_call.function.arguments": "{broken",
        "llm.token_count.prompt": "many",
        "llm.invocation_parameters": "[]",
        "llm.provider": 3,
        "traceloop.span.kind": {"a": 1},
        "llm.request.type": 5,
    }
    model = normalise("x", span)
    first, second = messages(model, "input")
    assert first == text("7", '{"a":1}')
    assert second["parts"] == [call(None, "", "{broken")]
    assert model["gen_ai.usage.input_tokens"] == "many"
    assert model["gen_ai.provider.name"] == 3


def test_kinds_of_openinference() -> None:
    for kind, operation in (
        ("LLM", "chat"),
        ("TOOL", "execute_tool"),
        ("AGENT", "invoke_agent"),
        ("RETRIEVER", "retrieval"),
        ("EMBEDDING", "embeddings"),
        ("RERANKER", "rerank"),
        ("GUARDRAIL", "guardrail"),
        ("EVALUATOR", "evaluate"),
        ("CHAIN", None),
        ("UNKNOWN", None),
    ):
        model = normalise("x", {"openinference.span.kind": kind})
        assert model.get("gen_ai.operation.name") == operation


def test_a_completion_without_a_chat() -> None:
    model = normalise(
        "x",
        {
            "openinference.span.kind": "LLM",
            "llm.prompts.0.prompt.text": "Once upon",
            "llm.choices.0.completion.text": " a time",
        },
    )
    assert model["gen_ai.operation.name"] == "text_completion"
    assert messages(model, "input") == [text("user", "Once upon")]
    assert messages(model, "output") == [text("assistant", " a time")]


def test_parts_of_a_message_in_openinference() -> None:
    at = "llm.input_messages.0.message.contents"
    span = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        f"{at}.0.message_content.type": "reasoning",
        f"{at}.0.message_content.text": "hm",
        f"{at}.1.message_content.type": "audio",
        f"{at}.1.message_content.audio.audio.url": "https://x.org/a.wav",
        f"{at}.1.message_content.audio.audio.mime_type": "audio/wav",
        f"{at}.2.message_content.type": "tool_use",
        f"{at}.2.message_content.id": "t",
    }
    (message,) = messages(normalise("x", span), "input")
    assert message["parts"] == [
        {"type": "reasoning", "content": "hm"},
        {
            "type": "uri",
            "modality": "audio",
            "mime_type": "audio/wav",
            "uri": "https://x.org/a.wav",
        },
        {"type": "tool_use", "id": "t"},
    ]


def test_anthropics_calls_in_node_say_their_system_prompt_and_each_tool_call_once() -> None:
    at = "llm.output_messages.0.message"
    span = {
        "openinference.span.kind": "LLM",
        "llm.invocation_parameters": '{"model": "m", "system": "You find rooms."}',
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Tuesday?",
        "llm.tools.0.tool.json_schema": json.dumps(
            {"name": "find_rooms", "input_schema": {"type": "object"}}
        ),
        f"{at}.role": "assistant",
        f"{at}.contents.0.message_content.type": "text",
        f"{at}.contents.0.message_content.text": "I look.",
        f"{at}.contents.1.message_content.type": "tool_use",
        f"{at}.contents.1.tool_call.id": "t1",
        f"{at}.tool_calls.0.tool_call.id": "t1",
        f"{at}.tool_calls.0.tool_call.function.name": "find_rooms",
        f"{at}.tool_calls.0.tool_call.function.arguments": '{"day": "tuesday"}',
    }
    model = normalise("x", span)
    assert json.loads(model["gen_ai.system_instructions"]) == [
        {"type": "text", "content": "You find rooms."}
    ]
    (answer,) = messages(model, "output")
    assert answer["parts"] == [
        {"type": "text", "content": "I look."},
        call("t1", "find_rooms", {"day": "tuesday"}),
    ]
    (tool,) = json.loads(model["gen_ai.tool.definitions"])
    assert tool == {"type": "function", "name": "find_rooms", "parameters": {"type": "object"}}
    # Where it is a message already it is not said twice.
    span["llm.input_messages.0.message.role"] = "system"
    assert "gen_ai.system_instructions" not in normalise("x", span)


def test_text_that_is_nested_beyond_reason_stays_text() -> None:
    for nested in ("[" * 100_000, "[" * 900 + "]" * 900, '[{"type":"text","a":' * 5000):
        span = {
            "openinference.span.kind": "TOOL",
            "llm.input_messages.0.message.content": nested,
            "llm.input_messages.0.message.tool_calls.0.tool_call.function.arguments": nested,
            "input.value": nested,
            "input.mime_type": "application/json",
            "traceloop.entity.input": nested,
            "traceloop.entity.name": "n",
            "gen_ai.prompt": nested,
            "gen_ai.system": "openai",
        }
        model = normalise("x", span)
        json.loads(model["gen_ai.input.messages"])


def test_a_span_of_no_dialect_is_handed_back_at_once() -> None:
    span = {f"http.attribute.{number}": number for number in range(12)}
    assert normalise("GET /", span) is span
    assert calls(lambda: normalise("GET /", span)) <= 2 * len(span)


WORDS = st.sampled_from(
    [
        "openinference.span.kind", "llm.model_name", "input.value", "output.value", "llm.provider",
        "llm.invocation_parameters", "llm.finish_reason", "input.mime_type", "tool.parameters",
        "llm.input_messages.0.message.role", "llm.input_messages.0.message.content",
        "llm.input_messages.0.message.tool_calls.1.tool_call.function.arguments",
        "llm.input_messages.0.message.contents.0.message_content.image.image.url",
        "llm.output_messages.3.message.contents.0.message_content.type",
        "llm.tools.0.tool.json_schema",
        "retrieval.documents.0.document.metadata", "embedding.embeddings.0.embedding.vector",
        "gen_ai.system", "gen_ai.prompt", "gen_ai.completion", "gen_ai.input.messages",
        "gen_ai.prompt.0.role", "gen_ai.prompt.0.content", "gen_ai.prompt.0.tool_calls.0.arguments",
        "gen_ai.completion.0.content", "gen_ai.completion.0.finish_reason", "traceloop.span.kind",
        "traceloop.entity.name", "traceloop.entity.input", "traceloop.entity.output",
        "llm.request.type", "llm.request.functions.0.parameters", "llm.is_streaming",
    ]
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        [
            "LLM", "TOOL", "tool", "chat", '{"model": null, "stop": 3}', "[{}]", '[{"role": 1}]',
            '[{"type": "text"}]', '[{"type": "image", "source": {}}]', '{"inputs": 1, "tags": 2}',
            '{"kwargs": {}, "args": 0}', '[{"type":"image_url","image_url":{}}]', "data:,", "[1",
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)  # fmt: skip
EVENTS = st.lists(
    st.builds(
        SpanEvent,
        st.sampled_from(
            ["gen_ai.user.message", "gen_ai.choice", "gen_ai.tool.message", "gen_ai.content.prompt",
             "gen_ai.client.inference.operation.details", "exception", ""]
        ),
        st.just(1),
        st.dictionaries(
            st.sampled_from(
                ["content", "role", "gen_ai.event.content", "message", "finish_reason", "id",
                 "tool_calls", "gen_ai.prompt", "gen_ai.input.messages"]
            ),
            VALUES,
            max_size=4,
        ),
    ),
    max_size=3,
)  # fmt: skip


@given(st.dictionaries(WORDS | st.text(max_size=30), VALUES, max_size=12), EVENTS)
def test_whatever_a_span_says_nothing_of_it_is_lost(
    attributes: dict[str, Any], events: list[SpanEvent]
) -> None:
    model = normalise("x", attributes, events)
    for key, value in attributes.items():
        assert model[key] is value or key in JSON_TEXT
    for key in JSON_TEXT.intersection(model):
        assert isinstance(model[key], str)
    if any(event.name.endswith(".details") for event in events):
        return  # its attributes are lifted as they are
    for side in ("input", "output"):
        if f"gen_ai.{side}.messages" in model.keys() - attributes.keys():
            for message in messages(model, side):
                assert isinstance(message["role"], str)
                assert isinstance(message["parts"], list)
