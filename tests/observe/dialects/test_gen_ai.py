"""`gen_ai.*`: the conventions' current names, and what older versions of them wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ratchet.observe.dialects import normalise
from ratchet.types import SpanEvent
from tests.observe.dialects.model import answer, call, messages, text


def event(name: str, **attributes: Any) -> SpanEvent:
    return SpanEvent(name, 1, {key.replace("__", "."): value for key, value in attributes.items()})


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("az.ai.inference", "azure.ai.inference"),
        ("vertex_ai", "gcp.vertex_ai"),
        ("OpenAI", "openai"),
        ("xai", "x_ai"),
        ("Something New", "something new"),
        (7, 7),
    ],
)
def test_older_names_of_providers_are_brought_up_to_date(said: object, name: object) -> None:
    assert normalise("x", {"gen_ai.system": said})["gen_ai.provider.name"] == name


def test_structured_values_become_json_text() -> None:
    sent = [{"role": "user", "parts": [{"type": "text", "content": "hé"}]}]
    span = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.input.messages": sent,
        "gen_ai.tool.call.arguments": {"city": "Rome"},
        "gen_ai.tool.call.result": "plain",
    }
    model = normalise("x", span)
    assert messages(model, "input") == sent
    assert model["gen_ai.tool.call.arguments"] == '{"city":"Rome"}'
    assert model["gen_ai.tool.call.result"] == "plain"
    assert span["gen_ai.input.messages"] is sent, "what was handed in was changed"


def test_messages_in_events_with_one_attribute_for_each_field() -> None:
    model = normalise(
        "chat",
        {"gen_ai.system": "openai"},
        [
            event("gen_ai.system.message", content="Be brief."),
            event("gen_ai.user.message", content="Weather?"),
            event("other"),
            event("gen_ai.choice", message='{"content": "12 C"}', finish_reason="stop"),
        ],
    )
    assert messages(model, "input") == [text("system", "Be brief."), text("user", "Weather?")]
    assert messages(model, "output") == [text("assistant", "12 C", finish_reason="stop")]
    assert model["gen_ai.response.finish_reasons"] == ["stop"]


def test_messages_in_events_with_one_attribute_for_all() -> None:
    tool_call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
    }

    def content(name: str, **body: Any) -> SpanEvent:
        return event(name, gen_ai__event__content=json.dumps(body))

    model = normalise(
        "chat",
        {"gen_ai.system": "az.ai.inference"},
        [
            content("gen_ai.user.message", role="user", content="Weather?"),
            content("gen_ai.assistant.message", role="assistant", tool_calls=[tool_call]),
            content("gen_ai.tool.message", role="tool", id="c1", content="12 C"),
            content(
                "gen_ai.choice",
                message={"content": None, "tool_calls": [tool_call]},
                finish_reason="tool_calls",
                index=0,
            ),
        ],
    )
    asked = [call("c1", "get_weather", {"city": "Rome"})]
    assert messages(model, "input") == [
        text("user", "Weather?"),
        {"role": "assistant", "parts": asked},
        {"role": "tool", "parts": [answer("c1", "12 C")]},
    ]
    assert messages(model, "output") == [
        {"role": "assistant", "parts": asked, "finish_reason": "tool_calls"}
    ]


def test_the_oldest_events_and_attributes() -> None:
    sent = '[{"role": "user", "content": "Weather?"}]'
    for attributes, events in (
        (
            {"gen_ai.prompt": sent, "gen_ai.completion": "12 C"},
            [],
        ),
        (
            {},
            [
                event("gen_ai.content.prompt", gen_ai__prompt=sent),
                event("gen_ai.content.completion", gen_ai__completion="12 C"),
            ],
        ),
    ):
        model = normalise("x", {"gen_ai.system": "openai", **attributes}, events)
        assert messages(model, "input") == [text("user", "Weather?")]
        assert messages(model, "output") == [text("assistant", "12 C")]


def test_attributes_of_the_details_event_are_lifted() -> None:
    details = event(
        "gen_ai.client.inference.operation.details",
        gen_ai__input__messages=[{"role": "user", "parts": []}],
        gen_ai__request__model="m",
        other="x",
    )
    model = normalise("chat", {"gen_ai.operation.name": "chat"}, [details])
    assert messages(model, "input") == [{"role": "user", "parts": []}]
    assert model["gen_ai.request.model"] == "m"
    assert "other" not in model


def test_parts_of_the_chat_apis() -> None:
    content = [
        {"type": "text", "text": "a"},
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5000}},
        {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}},
        {"type": "tool_result", "tool_use_id": "t1", "content": "ok"},
        {"type": "something_new", "x": 1},
        "bare",
    ]
    span = {
        "gen_ai.prompt": json.dumps([{"role": "user", "content": content}]),
        "gen_ai.system": "a",
    }
    (message,) = messages(normalise("x", span), "input")
    assert message["parts"] == [
        {"type": "text", "content": "a"},
        {"type": "reasoning", "content": "hm"},
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "QQ=="},
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": None},
        {"type": "blob", "modality": "audio", "mime_type": "audio/wav", "content": "QQ=="},
        call("t1", "f", {"x": 1}),
        answer("t1", "ok"),
        {"type": "something_new", "x": 1},
        {"type": "text", "content": "bare"},
    ]
