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
    given = form.decoded(attributes.get(names.INPUT))
    query = _text_of(given, _QUERIES) if isinstance(given, dict) else given
    if not isinstance(query, str):
        return attributes
    return {names.RETRIEVAL_QUERY: query, **attributes}


def describe_llm(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes of a model call: messages, model and usage, as far as they can be read.

    They get their names in the GenAI conventions; an unknown format stays as it was captured.
    """
    made = dict(attributes)
    given = form.decoded(made.get(names.INPUT))
    if isinstance(given, (dict, list, str)) and given != made.get(names.INPUT):
        _read_request(made, given if isinstance(given, dict) else {"messages": given})
    answer = form.decoded(made.get(names.OUTPUT))
    if answer is not None and (not isinstance(answer, str) or answer != made.get(names.OUTPUT)):
        _read_answer(made, answer)
    return made


KINDS: Mapping[str, Describe | None] = {
    "agent": None,
    "tool": None,
    "step": None,
    "retriever": describe_retriever,
    "llm": describe_llm,
}


def _read_request(made: dict[str, Any], given: dict[str, Any]) -> None:
    messages = given.get("messages")
    if messages is None:
        messages = _text_of(given, _PROMPTS)
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if isinstance(messages, list) and messages and all(isinstance(m, dict) for m in messages):
        sent = [form.chat_message(each, "user") for each in messages]
        made[names.INPUT_MESSAGES] = form.json_text(sent)
        del made[names.INPUT]
    system = given.get("system", given.get("instructions"))
    if isinstance(system, (str, list)) and system:
        made[names.SYSTEM_INSTRUCTIONS] = form.json_text(form.chat_parts(system))
    if isinstance(given.get("model"), str):
        made.setdefault(names.REQUEST_MODEL, given["model"])
    for key in _REQUEST:
        if isinstance(given.get(key), (int, float)):
            made.setdefault(f"gen_ai.request.{key}", given[key])


def _read_answer(made: dict[str, Any], answer: Any) -> None:
    said: list[form.Message] = []
    if isinstance(answer, str):
        said = [form.message("assistant", "assistant", [form.text(answer)])]
    elif isinstance(answer, dict):
        choices = answer.get("choices")
        if isinstance(choices, list):
            said = [_choice(each) for each in choices if isinstance(each, dict)]
        elif "content" in answer or "tool_calls" in answer:
            said = [form.chat_message(answer, "assistant")]
            if answer.get("stop_reason"):
                said[0]["finish_reason"] = form.as_text(answer["stop_reason"])
        if isinstance(answer.get("model"), str):
            made.setdefault(names.RESPONSE_MODEL, answer["model"])
        if isinstance(answer.get("id"), str):
            made.setdefault("gen_ai.response.id", answer["id"])
        _read_usage(made, answer.get("usage"))
    if said:
        made[names.OUTPUT_MESSAGES] = form.json_text(said)
        del made[names.OUTPUT]
        reasons = [each["finish_reason"] for each in said if each.get("finish_reason")]
        if reasons:
            made.setdefault(names.FINISH_REASONS, reasons)


def _choice(choice: dict[str, Any]) -> form.Message:
    inner = choice.get("message")
    said = form.chat_message(inner if isinstance(inner, dict) else {}, "assistant")
    reason = choice.get("finish_reason")
    return {**said, "finish_reason": form.as_text(reason)} if reason else said


def _read_usage(made: dict[str, Any], usage: Any) -> None:
    if not isinstance(usage, dict):
        return
    for name, keys in (
        (names.INPUT_TOKENS, ("input_tokens", "prompt_tokens")),
        (names.OUTPUT_TOKENS, ("output_tokens", "completion_tokens")),
    ):
        for key in keys:
            if isinstance(usage.get(key), int):
                made.setdefault(name, usage[key])


def _text_of(given: dict[str, Any], likely: tuple[str, ...]) -> str | None:
    """The text argument with a likely name, or the only text argument."""
    for name in likely:
        if isinstance(given.get(name), str):
            return str(given[name])
    texts = [value for value in given.values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else None
