"""Importer for conversations in the chat formats of OpenAI and Anthropic, one per value.

A conversation becomes a trace: a span of the agent, and below it a model call with the preceding
messages for each assistant message, and a tool call for each tool result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ratchet.curate.importing.cell_values import structured
from ratchet.curate.importing.records import (
    ASSUMED_TIME,
    SOURCE_ATTRIBUTE,
    FormatMismatch,
    ImportContext,
    ImportedRecords,
    as_text,
    digest,
    integer,
    unix_ns,
    without_empty,
)
from ratchet.observe.dialects import messages as form
from ratchet.observe.dialects import names
from ratchet.types import Span, SpanRecord
from ratchet.types.wording import counted

MAX_HISTORY = 40
"""Calls of a conversation that record the whole history. Later ones record only the messages since
the previous call, or the size of a long conversation would grow quadratically."""

MAX_MESSAGES = 10_000

_ROLES = {
    "human": "user",
    "gpt": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "function": "tool",
    "developer": "system",
}
"""Standard role by other names for it."""

_MESSAGES = ("messages", "conversations", "conversation", "prompt")
_ANSWERS = ("completion", "response", "output")
_OTHER_USES = frozenset({*_ANSWERS, "expected", "reference", "tools", "functions"})
"""Keys whose list of messages is not the conversation."""

_LIST = re.compile(r"\s*(?:array\()?\[\s*\{")
"""Start of a text that holds a list of messages, in JSON or Python."""

_IDS = ("conversation_id", "conversationId", "session_id", "thread_id", "id", "uuid")
_TIMES = ("timestamp", "created_at", "create_time", "created", "time", "date")


class ImportedConversation:
    """A conversation in a file.

    Args:
        value: An object that contains it, or its list of messages.
        source: The format it was read as.

    Raises:
        FormatMismatch: It is not a conversation.
    """

    def __init__(self, value: Any, source: str) -> None:
        self.source = source
        self.fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
        self.messages = _messages(value)
        if not any(message["role"] == "assistant" for message in self.messages):
            raise FormatMismatch("it has no answer: there is no message with the role assistant")
        self.digest = digest(source, value)
        self.trace_id = self.digest[:32]
        id = next((self.fields[key] for key in _IDS if self.fields.get(key)), None)
        self.id = str(id)[:200] if isinstance(id, (str, int)) else self.trace_id

    @property
    def prompt(self) -> list[form.Message]:
        """Messages before the first assistant message."""
        prompt = []
        for message in self.messages:
            if message["role"] == "assistant":
                break
            prompt.append(message)
        return prompt

    @property
    def answer(self) -> str:
        """Text of the last assistant message."""
        for message in reversed(self.messages):
            if message["role"] == "assistant":
                return message_text(message)
        return ""

    def spans(self, context: ImportContext, rollout_id: str = "") -> tuple[SpanRecord, ...]:
        """Spans of the conversation."""
        agent = context.agent_name(self.fields.get("agent"), self.fields.get("agent_name"))
        root = self.digest[32:48]
        begun = next((m for key in _TIMES if (m := unix_ns(self.fields.get(key)))), None)
        clock = _Clock(begun or context.at_ns, self.messages)
        shared = without_empty(
            {
                SOURCE_ATTRIBUTE: self.source,
                ASSUMED_TIME: None if clock.is_real else "made up",
                names.CONVERSATION: self.id,
            }
        )
        first, last = clock.at(0), clock.at(len(self.messages))
        prompt = self.prompt
        spans = [
            Span(
                trace_id=self.trace_id,
                span_id=root,
                name=f"invoke_agent {agent}",
                start_ns=first,
                end_ns=max(first, last),
                status="ok",
                attributes=without_empty(
                    {
                        **shared,
                        names.OPERATION: "invoke_agent",
                        names.AGENT_NAME: agent,
                        names.INPUT: as_text(message_text(prompt[-1]) if prompt else ""),
                        names.OUTPUT: as_text(self.answer),
                        "user.id": self.fields.get("user_id") or self.fields.get("user"),
                    }
                ),
            )
        ]
        before = calls = since = 0
        for number, message in enumerate(self.messages):
            if message["role"] == "tool":
                spans += self._tools(number, root, shared, clock)
            if message["role"] != "assistant":
                continue
            calls += 1
            history = self.messages[since if calls > MAX_HISTORY else 0 : number]
            spans.append(self._call(number, history, root, shared, clock, before))
            before, since = number, number
        end = max(span.end_ns for span in spans)
        spans[0] = _ended(spans[0], end)
        if rollout_id:
            return tuple(SpanRecord(span=span, rollout_id=rollout_id, fence=1) for span in spans)
        return tuple(SpanRecord(span=span, agent=agent) for span in spans)

    def _call(
        self,
        number: int,
        history: Sequence[form.Message],
        root: str,
        shared: Mapping[str, Any],
        clock: _Clock,
        before: int,
    ) -> Span:
        message = self.messages[number]
        model = self.fields.get("model") or message.get("model")
        tools = structured(self.fields.get("tools") or self.fields.get("functions"))
        usage = structured(self.fields.get("usage"))
        alone = sum(turn["role"] == "assistant" for turn in self.messages) == 1
        spent = usage if isinstance(usage, Mapping) and alone else {}
        return Span(
            trace_id=self.trace_id,
            span_id=digest(self.digest, number)[:16],
            parent_id=root,
            name=f"chat {model}" if model else "chat",
            start_ns=clock.at(before if number else 0),
            end_ns=clock.at(number),
            status="ok",
            attributes=without_empty(
                {
                    **shared,
                    names.OPERATION: "chat",
                    names.PROVIDER: "anthropic" if self.source == "anthropic" else None,
                    names.REQUEST_MODEL: model if isinstance(model, str) else None,
                    names.INPUT_MESSAGES: as_text(_bare(history)),
                    names.OUTPUT_MESSAGES: as_text(_bare([message])),
                    names.TOOL_DEFINITIONS: as_text(tools) if tools else None,
                    names.INPUT_TOKENS: integer(
                        spent.get("prompt_tokens", spent.get("input_tokens"))
                    ),
                    names.OUTPUT_TOKENS: integer(
                        spent.get("completion_tokens", spent.get("output_tokens"))
                    ),
                }
            ),
        )

    def _tools(
        self, number: int, root: str, shared: Mapping[str, Any], clock: _Clock
    ) -> list[Span]:
        """A span for each tool result in a message."""
        calls = {
            part.get("id"): part
            for message in self.messages[:number]
            for part in message["parts"]
            if part.get("type") == "tool_call"
        }
        spans = []
        for at, part in enumerate(self.messages[number]["parts"]):
            if part.get("type") != "tool_call_response":
                continue
            call = calls.get(part.get("id"), {})
            name = call.get("name") or "tool"
            spans.append(
                Span(
                    trace_id=self.trace_id,
                    span_id=digest(self.digest, number, at)[:16],
                    parent_id=root,
                    name=f"execute_tool {name}",
                    start_ns=clock.at(max(number - 1, 0)),
                    end_ns=clock.at(number),
                    status="ok",
                    attributes=without_empty(
                        {
                            **shared,
                            names.OPERATION: "execute_tool",
                            names.TOOL_NAME: name,
                            names.TOOL_CALL_ID: part.get("id"),
                            names.TOOL_ARGUMENTS: as_text(call.get("arguments")),
                            names.TOOL_RESULT: as_text(part.get("response")),
                        }
                    ),
                )
            )
        return spans


class _Clock:
    """Times of the messages: from the source, or one millisecond after the previous message."""

    def __init__(self, begun_ns: int, messages: Sequence[form.Message]) -> None:
        self.is_real = False
        self._at: list[int] = []
        at = begun_ns
        for message in messages:
            stated = message.get("at_ns")
            if stated:
                self.is_real, at = True, stated
            elif self._at:
                at += 1_000_000
            self._at.append(at)
        self._at.append(at)

    def at(self, number: int) -> int:
        """Unix nanoseconds of a message; for an index past the last one, of the end."""
        return self._at[number]


def read(value: Any, context: ImportContext, source: str) -> ImportedRecords:
    """Convert a conversation to spans.

    Raises:
        FormatMismatch: It is not a conversation.
    """
    return ImportedRecords(spans=ImportedConversation(value, source).spans(context))


def message_text(message: form.Message) -> str:
    """Text of a message."""
    return "\n".join(
        str(part.get("content", "")) for part in message["parts"] if part.get("type") == "text"
    )


def has_messages(value: Any) -> bool:
    """Whether a value looks like a conversation."""
    if isinstance(value, list):
        return bool(value) and all(_is_message(message) for message in value)
    if not isinstance(value, Mapping):
        return False
    return _is_completion(value) or messages_key(value) is not None


def messages_key(value: Mapping[str, Any]) -> str | None:
    """The key of a conversation's messages: a usual one, or that of the longest list of them."""
    for key in _MESSAGES:
        messages = _list_in(value.get(key))
        if messages and _is_message(messages[0]):
            return key
    lists = {
        key: len(messages)
        for key, field in value.items()
        if key not in _OTHER_USES and (messages := _list_in(field))
        if all(_is_complete_message(message) for message in messages)
    }
    return max(lists, key=lambda key: lists[key], default=None)


def _list_in(value: Any) -> list[Any]:
    """A list, or the list of objects in a text; empty for anything else."""
    if isinstance(value, str) and _LIST.match(value):
        value = structured(value)
    return value if isinstance(value, list) else []


def _is_completion(value: Mapping[str, Any]) -> bool:
    """Whether a value is a pair of prompt and completion, both text."""
    return isinstance(value.get("prompt"), str) and isinstance(value.get("completion"), str)


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and ("role" in value or "from" in value)


def _is_complete_message(value: Any) -> bool:
    """Whether a value is a message, whatever its key."""
    if not isinstance(value, Mapping):
        return False
    if isinstance(value.get("role"), str):
        return not value.keys().isdisjoint(("content", "parts", "tool_calls", "function_call"))
    return isinstance(value.get("from"), str) and "value" in value


def _messages(value: Any) -> list[form.Message]:
    raw: list[Any] = []
    if isinstance(value, list):
        raw = value
    elif isinstance(value, Mapping):
        system = value.get("system")
        if system:
            raw.append({"role": "system", "content": system})
        key = messages_key(value) or next(
            (key for key in _MESSAGES if isinstance(value.get(key), list)), None
        )
        if key is not None:
            raw += _list_in(value[key])
        else:
            if not _is_completion(value):
                raise FormatMismatch("it has no list of messages")
            raw.append({"role": "user", "content": value["prompt"]})
        for key in _ANSWERS:
            answer = value.get(key)
            parsed = structured(answer)
            if isinstance(parsed, Mapping) and _answered(parsed):
                answer = parsed
            elif _is_message(next(iter(_list_in(answer)), None)):
                answer = _list_in(answer)
            if isinstance(answer, str) and answer:
                raw.append({"role": "assistant", "content": answer})
                break
            if isinstance(answer, list):
                raw += answer
                break
            if isinstance(answer, Mapping):
                raw += _answered(answer)
                break
    else:
        raise FormatMismatch("it is not a conversation: it is neither an object nor a list")
    if not raw:
        raise FormatMismatch("it has no messages")
    if len(raw) > MAX_MESSAGES:
        raise FormatMismatch(f"it has {counted(len(raw), 'message')}; {MAX_MESSAGES} are allowed")
    messages: list[form.Message] = []
    for number, raw_message in enumerate(raw, start=1):
        if not isinstance(raw_message, Mapping):
            raise FormatMismatch(f"message {number} is not an object")
        messages += _message(number, raw_message)
    return messages


def _answered(response: Mapping[str, Any]) -> list[Any]:
    """The message in an API response."""
    choices = response.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        message = choices[0].get("message")
        return [message] if isinstance(message, Mapping) else []
    return [response] if "role" in response else []


def _message(number: int, raw: Mapping[str, Any]) -> list[form.Message]:
    role = raw.get("role", raw.get("from"))
    if not isinstance(role, str) or not role:
        raise FormatMismatch(f"message {number} has no role")
    role = _ROLES.get(role, role)
    content = raw.get("content", raw.get("value", raw.get("text")))
    fields = {**raw, "role": role, "content": content}
    if raw.get("function_call"):
        fields["tool_calls"] = [{"function": raw["function_call"]}]
    message = form.chat_message(fields, role)
    if not isinstance(message.get("parts"), list):
        raise FormatMismatch(f"message {number} has no content")
    message = {"role": role, "parts": [part for part in message["parts"] if isinstance(part, dict)]}
    stamp = next((m for key in _TIMES if (m := unix_ns(raw.get(key)))), None)
    # Anthropic puts tool results into user messages; here they become messages of their own.
    answers = [part for part in message["parts"] if part.get("type") == "tool_call_response"]
    contents = [part for part in message["parts"] if part.get("type") != "tool_call_response"]
    split = []
    if answers:
        split.append({"role": "tool", "parts": answers})
    if contents or not answers:
        split.append({"role": role, "parts": contents})
    return [{**turn, "at_ns": stamp, "model": raw.get("model")} for turn in split]


def _bare(history: Sequence[form.Message]) -> list[form.Message]:
    return [{"role": message["role"], "parts": message["parts"]} for message in history]


def _ended(span: Span, end_ns: int) -> Span:
    return msgspec.structs.replace(span, end_ns=end_ns)
