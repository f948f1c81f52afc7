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
"""Ratchet's names by OpenInference's. Of several for the same name, the first takes precedence."""

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
    normalised: dict[str, Any] = {}
    for key, normal in RENAMED.items():
        if key in attributes:
            normalised.setdefault(normal, attributes[key])
    kind = attributes.get("openinference.span.kind")
    operation = OPERATIONS.get(kind) if isinstance(kind, str) else None
    if kind == "CHAIN" and framework_wrappers.is_agent(name):
        operation = "invoke_agent"
    elif operation == "chat" and name.endswith(_PREPARING):
        operation = None
    if operation:
        normalised[names.OPERATION] = operation
    parameters = _read_model(normalised, attributes)
    lists = _LAYOUT.gather(attributes)
    if lists:
        _read_lists(normalised, lists, attributes)
    # Anthropic's system prompt is a parameter; some instrumentations add it to the messages.
    if "system" in parameters and '{"role":"system"' not in normalised.get(
        names.INPUT_MESSAGES, ""
    ):
        system = form.chat_parts(parameters["system"])
        if system:
            normalised[names.SYSTEM_INSTRUCTIONS] = form.json_text(system)
    if operation == "invoke_agent":
        normalised.setdefault(names.AGENT_NAME, framework_wrappers.bare_name(name))
    elif operation == "execute_tool":
        normalised.setdefault(names.TOOL_NAME, framework_wrappers.bare_name(name))
    _read_values(normalised, attributes)
    return normalised


def _read_model(normalised: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Read model, provider and request parameters; return the latter."""
    provider = attributes.get("llm.provider") or attributes.get("llm.system")
    if provider:
        normalised[names.PROVIDER] = names.provider(provider)
    model = (
        attributes.get("llm.model_name")
        or attributes.get("embedding.model_name")
        or attributes.get("reranker.model_name")
    )
    requested_model = attributes.get("llm.request.model_name")
    invocation_parameters = attributes.get(
        "llm.invocation_parameters", attributes.get("embedding.invocation_parameters")
    )
    parameters = form.decoded(invocation_parameters)
    if not isinstance(parameters, dict):
        parameters = {}
    else:
        requested_model = requested_model or parameters.get("model")
        for key in PARAMETERS.keys() & parameters.keys():
            # Null: the provider's default.
            if parameters[key] is not None:
                normalised.setdefault(PARAMETERS[key], parameters[key])
        stop = parameters.get("stop", parameters.get("stop_sequences"))
        if stop:
            normalised["gen_ai.request.stop_sequences"] = stop if isinstance(stop, list) else [stop]
    if requested_model or model:
        normalised[names.REQUEST_MODEL] = requested_model or model
    answered = attributes.get("llm.response.model_name") or attributes.get("llm.model_name")
    if answered:
        normalised[names.RESPONSE_MODEL] = answered
    reason = attributes.get("llm.finish_reason")
    if reason:
        normalised[names.FINISH_REASONS] = [form.as_text(reason)]
    return parameters


def _read_lists(
    normalised: dict[str, Any], lists: dict[str, Any], attributes: Mapping[str, Any]
) -> None:
    if "llm.input_messages" in lists:
        numbered = lists["llm.input_messages"]
        for number, message in numbered.items():
            if message.keys() == {"role"}:
                message["answers"] = framework_wrappers.answers(attributes, number)
        sent = [_message(message, "user") for message in in_order(numbered)]
        normalised[names.INPUT_MESSAGES] = form.json_text(sent)
    elif "llm.prompts" in lists:
        normalised[names.INPUT_MESSAGES] = _texts(lists["llm.prompts"], "user")
    if "llm.output_messages" in lists:
        reason = normalised.get(names.FINISH_REASONS, (None,))[0]
        output_messages = in_order(lists["llm.output_messages"])
        normalised[names.OUTPUT_MESSAGES] = form.json_text(
            [_message(message, "assistant", reason) for message in output_messages]
        )
    elif "llm.choices" in lists:
        normalised[names.OUTPUT_MESSAGES] = _texts(lists["llm.choices"], "assistant")
    if "llm.prompts" in lists or "llm.choices" in lists:
        normalised[names.OPERATION] = "text_completion"
    if "llm.tools" in lists:
        tools = [_tool(tool) for tool in in_order(lists["llm.tools"])]
        normalised[names.TOOL_DEFINITIONS] = form.json_text(tools)
    documents = lists.get("retrieval.documents", lists.get("reranker.output_documents"))
    if documents:
        listed = [_document(document) for document in in_order(documents)]
        normalised[names.RETRIEVAL_DOCUMENTS] = form.json_text(listed)
    if "embedding.embeddings" in lists:
        embedded = in_order(lists["embedding.embeddings"])
        texts = [embedding["text"] for embedding in embedded if "text" in embedding]
        if texts:
            normalised[names.INPUT] = form.json_text(texts)
        sizes = [
            len(embedding["vector"])
            for embedding in embedded
            if isinstance(embedding.get("vector"), list)
        ]
        if sizes:
            normalised["gen_ai.embeddings.dimension.count"] = sizes[0]


def _read_values(normalised: dict[str, Any], attributes: Mapping[str, Any]) -> None:
    """Read input and output values that no more specific attribute holds."""
    operation = normalised.get(names.OPERATION)
    for side, messages, tool, plain in (
        ("input", names.INPUT_MESSAGES, names.TOOL_ARGUMENTS, names.INPUT),
        ("output", names.OUTPUT_MESSAGES, names.TOOL_RESULT, names.OUTPUT),
    ):
        value = attributes.get(f"{side}.value")
        if value is None:
            if side == "input" and operation == "execute_tool" and "tool.parameters" in attributes:
                normalised[tool] = form.as_json(attributes["tool.parameters"])
            continue
        # Already in the messages.
        if messages in normalised or plain in normalised:
            continue
        if side == "output" and operation in ("embeddings", "retrieval", "rerank"):
            continue
        if side == "input" and operation in ("retrieval", "rerank"):
            query = attributes.get("reranker.query", value)
            normalised[names.RETRIEVAL_QUERY] = form.as_text(query)
            continue
        declared = attributes.get(f"{side}.mime_type") == "application/json"
        if operation == "execute_tool":
            unwrap = framework_wrappers.arguments if side == "input" else framework_wrappers.result
            normalised[tool] = unwrap(value, declared)
        else:
            normalised[plain] = form.as_json(value, declared)


def _message(message: dict[str, Any], default_role: str, reason: Any = None) -> form.Message:
    if message.get("answers"):
        return form.message("tool", "tool", message["answers"])
    content = message.get("content")
    role = message.get("role")
    call_id = message.get("tool_call_id")
    if role == "tool" or call_id is not None:
        answer = content if content is not None else _inner_text(message)
        return form.message(role, "tool", [form.tool_result(call_id, answer)])
    parts = form.chat_parts(content)
    calls = in_order(message.get("tool_calls"))
    for raw_part in in_order(message.get("contents")):
        # Some instrumentations list a tool call or a text twice.
        if (
            not (calls and raw_part == {"type": "tool_use"})
            and raw_part.get("text", _NONE) != content
        ):
            parts.append(_content(raw_part))
    for call in calls:
        tool_call = form.tool_call(
            call.get("id"), call.get("function.name"), call.get("function.arguments")
        )
        parts.append(tool_call)
    if "function_call_name" in message:
        arguments = message.get("function_call_arguments_json")
        parts.append(form.tool_call(None, message["function_call_name"], arguments))
    return form.message(role, default_role, parts, reason)


def _inner_text(message: dict[str, Any]) -> Any:
    texts = [content["text"] for content in in_order(message.get("contents")) if "text" in content]
    return texts[0] if len(texts) == 1 else texts or None


def _content(content: dict[str, Any]) -> form.Part:
    kind = content.get("type")
    if kind == "reasoning":
        return form.reasoning(content.get("text", ""))
    for modality in ("image", "audio", "video", "document"):
        url = content.get(f"{modality}.{modality}.url")
        if url is not None:
            return form.media(modality, url, content.get(f"{modality}.{modality}.mime_type"))
    if "text" in content:
        return form.text(content["text"])
    return {**content, "type": form.as_text(kind) if kind else "text"}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    schema = form.decoded(tool.get("json_schema"))
    if not isinstance(schema, dict):
        schema = {}
    # OpenAI's form nests the function; the conventions' does not.
    function = schema.get("function")
    definition = {"type": "function", **(function if isinstance(function, dict) else schema)}
    definition["type"] = "function"
    if "input_schema" in definition:  # Anthropic's form
        definition.setdefault("parameters", definition.pop("input_schema"))
    for key in ("name", "description"):
        if key in tool:
            definition.setdefault(key, tool[key])
    return definition


def _document(document: dict[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {
        key: document[key] for key in ("id", "score", "content", "metadata") if key in document
    }
    if "metadata" in converted:
        converted["metadata"] = form.decoded(converted["metadata"])
    return converted


def _texts(objects: Any, role: str) -> str:
    messages = [
        form.message(None, role, [form.text(text_object.get("text", ""))])
        for text_object in in_order(objects)
    ]
    return form.json_text(messages)
