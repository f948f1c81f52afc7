"""OpenInference: `openinference.span.kind`, `llm.*`, `input.value`, `tool.*`, `retrieval.*`.

Source: openinference-semantic-conventions 0.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.observe.dialects import framework_wrappers, names
from ratchet.observe.dialects import messages as form
from ratchet.observe.dialects.flattened import Layout, in_order
from ratchet.types import SpanEvent

MARKERS = frozenset(
    {
        "openinference.span.kind",
        "llm.model_name",
        "llm.token_count.prompt",
        "input.value",
        "output.value",
    }
)
"""Attributes that identify this dialect."""

OPERATIONS = {
    "LLM": "chat",
    "TOOL": "execute_tool",
    "AGENT": "invoke_agent",
    "RETRIEVER": "retrieval",
    "EMBEDDING": "embeddings",
    # Not in the conventions, which allow other names.
    "RERANKER": "rerank",
    "GUARDRAIL": "guardrail",
    "EVALUATOR": "evaluate",
}
"""Operations by kind of span. CHAIN, PROMPT and UNKNOWN are plain steps."""

RENAMED = {
    "llm.token_count.prompt": names.INPUT_TOKENS,
    "llm.token_count.completion": names.OUTPUT_TOKENS,
    "llm.token_count.prompt_details.cache_read": names.CACHE_READ_TOKENS,
    "llm.token_count.prompt_details.cache_input": names.CACHE_READ_TOKENS,
    "llm.token_count.prompt_details.cache_write": names.CACHE_WRITE_TOKENS,
    "llm.token_count.completion_details.reasoning": names.REASONING_TOKENS,
    "session.id": names.CONVERSATION,
    "agent.name": names.AGENT_NAME,
    "tool.name": names.TOOL_NAME,
    "tool.description": names.TOOL_DESCRIPTION,
    "tool.id": names.TOOL_CALL_ID,
}
"""Names with the same meaning; the first of several for one name takes precedence."""

PARAMETERS = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "max_tokens": "gen_ai.request.max_tokens",
    "max_completion_tokens": "gen_ai.request.max_tokens",
    "max_output_tokens": "gen_ai.request.max_tokens",
    "seed": "gen_ai.request.seed",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "n": "gen_ai.request.choice.count",
    "stream": "gen_ai.request.stream",
}
"""Parameters of a request, which are in one JSON text."""

_PREPARING = "._prepare_chat_with_tools"
"""End of the name of a LlamaIndex span that only prepares a model call; its kind is LLM too."""

_NONE = object()

_LAYOUT = Layout(
    {
        "llm.input_messages": "message",
        "llm.output_messages": "message",
        "llm.tools": "tool",
        "llm.prompts": "prompt",
        "llm.choices": "completion",
        "retrieval.documents": "document",
        "reranker.output_documents": "document",
        "embedding.embeddings": "embedding",
    },
    {"tool_calls": "tool_call", "contents": "message_content"},
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
    kind = attributes.get("openinference.span.kind")
    operation = OPERATIONS.get(kind) if isinstance(kind, str) else None
    if kind == "CHAIN" and framework_wrappers.is_agent(name):
        operation = "invoke_agent"
    elif operation == "chat" and name.endswith(_PREPARING):
        operation = None
    if operation:
        found[names.OPERATION] = operation
    parameters = _read_model(found, attributes)
    lists = _LAYOUT.gather(attributes)
    if lists:
        _read_lists(found, lists, attributes)
    # Anthropic's system prompt is a parameter; some instrumentations add it to the messages.
    if "system" in parameters and '{"role":"system"' not in found.get(names.INPUT_MESSAGES, ""):
        system = form.chat_parts(parameters["system"])
        if system:
            found[names.SYSTEM_INSTRUCTIONS] = form.json_text(system)
    if operation == "invoke_agent":
        found.setdefault(names.AGENT_NAME, framework_wrappers.bare_name(name))
    elif operation == "execute_tool":
        found.setdefault(names.TOOL_NAME, framework_wrappers.bare_name(name))
    _read_values(found, attributes)
    return found


def _read_model(found: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Read model, provider and request parameters; return the latter."""
    provider = attributes.get("llm.provider") or attributes.get("llm.system")
    if provider:
        found[names.PROVIDER] = names.provider(provider)
    model = (
        attributes.get("llm.model_name")
        or attributes.get("embedding.model_name")
        or attributes.get("reranker.model_name")
    )
    asked = attributes.get("llm.request.model_name")
    given = attributes.get(
        "llm.invocation_parameters", attributes.get("embedding.invocation_parameters")
    )
    parameters = form.decoded(given)
    if not isinstance(parameters, dict):
        parameters = {}
    else:
        asked = asked or parameters.get("model")
        for key in PARAMETERS.keys() & parameters.keys():
            # Null: the provider's default.
            if parameters[key] is not None:
                found.setdefault(PARAMETERS[key], parameters[key])
        stop = parameters.get("stop", parameters.get("stop_sequences"))
        if stop:
            found["gen_ai.request.stop_sequences"] = stop if isinstance(stop, list) else [stop]
    if asked or model:
        found[names.REQUEST_MODEL] = asked or model
    answered = attributes.get("llm.response.model_name") or attributes.get("llm.model_name")
    if answered:
        found[names.RESPONSE_MODEL] = answered
    reason = attributes.get("llm.finish_reason")
    if reason:
        found[names.FINISH_REASONS] = [form.as_text(reason)]
    return parameters


def _read_lists(
    found: dict[str, Any], lists: dict[str, Any], attributes: Mapping[str, Any]
) -> None:
    if "llm.input_messages" in lists:
        numbered = lists["llm.input_messages"]
        for number, each in numbered.items():
            if each.keys() == {"role"}:
                each["answers"] = framework_wrappers.answers(attributes, number)
        sent = [_message(each, "user") for each in in_order(numbered)]
        found[names.INPUT_MESSAGES] = form.json_text(sent)
    elif "llm.prompts" in lists:
        found[names.INPUT_MESSAGES] = _texts(lists["llm.prompts"], "user")
    if "llm.output_messages" in lists:
        reason = found.get(names.FINISH_REASONS, (None,))[0]
        said = in_order(lists["llm.output_messages"])
        found[names.OUTPUT_MESSAGES] = form.json_text(
            [_message(each, "assistant", reason) for each in said]
        )
    elif "llm.choices" in lists:
        found[names.OUTPUT_MESSAGES] = _texts(lists["llm.choices"], "assistant")
    if "llm.prompts" in lists or "llm.choices" in lists:
        found[names.OPERATION] = "text_completion"
    if "llm.tools" in lists:
        tools = [_tool(each) for each in in_order(lists["llm.tools"])]
        found[names.TOOL_DEFINITIONS] = form.json_text(tools)
    documents = lists.get("retrieval.documents", lists.get("reranker.output_documents"))
    if documents:
        listed = [_document(each) for each in in_order(documents)]
        found[names.RETRIEVAL_DOCUMENTS] = form.json_text(listed)
    if "embedding.embeddings" in lists:
        embedded = in_order(lists["embedding.embeddings"])
        texts = [each["text"] for each in embedded if "text" in each]
        if texts:
            found[names.INPUT] = form.json_text(texts)
        sizes = [len(each["vector"]) for each in embedded if isinstance(each.get("vector"), list)]
        if sizes:
            found["gen_ai.embeddings.dimension.count"] = sizes[0]


def _read_values(found: dict[str, Any], attributes: Mapping[str, Any]) -> None:
    """Read input and output values that no more specific attribute holds."""
    operation = found.get(names.OPERATION)
    for side, messages, tool, plain in (
        ("input", names.INPUT_MESSAGES, names.TOOL_ARGUMENTS, names.INPUT),
        ("output", names.OUTPUT_MESSAGES, names.TOOL_RESULT, names.OUTPUT),
    ):
        value = attributes.get(f"{side}.value")
        if value is None:
            if side == "input" and operation == "execute_tool" and "tool.parameters" in attributes:
                found[tool] = form.as_json(attributes["tool.parameters"])
            continue
        # Already in the messages.
        if messages in found or plain in found:
            continue
        if side == "output" and operation in ("embeddings", "retrieval", "rerank"):
            continue
        if side == "input" and operation in ("retrieval", "rerank"):
            query = attributes.get("reranker.query", value)
            found[names.RETRIEVAL_QUERY] = form.as_text(query)
            continue
        declared = attributes.get(f"{side}.mime_type") == "application/json"
        if operation == "execute_tool":
            unwrap = framework_wrappers.arguments if side == "input" else framework_wrappers.result
            found[tool] = unwrap(value, declared)
        else:
            found[plain] = form.as_json(value, declared)


def _message(one: dict[str, Any], default_role: str, reason: Any = None) -> form.Message:
    if one.get("answers"):
        return form.message("tool", "tool", one["answers"])
    content = one.get("content")
    role = one.get("role")
    call_id = one.get("tool_call_id")
    if role == "tool" or call_id is not None:
        answer = content if content is not None else _inner_text(one)
        return form.message(role, "tool", [form.tool_result(call_id, answer)])
    parts = form.chat_parts(content)
    calls = in_order(one.get("tool_calls"))
    for each in in_order(one.get("contents")):
        # Some instrumentations list a tool call or a text twice.
        if not (calls and each == {"type": "tool_use"}) and each.get("text", _NONE) != content:
            parts.append(_content(each))
    for call in calls:
        made = form.tool_call(
            call.get("id"), call.get("function.name"), call.get("function.arguments")
        )
        parts.append(made)
    if "function_call_name" in one:
        arguments = one.get("function_call_arguments_json")
        parts.append(form.tool_call(None, one["function_call_name"], arguments))
    return form.message(role, default_role, parts, reason)


def _inner_text(one: dict[str, Any]) -> Any:
    said = [each["text"] for each in in_order(one.get("contents")) if "text" in each]
    return said[0] if len(said) == 1 else said or None


def _content(one: dict[str, Any]) -> form.Part:
    kind = one.get("type")
    if kind == "reasoning":
        return form.reasoning(one.get("text", ""))
    for modality in ("image", "audio", "video", "document"):
        url = one.get(f"{modality}.{modality}.url")
        if url is not None:
            return form.media(modality, url, one.get(f"{modality}.{modality}.mime_type"))
    if "text" in one:
        return form.text(one["text"])
    return {**one, "type": form.as_text(kind) if kind else "text"}


def _tool(one: dict[str, Any]) -> dict[str, Any]:
    schema = form.decoded(one.get("json_schema"))
    if not isinstance(schema, dict):
        schema = {}
    # OpenAI's form nests the function; the conventions' does not.
    function = schema.get("function")
    made = {"type": "function", **(function if isinstance(function, dict) else schema)}
    made["type"] = "function"
    if "input_schema" in made:  # Anthropic's form
        made.setdefault("parameters", made.pop("input_schema"))
    for key in ("name", "description"):
        if key in one:
            made.setdefault(key, one[key])
    return made


def _document(one: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        key: one[key] for key in ("id", "score", "content", "metadata") if key in one
    }
    if "metadata" in made:
        made["metadata"] = form.decoded(made["metadata"])
    return made


def _texts(objects: Any, role: str) -> str:
    said = [
        form.message(None, role, [form.text(each.get("text", ""))]) for each in in_order(objects)
    ]
    return form.json_text(said)
