"""The tokens of conversations that were answered here, for reuse in their continuations.

A model's answer as text need not give the same tokens when it is read again. Where the messages of
a request extend a conversation of this server, its prompt is what was read and written then, and
only what is new is rendered.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ratchet.models.policy.tokens import ChatTokenizer
from ratchet.models.policy.tool_calls import Message, in_text

MAX_CONVERSATIONS = 4096
"""Maximum number of conversations kept; the least recently used are dropped."""


class AnsweredConversations:
    """Remembers the ids of answered conversations by their messages.

    Args:
        tokenizer: The model's.
        limit: How many are remembered.
    """

    def __init__(self, tokenizer: ChatTokenizer, limit: int = MAX_CONVERSATIONS) -> None:
        self._tokenizer, self._kept = tokenizer, limit
        self._ids: OrderedDict[bytes, array[int]] = OrderedDict()
        self._knows_tools = "tools" in tokenizer.template
        eos = tokenizer.eos_id
        self._end = "" if eos is None else tokenizer.decode([eos], special=True)

    def prompt(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], scope: str
    ) -> list[int]:
        """The prompt of a conversation.

        Args:
            messages: Normalised messages (`normalise`).
            tools: The tools.
            scope: Conversations of different scopes are not taken for one another.

        Raises:
            InputError: The template refuses the messages.
        """
        text = self._text(messages, tools, answer=True)
        keys = self._keys(messages, tools, scope)
        for count in range(len(messages) - 1, 0, -1):
            ids = self._ids.get(keys[count - 1])
            if ids is None or messages[count - 1]["role"] != "assistant":
                continue
            self._ids.move_to_end(keys[count - 1])
            suffix = self._rest(
                messages, tools, count, text, ended=ids[-1] == self._tokenizer.eos_id
            )
            if suffix is not None:
                return [*ids, *self._tokenizer.encode(suffix)]
        return self._tokenizer.encode(text)

    def answered(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        scope: str,
        ids: Sequence[int],
    ) -> None:
        """Remember the ids of prompt and answer; the last of the messages is the answer."""
        key = self._keys(messages, tools, scope)[-1]
        self._ids[key] = array("i", ids)
        self._ids.move_to_end(key)
        while len(self._ids) > self._kept:
            self._ids.popitem(last=False)

    def _rest(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        count: int,
        text: str,
        *,
        ended: bool,
    ) -> str | None:
        """The text after an answer; None if the template now renders what precedes otherwise."""
        if not self._end:
            return None
        prefix = self._text(messages[: count - 1], tools, answer=True)
        past = self._text(messages[:count], tools, answer=False)
        end = past.rfind(self._end, len(prefix))
        if not past.startswith(prefix) or not text.startswith(past) or end < 0:
            return None
        return text[end + len(self._end) if ended else end :]

    def _text(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, answer: bool
    ) -> str:
        if not self._knows_tools:
            return self._tokenizer.render_text(in_text(messages, tools), answer=answer)
        return self._tokenizer.render_text(messages, tools, answer=answer)

    def _keys(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], scope: str
    ) -> list[bytes]:
        """A hash of each beginning of a conversation."""
        key = hashlib.sha256(msgspec.json.encode([scope, list(tools)], order="sorted")).digest()
        keys = []
        for message in messages:
            encoded = msgspec.json.encode(message, order="sorted")
            key = hashlib.sha256(key + encoded).digest()
            keys.append(key)
        return keys


def normalise(message: Mapping[str, Any]) -> Message:
    """A message as templates expect it, and as it is compared with others.

    Raises:
        ValueError: It has a part that the model cannot read; the text names it.
    """
    role = message.get("role")
    if role not in ("system", "developer", "user", "assistant", "tool"):
        raise ValueError(f"There is no role {role!r}.")
    out: Message = {
        "role": "system" if role == "developer" else role,
        "content": _text_of(message.get("content")),
    }
    for key in ("name", "tool_call_id"):
        if message.get(key):
            out[key] = message[key]
    calls = message.get("tool_calls")
    if calls:
        if not isinstance(calls, list):
            raise ValueError("`tool_calls` is not a list.")
        out["tool_calls"] = [_call_of(call) for call in calls]
    return out


def _text_of(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for part in content if isinstance(content, list) else [content]:
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            raise ValueError(f"The model reads only text, not {kind!r}.")
        texts.append(part["text"])
    return "".join(texts)


def _call_of(call: Any) -> Message:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ValueError("A tool call has no function with a name.")
    arguments = function.get("arguments") or "{}"
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            pass  # what the model wrote was no JSON: the template gets it as text
    about = {"name": function["name"], "arguments": arguments}
    return {"id": str(call.get("id", "")), "type": "function", "function": about}
