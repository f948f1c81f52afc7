"""Answers of OpenAI's chat completions as answers of its responses, whole and streamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.observe.model_apis.bounded_json import mapping
from ratchet.server.gateway.translation.chat_answers import ENDED_EARLY
from ratchet.server.gateway.translation.content import listed
from ratchet.server.gateway.translation.part_sequence import AnswerPart, PartSequence, Step
from ratchet.server.gateway.translation.responses_to_chat import REDACTED, THOUGHT
from ratchet.server.gateway.translation.usage import response_usage

_ECHOED = (
    *("instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "reasoning"),
    *("temperature", "text", "tool_choice", "tools", "top_p", "truncation"),
)
"""Fields of a request that its response repeats."""

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_ITEM_IDS = {"call": "fc", "reasoning": "rs", "text": "msg", "refusal": "msg"}


def response_of(
    completion: Mapping[str, Any], request: Mapping[str, Any], created: int
) -> dict[str, Any]:
    """A response.

    Args:
        completion: A whole answer of chat completions.
        request: The client's request.
        created: Time of the answer in Unix seconds.
    """
    choice = listed(completion.get("choices"))[0]
    said = choice["message"]
    thoughts = {"thinking_blocks": said.get("thinking_blocks")}
    if not any(block.get("thinking") for block in listed(said.get("thinking_blocks"))):
        thoughts["reasoning_content"] = said.get("reasoning_content")
    calls = [{**call, "index": index} for index, call in enumerate(listed(said.get("tool_calls")))]
    events = ResponseEvents(request, created)
    head = {"id": completion.get("id"), "model": completion.get("model")}
    for block in listed(said.get("thinking_blocks")):
        delta = {"reasoning_content": block.get("thinking"), "thinking_blocks": [block]}
        events.add({**head, "choices": [{"delta": delta}]})
    delta = {"content": said.get("content"), "refusal": said.get("refusal"), "tool_calls": calls}
    last = {"delta": delta, "finish_reason": choice.get("finish_reason")}
    events.add({**head, "choices": [last], "usage": completion.get("usage")})
    return dict(events.end()[-1]["response"])


class ResponseEvents:
    """Turns the chunks of a streamed chat completion into events of a response.

    Args:
        request: The client's request.
        created: Time of the answer in Unix seconds.
    """

    def __init__(self, request: Mapping[str, Any], created: int) -> None:
        echoed = {key: request[key] for key in _ECHOED if request.get(key) is not None}
        self._response: dict[str, Any] = {
            "id": "",
            "object": "response",
            "created_at": created,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "model": "",
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": None,
            **echoed,
        }
        self._suffix = ""
        self._sequence = PartSequence()
        self._finish: Any = None
        self._number = 0
        self._begun = False
        self._over = False

    def add(self, chunk: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Take a chunk; return the events to send."""
        if self._over:
            return []
        if chunk.get("error"):
            return self._fail(mapping(chunk["error"]))
        events: list[dict[str, Any]] = []
        if not self._begun:
            self._begun = True
            self._suffix = str(chunk.get("id") or "").removeprefix("msg_")
            self._response.update(id=f"resp_{self._suffix}", model=chunk.get("model"))
            events.append(self._event("response.created", response=dict(self._response)))
            events.append(self._event("response.in_progress", response=dict(self._response)))
        if chunk.get("usage"):
            self._response["usage"] = response_usage(mapping(chunk["usage"]))
        for choice in listed(chunk.get("choices"))[:1]:
            self._finish = choice.get("finish_reason") or self._finish
            for step in self._sequence.add(mapping(choice.get("delta"))):
                events.extend(self._step(step))
        return events

    def end(self) -> list[dict[str, Any]]:
        """The upstream has sent everything: an error unless the model has finished."""
        if self._over:
            return []
        if self._finish is None:
            return self._fail({"message": ENDED_EARLY})
        events = [event for step in self._sequence.end() for event in self._step(step)]
        self._over = True
        why = _INCOMPLETE.get(str(self._finish))
        status = "incomplete" if why else "completed"
        self._response.update(status=status, incomplete_details={"reason": why} if why else None)
        return [*events, self._event(f"response.{status}", response=self._response)]

    def _fail(self, error: Mapping[str, Any]) -> list[dict[str, Any]]:
        self._over = True
        message = str(error.get("message") or "The upstream failed.")
        described = {"code": "server_error", "message": message}
        self._response.update(status="failed", error=described)
        return [
            self._event("error", code=error.get("type"), message=message, param=None),
            self._event("response.failed", response=self._response),
        ]

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        self._number += 1
        return {"type": kind, "sequence_number": self._number - 1, **fields}

    def _step(self, step: Step) -> list[dict[str, Any]]:
        kind, part, text = step
        place = {"output_index": part.position}
        item_id = f"{_ITEM_IDS[part.kind]}_{self._suffix}_{part.position}"
        within = {**place, "item_id": item_id, _INDEX.get(part.kind, "content_index"): 0}
        if part.kind == "call":
            within = {**place, "item_id": item_id}
        added, more, done, key = _EVENTS[part.kind]
        if kind == "start":
            item = _item(part, item_id, "in_progress", begun=True)
            events = [self._event("response.output_item.added", item=item, **place)]
            if added:
                events.append(self._event(f"{added}.added", part=_content(part, ""), **within))
            return events
        if kind == "more":
            extra: dict[str, Any] = {"logprobs": []} if part.kind == "text" else {}
            return [self._event(more, delta=text, **extra, **within)]
        item = _item(part, item_id, "completed")
        # Earlier events keep the output that they were sent with.
        self._response["output"] = [*self._response["output"], item]
        whole: dict[str, Any] = {key: _text(part)}
        if part.kind == "text":
            whole["logprobs"] = []
        if part.kind == "call":
            whole["name"] = part.name
        events = [self._event(done, **whole, **within)]
        if added:
            content = _content(part, part.text)
            events.append(self._event(f"{added}.done", part=content, **within))
        return [*events, self._event("response.output_item.done", item=item, **place)]


_INDEX = {"reasoning": "summary_index"}

_EVENTS = {
    "text": (
        "response.content_part",
        "response.output_text.delta",
        "response.output_text.done",
        "text",
    ),
    "refusal": (
        "response.content_part",
        "response.refusal.delta",
        "response.refusal.done",
        "refusal",
    ),
    "reasoning": (
        "response.reasoning_summary_part",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "text",
    ),
    "call": (
        "",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "arguments",
    ),
}
"""Events of each kind of part: that of its content, of a piece of it, of its end; and the key of
the whole."""


def _text(part: AnswerPart) -> str:
    return part.text or ("{}" if part.kind == "call" else "")


def _content(part: AnswerPart, text: str) -> dict[str, Any]:
    if part.kind == "text":
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    if part.kind == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "summary_text", "text": text}


def _item(part: AnswerPart, item_id: str, status: str, *, begun: bool = False) -> dict[str, Any]:
    """The item of the output that a part is; empty where it has only begun."""
    item: dict[str, Any] = {"id": item_id, "status": status}
    if part.kind == "call":
        arguments = "" if begun else _text(part)
        called = {"call_id": part.id, "name": part.name, "arguments": arguments}
        return {**item, "type": "function_call", **called}
    content = [] if begun or not part.text else [_content(part, part.text)]
    if part.kind != "reasoning":
        return {**item, "type": "message", "role": "assistant", "content": content}
    item.update(type="reasoning", summary=content)
    if part.thinking.get("type") == "redacted_thinking":
        item["encrypted_content"] = f"{REDACTED}{part.thinking.get('data')}"
    elif part.thinking.get("signature"):
        item["encrypted_content"] = f"{THOUGHT}{part.thinking['signature']}"
    return item
