"""Kinds of steps: derives a kind's attributes from the captured input and output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ratchet.observe.dialects import messages as form
from ratchet.observe.dialects import names

Describe = Callable[[dict[str, Any]], dict[str, Any]]

_QUERIES = ("query", "question", "q", "text", "input")
_PROMPTS = ("prompt", "question", "input", "text", "message")
_REQUEST = ("temperature", "top_p", "top_k", "max_tokens", "seed")


def describe_retriever(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes of a search, with the query as text."""
    captured = form.decoded(attributes.get(names.INPUT))
    query = _text_of(captured, _QUERIES) if isinstance(captured, dict) else captured
    if not isinstance(query, str):
        return attributes
    return {names.RETRIEVAL_QUERY: query, **attributes}


def describe_llm(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes of a model call: messages, model and usage, as far as they can be read.

    They get their names in the GenAI conventions; an unknown format stays as it was captured.
    """
    described = dict(attributes)
    captured = form.decoded(described.get(names.INPUT))
    if isinstance(captured, (dict, list, str)) and captured != described.get(names.INPUT):
        _read_request(described, captured if isinstance(captured, dict) else {"messages": captured})
    answer = form.decoded(described.get(names.OUTPUT))
    if answer is not None and (
        not isinstance(answer, str) or answer != described.get(names.OUTPUT)
    ):
        _read_answer(described, answer)
    return described


KINDS: Mapping[str, Describe | None] = {
    "agent": None,
    "tool": None,
    "step": None,
    "retriever": describe_retriever,
    "llm": describe_llm,
}


def _read_request(described: dict[str, Any], request: dict[str, Any]) -> None:
    messages = request.get("messages")
    if messages is None:
        messages = _text_of(request, _PROMPTS)
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if isinstance(messages, list) and messages and all(isinstance(m, dict) for m in messages):
        sent = [form.chat_message(message, "user") for message in messages]
        described[names.INPUT_MESSAGES] = form.json_text(sent)
        del described[names.INPUT]
    system = request.get("system", request.get("instructions"))
    if isinstance(system, (str, list)) and system:
        described[names.SYSTEM_INSTRUCTIONS] = form.json_text(form.chat_parts(system))
    if isinstance(request.get("model"), str):
        described.setdefault(names.REQUEST_MODEL, request["model"])
    for key in _REQUEST:
        if isinstance(request.get(key), (int, float)):
            described.setdefault(f"gen_ai.request.{key}", request[key])


def _read_answer(described: dict[str, Any], answer: Any) -> None:
    messages: list[form.Message] = []
    if isinstance(answer, str):
        messages = [form.message("assistant", "assistant", [form.text(answer)])]
    elif isinstance(answer, dict):
        choices = answer.get("choices")
        if isinstance(choices, list):
            messages = [_choice(choice) for choice in choices if isinstance(choice, dict)]
        elif "content" in answer or "tool_calls" in answer:
            messages = [form.chat_message(answer, "assistant")]
            if answer.get("stop_reason"):
                messages[0]["finish_reason"] = form.as_text(answer["stop_reason"])
        if isinstance(answer.get("model"), str):
            described.setdefault(names.RESPONSE_MODEL, answer["model"])
        if isinstance(answer.get("id"), str):
            described.setdefault("gen_ai.response.id", answer["id"])
        _read_usage(described, answer.get("usage"))
    if messages:
        described[names.OUTPUT_MESSAGES] = form.json_text(messages)
        del described[names.OUTPUT]
        reasons = [message["finish_reason"] for message in messages if message.get("finish_reason")]
        if reasons:
            described.setdefault(names.FINISH_REASONS, reasons)


def _choice(choice: dict[str, Any]) -> form.Message:
    inner = choice.get("message")
    message = form.chat_message(inner if isinstance(inner, dict) else {}, "assistant")
    reason = choice.get("finish_reason")
    return {**message, "finish_reason": form.as_text(reason)} if reason else message


def _read_usage(described: dict[str, Any], usage: Any) -> None:
    if not isinstance(usage, dict):
        return
    for name, keys in (
        (names.INPUT_TOKENS, ("input_tokens", "prompt_tokens")),
        (names.OUTPUT_TOKENS, ("output_tokens", "completion_tokens")),
    ):
        for key in keys:
            if isinstance(usage.get(key), int):
                described.setdefault(name, usage[key])


def _text_of(arguments: dict[str, Any], likely: tuple[str, ...]) -> str | None:
    """The text argument with a likely name, or the only text argument."""
    for name in likely:
        if isinstance(arguments.get(name), str):
            return str(arguments[name])
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else None
