"""The same conversation, as five instrumentations wrote it down, reads the same in the model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.observe.dialects.conftest import Captured
from tests.observe.dialects.model import answer, call, messages, text

SENT = [
    text("system", "Be brief."),
    text("user", "Weather in Paris?"),
    {"role": "assistant", "parts": [call("call_1", "get_weather", {"city": "Paris"})]},
    {"role": "tool", "parts": [answer("call_1", "12 C")]},
    {
        "role": "user",
        "parts": [
            {"type": "text", "content": "And here?"},
            {
                "type": "uri",
                "modality": "image",
                "mime_type": None,
                "uri": "https://x.org/a.png",
            },
        ],
    },
]
TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.mark.parametrize(
    ("file", "name", "reason"),
    [
        ("openinference_openai", "ChatCompletion", "tool_calls"),
        ("traceloop_openai", "openai.chat", "tool_calls"),
        ("traceloop_openai_current", "openai.chat", "tool_call"),
    ],
)
def test_a_chat_call_reads_the_same_in_each_dialect(
    captured: Captured, file: str, name: str, reason: str
) -> None:
    (model,) = captured(file, name)
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.request.temperature": 0.2,
        "gen_ai.request.max_tokens": 100,
        "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
        "gen_ai.response.finish_reasons": [reason],
        "gen_ai.usage.input_tokens": 42,
        "gen_ai.usage.output_tokens": 17,
        "gen_ai.usage.cache_read.input_tokens": 8,
    }
    assert {key: model.get(key) for key in expected} == expected
    if file != "traceloop_openai":  # which knew no tokens of thinking
        assert model["gen_ai.usage.reasoning.output_tokens"] == 3
    assert json.loads(model["gen_ai.tool.definitions"]) == [TOOL]
    asked = {
        "role": "assistant",
        "parts": [call("call_2", "get_weather", {"city": "Rome"})],
        "finish_reason": reason,
    }
    assert messages(model, "output") == [asked]
    sent = messages(model, "input")
    assert sent[:4] == SENT[:4]
    if file != "traceloop_openai_current":  # which writes this message of its own accord
        assert sent[4] == SENT[4]


def test_embeddings(captured: Captured) -> None:
    (theirs,) = captured("openinference_openai", "CreateEmbeddings")
    assert theirs["gen_ai.operation.name"] == "embeddings"
    assert theirs["gen_ai.request.model"] == "text-embedding-3-small"
    assert theirs["gen_ai.embeddings.dimension.count"] == 2
    assert json.loads(theirs["ratchet.input"]) == ["hello world"]
    assert "ratchet.output" not in theirs, "vectors are in the original attributes"
    (other,) = captured("traceloop_openai", "openai.embeddings")
    assert other["gen_ai.operation.name"] == "embeddings"
    assert messages(other, "input") == [text("user", "hello world")]


def test_a_langchain_agent_in_openinference(captured: Captured) -> None:
    file = "openinference_langchain"
    (agent,) = captured(file, "agent")
    assert agent["gen_ai.operation.name"] == "invoke_agent"
    assert agent["gen_ai.agent.name"] == "agent"
    assert (agent["ratchet.input"], agent["ratchet.output"]) == ('"Weather?"', '"12 C"')
    (tool,) = captured(file, "get_weather")
    assert tool["gen_ai.operation.name"] == "execute_tool"
    assert tool["gen_ai.tool.name"] == "get_weather"
    assert tool["gen_ai.tool.description"] == "Weather of a city."
    assert tool["gen_ai.tool.call.arguments"] == '"Rome"'
    assert tool["gen_ai.tool.call.result"] == '"12 C in Rome"'
    (retriever,) = captured(file, "R")
    assert retriever["gen_ai.operation.name"] == "retrieval"
    assert retriever["gen_ai.retrieval.query.text"] == "Weather?"
    assert json.loads(retriever["gen_ai.retrieval.documents"]) == [
        {"content": "Lisbon is warm.", "metadata": {"source": "a.md"}},
        {"content": "Oslo is cold.", "metadata": {"source": "b.md"}},
    ]
    first, second = captured(file, "GenericFakeChatModel")
    assert messages(first, "output") == [
        {"role": "assistant", "parts": [call("c1", "get_weather", {"city": "Rome"})]}
    ]
    assert messages(second, "input") == [
        text("user", "Weather?"),
        {"role": "assistant", "parts": [call("c1", "get_weather", {"city": "Rome"})]},
        {"role": "tool", "parts": [answer("c1", "12 C in Rome")]},
    ]


def test_a_langchain_agent_in_traceloop(captured: Captured) -> None:
    file = "traceloop_langchain"
    (workflow,) = captured(file, "agent.workflow")
    assert workflow["gen_ai.operation.name"] == "invoke_workflow"
    assert workflow["gen_ai.workflow.name"] == "agent"
    assert (workflow["ratchet.input"], workflow["ratchet.output"]) == ('"Weather?"', '"12 C"')
    (tool,) = captured(file, "get_weather.tool")
    assert tool["gen_ai.tool.name"] == "get_weather"
    assert tool["gen_ai.tool.call.arguments"] == '{"city":"Rome"}'
    assert tool["gen_ai.tool.call.result"] == '"12 C in Rome"'
    second, _ = captured(file, "GenericFakeChatModel.chat")
    assert second["gen_ai.provider.name"] == "langchain"
    assert messages(second, "input")[2] == {
        "role": "tool",
        "parts": [answer("c1", "12 C in Rome")],
    }
    assert messages(second, "output") == [text("assistant", "12 C")]


def test_traceloops_own_decorators(captured: Captured) -> None:
    def one(name: str) -> dict[str, Any]:
        (model,) = captured("traceloop_sdk", name)
        return model

    assert one("forecaster.agent")["gen_ai.operation.name"] == "invoke_agent"
    assert one("forecaster.agent")["gen_ai.agent.name"] == "forecaster"
    assert one("weather.workflow")["gen_ai.conversation.id"] == "s-7"
    task = one("clean.task")
    assert "gen_ai.operation.name" not in task
    assert json.loads(task["ratchet.input"]) == {"args": [" Rome? "], "kwargs": {}}
    assert task["ratchet.output"] == '"Rome?"'
    tool = one("get_weather.tool")
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {
        "args": ["Rome"],
        "kwargs": {"unit": "C"},
    }
    assert json.loads(tool["gen_ai.tool.call.result"]) == {"city": "Rome", "temp": 12}
