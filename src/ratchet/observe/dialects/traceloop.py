"""Traceloop (OpenLLMetry): `traceloop.*`, `gen_ai.prompt.N.*`, `gen_ai.completion.N.*`, `llm.*`.

Sources: opentelemetry-semantic-conventions-ai 0.4 and 0.5, opentelemetry-instrumentation-openai
0.40. From 0.60 on, its instrumentations mostly follow the conventions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.observe.dialects import messages as form
from ratchet.observe.dialects import names
from ratchet.observe.dialects.flattened import Layout, in_order
from ratchet.types import SpanEvent

MARKERS = frozenset(
    {
        "traceloop.span.kind",
        "traceloop.entity.name",
        "traceloop.workflow.name",
        "llm.request.type",
        "gen_ai.prompt.0.content",
        "gen_ai.prompt.0.role",
        "gen_ai.completion.0.content",
        "gen_ai.completion.0.role",
    }
)
"""Attributes that identify this dialect."""

OPERATIONS = {
    "chat": "chat",
    "completion": "text_completion",
    "embedding": "embeddings",
    "rerank": "rerank",
}
"""Operations by type of request."""

KINDS = {"workflow": "invoke_workflow", "agent": "invoke_agent", "tool": "execute_tool"}
"""Operations by kind of span. A task is a plain step."""

NAMED = {"workflow": names.WORKFLOW_NAME, "agent": names.AGENT_NAME, "tool": names.TOOL_NAME}
"""Attribute of the entity's name, by kind of span."""

RENAMED = {
    "llm.top_k": "gen_ai.request.top_k",
    "llm.frequency_penalty": "gen_ai.request.frequency_penalty",
    "llm.presence_penalty": "gen_ai.request.presence_penalty",
    "llm.chat.stop_sequences": "gen_ai.request.stop_sequences",
    "llm.is_streaming": "gen_ai.request.stream",
    "llm.usage.reasoning_tokens": names.REASONING_TOKENS,
    "traceloop.workflow.name": names.WORKFLOW_NAME,
    "traceloop.association.properties.conversation_id": names.CONVERSATION,
    "traceloop.association.properties.session_id": names.CONVERSATION,
    "traceloop.association.properties.thread_id": names.CONVERSATION,
    "traceloop.association.properties.chat_id": names.CONVERSATION,
}
"""Names with the same meaning; of several for the same name, the first wins."""

_LAYOUT = Layout(
    {"gen_ai.prompt": "", "gen_ai.completion": "", "llm.request.functions": ""},
    {"tool_calls": ""},
)


def read(name: str, attributes: Mapping[str, Any], events: Sequence[SpanEvent]) -> dict[str, Any]:
    """Attributes of the span model that this dialect provides.

    Args:
        name: The span's name.
        attributes: Its attributes.
        events: Its events.
    """
    normalised: dict[str, Any] = {}
    for key, normal in RENAMED.items():
        if key in attributes:
            normalised.setdefault(normal, attributes[key])
    kind = attributes.get("traceloop.span.kind")
    entity = attributes.get("traceloop.entity.name")
    if isinstance(kind, str) and kind in KINDS:
        normalised[names.OPERATION] = KINDS[kind]
        normalised[NAMED[kind]] = entity or name
    else:
        request_type = attributes.get("llm.request.type")
        if isinstance(request_type, str) and request_type in OPERATIONS:
            normalised[names.OPERATION] = OPERATIONS[request_type]
    is_tool = kind == "tool"
    if "traceloop.entity.input" in attributes:
        entity_input = _given(attributes["traceloop.entity.input"])
        normalised[names.TOOL_ARGUMENTS if is_tool else names.INPUT] = entity_input
    if "traceloop.entity.output" in attributes:
        returned = _returned(attributes["traceloop.entity.output"])
        normalised[names.TOOL_RESULT if is_tool else names.OUTPUT] = returned
    lists = _LAYOUT.gather(attributes)
    if lists:
        _read_lists(normalised, lists)
    reason = attributes.get(
        "llm.response.finish_reason", attributes.get("llm.response.stop_reason")
    )
    if reason:
        normalised.setdefault(names.FINISH_REASONS, [form.as_text(reason)])
    return normalised


def _given(value: Any) -> str:
    """The input as JSON text, without the wrapper of the framework's callbacks."""
    wrapper = form.decoded(value)
    if isinstance(wrapper, dict):
        if "inputs" in wrapper and "tags" in wrapper:  # LangChain
            return form.json_text(wrapper["inputs"])
        if wrapper.keys() == {"args", "kwargs"} and not wrapper["args"]:  # their own decorators
            return form.json_text(wrapper["kwargs"])
    return form.as_json(value)


def _returned(value: Any) -> str:
    """The output as JSON text, without its wrapper."""
    wrapper = form.decoded(value)
    if isinstance(wrapper, dict) and isinstance(wrapper.get("kwargs"), dict):
        for key in ("output", "outputs"):
            if wrapper.keys() == {key, "kwargs"}:
                return form.json_text(wrapper[key])
    return form.as_json(value)


def _read_lists(normalised: dict[str, Any], lists: dict[str, Any]) -> None:
    if "gen_ai.prompt" in lists:
        sent = [_message(message, "user") for message in in_order(lists["gen_ai.prompt"])]
        normalised[names.INPUT_MESSAGES] = form.json_text(sent)
    if "gen_ai.completion" in lists:
        output_messages = [
            _message(message, "assistant") for message in in_order(lists["gen_ai.completion"])
        ]
        normalised[names.OUTPUT_MESSAGES] = form.json_text(output_messages)
        reasons = [
            message["finish_reason"] for message in output_messages if "finish_reason" in message
        ]
        if reasons:
            normalised[names.FINISH_REASONS] = reasons
    if "llm.request.functions" in lists:
        tools = [_tool(tool) for tool in in_order(lists["llm.request.functions"])]
        normalised[names.TOOL_DEFINITIONS] = form.json_text(tools)


def _message(message: dict[str, Any], default_role: str) -> form.Message:
    role = message.get("role")
    if role == "unknown":
        role = None
    if role == "tool" or "tool_call_id" in message:
        return form.message(
            role, "tool", [form.tool_result(message.get("tool_call_id"), message.get("content"))]
        )
    parts = form.chat_parts(message.get("content"))
    if message.get("refusal"):
        parts.append(form.text(message["refusal"]))
    for call in in_order(message.get("tool_calls")):
        parts.append(form.tool_call(call.get("id"), call.get("name"), call.get("arguments")))
    if "function_call.name" in message:
        arguments = message.get("function_call.arguments")
        parts.append(form.tool_call(None, message["function_call.name"], arguments))
    return form.message(role, default_role, parts, message.get("finish_reason"))


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    definition: dict[str, Any] = {"type": "function"}
    for key in ("name", "description", "parameters"):
        if key in tool:
            definition[key] = tool[key]
    # Some Traceloop instrumentations write `input_schema`.
    parameters = definition.get("parameters", tool.get("input_schema"))
    if parameters is not None:
        definition["parameters"] = form.decoded(parameters)
    return definition
