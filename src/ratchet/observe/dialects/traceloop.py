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
"""Names with the same meaning; the first of several for one name takes precedence."""

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
    found: dict[str, Any] = {}
    for key, normal in RENAMED.items():
        if key in attributes:
            found.setdefault(normal, attributes[key])
    kind = attributes.get("traceloop.span.kind")
    entity = attributes.get("traceloop.entity.name")
    if isinstance(kind, str) and kind in KINDS:
        found[names.OPERATION] = KINDS[kind]
        found[NAMED[kind]] = entity or name
    else:
        asked = attributes.get("llm.request.type")
        if isinstance(asked, str) and asked in OPERATIONS:
            found[names.OPERATION] = OPERATIONS[asked]
    is_tool = kind == "tool"
    if "traceloop.entity.input" in attributes:
        given = _given(attributes["traceloop.entity.input"])
        found[names.TOOL_ARGUMENTS if is_tool else names.INPUT] = given
    if "traceloop.entity.output" in attributes:
        returned = _returned(attributes["traceloop.entity.output"])
        found[names.TOOL_RESULT if is_tool else names.OUTPUT] = returned
    lists = _LAYOUT.gather(attributes)
    if lists:
        _read_lists(found, lists)
    reason = attributes.get(
        "llm.response.finish_reason", attributes.get("llm.response.stop_reason")
    )
    if reason:
        found.setdefault(names.FINISH_REASONS, [form.as_text(reason)])
    return found


def _given(value: Any) -> str:
    """The input as JSON text, without the wrapper of the framework's callbacks."""
    said = form.decoded(value)
    if isinstance(said, dict):
        if "inputs" in said and "tags" in said:  # LangChain
            return form.json_text(said["inputs"])
        if said.keys() == {"args", "kwargs"} and not said["args"]:  # their own decorators
            return form.json_text(said["kwargs"])
    return form.as_json(value)


def _returned(value: Any) -> str:
    """The output as JSON text, likewise."""
    said = form.decoded(value)
    if isinstance(said, dict) and isinstance(said.get("kwargs"), dict):
        for key in ("output", "outputs"):
            if said.keys() == {key, "kwargs"}:
                return form.json_text(said[key])
    return form.as_json(value)


def _read_lists(found: dict[str, Any], lists: dict[str, Any]) -> None:
    if "gen_ai.prompt" in lists:
        sent = [_message(each, "user") for each in in_order(lists["gen_ai.prompt"])]
        found[names.INPUT_MESSAGES] = form.json_text(sent)
    if "gen_ai.completion" in lists:
        said = [_message(each, "assistant") for each in in_order(lists["gen_ai.completion"])]
        found[names.OUTPUT_MESSAGES] = form.json_text(said)
        reasons = [each["finish_reason"] for each in said if "finish_reason" in each]
        if reasons:
            found[names.FINISH_REASONS] = reasons
    if "llm.request.functions" in lists:
        tools = [_tool(each) for each in in_order(lists["llm.request.functions"])]
        found[names.TOOL_DEFINITIONS] = form.json_text(tools)


def _message(one: dict[str, Any], default_role: str) -> form.Message:
    role = one.get("role")
    if role == "unknown":
        role = None
    if role == "tool" or "tool_call_id" in one:
        return form.message(
            role, "tool", [form.tool_result(one.get("tool_call_id"), one.get("content"))]
        )
    parts = form.chat_parts(one.get("content"))
    if one.get("refusal"):
        parts.append(form.text(one["refusal"]))
    for call in in_order(one.get("tool_calls")):
        parts.append(form.tool_call(call.get("id"), call.get("name"), call.get("arguments")))
    if "function_call.name" in one:
        arguments = one.get("function_call.arguments")
        parts.append(form.tool_call(None, one["function_call.name"], arguments))
    return form.message(role, default_role, parts, one.get("finish_reason"))


def _tool(one: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "function"}
    for key in ("name", "description", "parameters"):
        if key in one:
            made[key] = one[key]
    # Some Traceloop instrumentations write `input_schema`.
    parameters = made.get("parameters", one.get("input_schema"))
    if parameters is not None:
        made["parameters"] = form.decoded(parameters)
    return made
