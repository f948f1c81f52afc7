"""Conversations for training, from recorded model calls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ratchet.observe.dialects import names
from ratchet.observe.redaction import MARK_START
from ratchet.store.messages import instructions_in, messages_in
from ratchet.types import Span, content_hash

ChatMessage: TypeAlias = dict[str, Any]
"""A message as in OpenAI's chat completions."""

_CUT = re.compile(r"(?:…|\\u2026) \[\d+ more (?:characters|items)\]")
"""What capture appends to a value that it cuts."""

_NO_CALLS = frozenset({"invoke_agent", "create_agent", "execute_tool", "embeddings", "retrieval"})
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


class ChatExample(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, and which of its messages a model learns."""

    messages: tuple[ChatMessage, ...]
    learned: tuple[int, ...]
    """Positions of the assistant's messages that the agent's model wrote; ascending. Others,
    such as examples in a prompt, are context and are not learned."""
    tools: tuple[dict[str, Any], ...] = ()
    """Tool definitions as in OpenAI's chat completions."""
    spans: tuple[str, ...] = ()
    """Ids of the spans of its calls, in order."""
    subject: str = ""
    """Id of its rollout or trace."""
    task_id: str = ""
    score: float | None = None

    def key(self) -> str:
        """Equal for conversations that teach the same."""
        return content_hash([self.messages, self.learned, self.tools])


class ChatPair(msgspec.Struct, frozen=True, kw_only=True):
    """Two answers to the same messages, of which one is better."""

    messages: tuple[ChatMessage, ...]
    """The messages before the answers."""
    chosen: ChatMessage
    rejected: ChatMessage
    tools: tuple[dict[str, Any], ...] = ()
    subject: str = ""
    """Id of the chosen answer's rollout or trace."""
    task_id: str = ""

    def key(self) -> str:
        """Equal for pairs that teach the same."""
        return content_hash([self.messages, self.chosen, self.rejected, self.tools])


class RecordedChat(NamedTuple):
    """The conversations of a rollout or trace."""

    examples: list[ChatExample]
    left_out: Counter[str]
    """Number of calls that cannot be used, by reason."""


class _Call(NamedTuple):
    messages: tuple[ChatMessage, ...]
    """The last message is the answer."""
    tools: tuple[dict[str, Any], ...]
    span_id: str


class NotTrainable(Exception):
    """A call that cannot be used; the text says why."""


def recorded_chat(
    spans: Sequence[Span], *, redacted: bool = False, truncated: bool = False
) -> RecordedChat:
    """The conversations of an attempt or a trace.

    A call that continues an earlier one, with the same tools, belongs to its conversation. One
    whose history was rewritten begins another.

    Args:
        spans: Its spans, in order of their start.
        redacted: Whether to use calls from which something was redacted.
        truncated: Whether to use calls whose answer was cut off at the limit of tokens.
    """
    left_out: Counter[str] = Counter()
    examples: list[ChatExample] = []
    for span in spans:
        if not _is_model_call(span):
            continue
        try:
            _add(examples, _call_of(span, redacted, truncated))
        except NotTrainable as reason:
            left_out[str(reason)] += 1
    return RecordedChat(examples, left_out)


def _is_model_call(span: Span) -> bool:
    attributes = span.attributes
    return (
        names.INPUT_MESSAGES in attributes
        and names.OUTPUT_MESSAGES in attributes
        and attributes.get(names.OPERATION) not in _NO_CALLS
    )


def _add(examples: list[ChatExample], call: _Call) -> None:
    """Extend the longest conversation that the call continues, or begin a new one."""
    answer = len(call.messages) - 1
    before = [
        (len(example.messages), at)
        for at, example in enumerate(examples)
        if example.tools == call.tools
        and call.messages[: len(example.messages)] == example.messages
    ]
    learned: tuple[int, ...] = ()
    spans: tuple[str, ...] = ()
    at = max(before)[1] if before else None
    if at is not None:
        learned, spans = examples[at].learned, examples[at].spans
        if len(examples[at].messages) == len(call.messages):
            return  # the same call, recorded by a framework and by the gateway
    extended = ChatExample(
        messages=call.messages,
        learned=(*learned, answer),
        tools=call.tools,
        spans=(*spans, call.span_id),
    )
    if at is None:
        examples.append(extended)
    else:
        examples[at] = extended


def _call_of(span: Span, redacted: bool, truncated: bool) -> _Call:
    attributes = span.attributes
    if span.status == "error":
        raise NotTrainable("the call failed")
    texts = [
        attributes.get(key)
        for key in (
            names.INPUT_MESSAGES,
            names.OUTPUT_MESSAGES,
            names.SYSTEM_INSTRUCTIONS,
            names.TOOL_DEFINITIONS,
        )
    ]
    recorded = "\n".join(text for text in texts if isinstance(text, str))
    if _CUT.search(recorded):
        raise NotTrainable("only a part of it was recorded")
    if not redacted and MARK_START in recorded:
        raise NotTrainable("part of it was redacted")
    sent, cut = messages_in(texts[0])
    answers, answers_cut = messages_in(texts[1])
    if cut or answers_cut or any(message["role"] == "omitted" for message in sent):
        raise NotTrainable("only a part of it was recorded")
    if len(answers) != 1:
        raise NotTrainable("it has no answer" if not answers else "it has several answers")
    reasons = (*(attributes.get(names.FINISH_REASONS) or ()), _finish_reason(texts[1]))
    if "length" in reasons and not truncated:
        raise NotTrainable("its answer was cut off at the token limit")
    messages: list[ChatMessage] = [
        {"role": "system", "content": text} for text in instructions_in(texts[2])
    ]
    for message in (*sent, *answers):
        messages.extend(_chat_messages(message))
    if not messages or messages[-1]["role"] != "assistant":
        raise NotTrainable("it has no answer")
    return _Call(_with_ids(messages), tuple(_tools(texts[3])), span.span_id)


def _finish_reason(outputs: Any) -> Any:
    try:
        decoded = msgspec.json.decode(outputs) if isinstance(outputs, str) else outputs
    except msgspec.DecodeError:
        return None
    last = decoded[-1] if isinstance(decoded, list) and decoded else None
    return last.get("finish_reason") if isinstance(last, dict) else None


def _chat_messages(message: Mapping[str, Any]) -> Iterator[ChatMessage]:
    """A message of the conventions as one or, with several tool results, more of the chat API."""
    role = message["role"]
    if role not in _ROLES:
        raise NotTrainable(f"it has a message with the role {role!r}")
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in message["parts"]:
        kind = part.get("type")
        if kind == "text":
            texts.append(_text(part.get("content")))
        elif kind == "tool_call":
            calls.append(
                {
                    "id": part.get("id") or "",
                    "type": "function",
                    "function": {
                        "name": part.get("name") or "",
                        "arguments": _text(part.get("arguments", "{}")),
                    },
                }
            )
        elif kind == "tool_call_response":
            response = part.get("response", part.get("result"))
            yield {
                "role": "tool",
                "tool_call_id": part.get("id") or "",
                "content": _text(_joined(response)),
            }
        elif kind != "reasoning":  # which chat templates drop from earlier turns, too
            raise NotTrainable(
                f"it has content of the type {kind!r}, which is not recorded completely"
            )
    text = "\n".join(texts)
    if calls:
        yield {"role": role, "content": text or None, "tool_calls": calls}
    elif texts:
        yield {"role": role, "content": text}


def _joined(response: Any) -> Any:
    """Text parts of a tool's result as one text."""
    if isinstance(response, list) and response:
        texts = [
            part.get("content", part.get("text"))
            for part in response
            if isinstance(part, dict) and part.get("type") == "text"
        ]
        if len(texts) == len(response):
            return "\n".join(_text(text) for text in texts)
    return response


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _with_ids(messages: list[ChatMessage]) -> tuple[ChatMessage, ...]:
    """Number calls that were recorded without an id, and their results in the same order."""
    waiting: list[str] = []
    number = 0
    for message in messages:
        for call in message.get("tool_calls", ()):
            if not call["id"]:
                call["id"] = f"call_{number}"
                waiting.append(call["id"])
            number += 1
        if message["role"] == "tool" and not message["tool_call_id"] and waiting:
            message["tool_call_id"] = waiting.pop(0)
    return tuple(messages)


def _tools(definitions: Any) -> Iterator[dict[str, Any]]:
    try:
        tools = msgspec.json.decode(definitions) if isinstance(definitions, str) else definitions
    except msgspec.DecodeError:
        raise NotTrainable("only a part of its tools was recorded") from None
    for tool in tools or ():
        if not isinstance(tool, dict) or tool.get("type", "function") != "function":
            raise NotTrainable("it has a tool that is not a function")
        inner = tool.get("function")
        own = inner if isinstance(inner, dict) else tool
        schema = own.get("parameters")
        yield {
            "type": "function",
            "function": {
                "name": own.get("name") or "",
                **({"description": own["description"]} if own.get("description") else {}),
                "parameters": schema
                if isinstance(schema, dict)
                else {"type": "object", "properties": {}},
            },
        }
