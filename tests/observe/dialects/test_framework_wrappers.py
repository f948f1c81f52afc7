"""What frameworks wrap around names, arguments and results is taken off."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ratchet.observe.dialects import normalise

TOOL = {"openinference.span.kind": "TOOL", "tool.name": "get_weather"}


@pytest.mark.parametrize(
    ("value", "arguments"),
    [
        ('{"kwargs": {"city": "Paris"}}', {"city": "Paris"}),
        (
            '{"args": [], "sanitize_inputs_outputs": true, "kwargs": {"city": "Paris"}}',
            {"city": "Paris"},
        ),
        ('{"args": [1], "kwargs": {"x": 2}}', {"args": [1], "kwargs": {"x": 2}}),
        ('{"kwargs": "mine", "city": "Paris"}', {"kwargs": "mine", "city": "Paris"}),
        ("Paris", "Paris"),
        ("12", "12"),
    ],
)
def test_arguments_of_a_tool_come_without_the_call_around_them(value: str, arguments: Any) -> None:
    model = normalise("x", {**TOOL, "input.value": value})
    assert json.loads(model["gen_ai.tool.call.arguments"]) == arguments


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ('{"type": "tool", "data": {"content": "18 C", "artifact": null}}', "18 C"),
        ('{"type": "tool", "data": "mine"}', {"type": "tool", "data": "mine"}),
        ('{"blocks": [], "tool_name": "x", "raw_output": {"t": 18}}', {"t": 18}),
        ('"18 C"', "18 C"),
        ("18 C", "18 C"),
        ("18", "18"),
        ('{"t": 18}', {"t": 18}),
    ],
)
def test_a_tools_result_comes_without_the_message_around_it(value: str, result: Any) -> None:
    model = normalise("x", {**TOOL, "output.value": value})
    assert json.loads(model["gen_ai.tool.call.result"]) == result


@pytest.mark.parametrize(
    ("name", "agent"),
    [
        ("LangGraph", "LangGraph"),
        ("ReAct.forward", "ReAct"),
        ("FunctionAgent.run", "FunctionAgent"),
        ("AgentWorkflow.run", "AgentWorkflow"),
        ("Predict.forward", None),
        ("MyFlow.run", None),
    ],
)
def test_runs_of_agents_are_known_by_their_names(name: str, agent: str | None) -> None:
    model = normalise(name, {"openinference.span.kind": "CHAIN"})
    assert model.get("gen_ai.agent.name") == agent
    assert model.get("gen_ai.operation.name") == (agent and "invoke_agent")


def test_getting_a_call_ready_is_no_call() -> None:
    attributes = {"openinference.span.kind": "LLM", "llm.model_name": "m"}
    assert "gen_ai.operation.name" not in normalise("OpenAI._prepare_chat_with_tools", attributes)
    assert normalise("OpenAI.chat", attributes)["gen_ai.operation.name"] == "chat"


def test_a_text_that_is_told_twice_is_there_once() -> None:
    prefix = "llm.output_messages.0.message"
    model = normalise(
        "response",
        {
            "openinference.span.kind": "LLM",
            f"{prefix}.role": "assistant",
            f"{prefix}.content": "18 C",
            f"{prefix}.contents.0.message_content.type": "text",
            f"{prefix}.contents.0.message_content.text": "18 C",
        },
    )
    (message,) = json.loads(model["gen_ai.output.messages"])
    assert message["parts"] == [{"type": "text", "content": "18 C"}]


def test_what_autogens_tools_answered_is_found() -> None:
    prefix = "llm.input_messages.1"
    model = normalise(
        "create",
        {
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "Weather?",
            f"{prefix}.message.role": "function",
            f"{prefix}.function.0": '{"content": "18 C", "call_id": "call_1"}',
            f"{prefix}.function.1": '{"content": "sunny", "call_id": "call_2"}',
        },
    )
    _, answered = json.loads(model["gen_ai.input.messages"])
    assert answered["role"] == "tool"
    assert [(part["id"], part["response"]) for part in answered["parts"]] == [
        ("call_1", "18 C"),
        ("call_2", "sunny"),
    ]


@pytest.mark.parametrize("key", ["gen_ai.input.messages", "gen_ai.output.messages"])
def test_messages_of_the_chat_apis_get_parts(key: str) -> None:
    said = [
        {"role": "assistant", "content": "18 C"},
        {"role": "tool", "content": "x", "tool_call_id": "1"},
    ]
    model = normalise("chat", {"gen_ai.operation.name": "chat", key: json.dumps(said)})
    first, second = json.loads(model[key])
    assert first == {"role": "assistant", "parts": [{"type": "text", "content": "18 C"}]}
    assert second["parts"] == [{"type": "tool_call_response", "id": "1", "response": "x"}]


@pytest.mark.parametrize("text", ["[]", "no json", '[{"parts": []}]', '[{"x": 1}]', "[1, 2]", "[{"])
def test_messages_of_no_known_form_stay_as_they_are(text: str) -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": text}
    assert normalise("chat", attributes)["gen_ai.input.messages"] == text
