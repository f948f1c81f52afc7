"""Brings the parts of a streamed chat completion in sequence: each ends before the next begins."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from ratchet.observe.model_apis.bounded_json import mapping
from ratchet.server.gateway.translation.content import listed

PartKind: TypeAlias = Literal["reasoning", "text", "refusal", "call"]

_TEXTS: tuple[tuple[str, PartKind], ...] = (
    ("reasoning_content", "reasoning"),
    ("reasoning", "reasoning"),
    ("content", "text"),
    ("refusal", "refusal"),
)


class AnswerPart:
    """A part of an answer."""

    def __init__(self, kind: PartKind, position: int) -> None:
        self.kind = kind
        self.position = position
        """Number of parts before it."""
        self.text = ""
        """Its text, or a call's arguments, as received so far."""
        self.id = ""
        self.name = ""
        self.thinking: dict[str, Any] = {}
        """Of reasoning: Anthropic's block, with its signature."""
        self.begun = False
        self.sent = 0
        """Number of characters of the text that were passed on."""


Step: TypeAlias = tuple[Literal["start", "more", "stop"], AnswerPart, str]


class PartSequence:
    """Takes deltas of one choice, and says where parts start, continue and stop.

    Servers may write parallel calls in turns. The other APIs have one after the other, so a call
    that begins before the arguments of the one before it are whole JSON waits.
    """

    def __init__(self) -> None:
        self._waiting: list[AnswerPart] = []
        self._calls: dict[int, AnswerPart] = {}
        self._count = 0

    def add(self, delta: Mapping[str, Any]) -> list[Step]:
        """Take a delta of the message."""
        for key, kind in _TEXTS:
            text = delta.get(key)
            if isinstance(text, list):  # some servers write parts
                text = "".join(str(part.get("text") or "") for part in listed(text))
            if isinstance(text, str) and text:
                self._last(kind).text += text
        for block in listed(delta.get("thinking_blocks")):
            redacted = block.get("type") == "redacted_thinking"
            part = self._new("reasoning") if redacted else self._last("reasoning")
            part.thinking = block
        for call in listed(delta.get("tool_calls")):
            self._call(call)
        return self._steps(False)

    def end(self) -> list[Step]:
        """Stop what has not stopped."""
        return self._steps(True)

    def _last(self, kind: PartKind) -> AnswerPart:
        if self._waiting and self._waiting[-1].kind == kind and not self._waiting[-1].thinking:
            return self._waiting[-1]
        return self._new(kind)

    def _new(self, kind: PartKind) -> AnswerPart:
        part = AnswerPart(kind, self._count)
        self._count += 1
        self._waiting.append(part)
        return part

    def _call(self, call: Mapping[str, Any]) -> None:
        function = mapping(call.get("function"))
        index = call.get("index")
        part = self._calls.get(index) if isinstance(index, int) else None
        call_id = str(call.get("id") or "")
        # Some servers give all calls the index 0, and each its id.
        if part is None or (call_id and part.id and call_id != part.id):
            part = self._new("call")
            self._calls[index if isinstance(index, int) else part.position] = part
        part.id = part.id or call_id
        part.name = part.name or str(function.get("name") or "")
        part.text += str(function.get("arguments") or "")

    def _steps(self, last: bool) -> list[Step]:
        steps: list[Step] = []
        while self._waiting:
            part = self._waiting[0]
            if not part.begun:
                if part.kind == "call" and not part.name and not last:
                    break
                part.begun = True
                steps.append(("start", part, ""))
            if part.sent < len(part.text):
                steps.append(("more", part, part.text[part.sent :]))
                part.sent = len(part.text)
            followed = len(self._waiting) > 1 and (part.kind != "call" or _is_whole(part.text))
            if not (last or followed):
                break
            steps.append(("stop", part, ""))
            del self._waiting[0]
        return steps


def _is_whole(arguments: str) -> bool:
    try:
        json.loads(arguments)
    except (ValueError, RecursionError):
        return False
    return True
