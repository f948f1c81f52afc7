"""Tool calls of a stream: deltas are matched by id, then by index, then by arrival.

Servers differ from OpenAI's documentation: an index that is missing, null, or the same for several
calls; an id or a name that each delta repeats; an id that each delta invents.
"""

from __future__ import annotations

from typing import Any

from ratchet.observe.model_apis.bounded_json import (
    MAX_ITEMS,
    GrowingText,
    count,
    holds_json,
    mapping,
    name,
)


def function_of(call: dict[str, Any]) -> dict[str, Any]:
    """The function of a tool call; a custom tool's call has its own name for it."""
    return mapping(call.get("function")) or mapping(call.get("custom"))


def arguments_of(function: dict[str, Any]) -> Any:
    """The arguments of a call: text or any JSON; a custom tool's call has its input as text."""
    arguments = function.get("arguments")
    return function.get("input") if arguments is None else arguments


class StreamedCalls:
    """The tool calls of one message."""

    def __init__(self) -> None:
        self._calls: list[StreamedCall] = []
        self._by_id: dict[str, StreamedCall] = {}
        self._at: dict[int, StreamedCall] = {}
        """The newest call at each index."""

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, delta: dict[str, Any]) -> None:
        """Add a delta to the call that it continues, or as a new call."""
        call_id, index = name(delta.get("id")), count(delta.get("index"))
        call = self._by_id.get(call_id) if call_id else None
        if call is not None and not call.continues("", function_of(delta)):
            call = None  # a server that gives its calls the same id
        if call is None:
            newest = self._calls[-1] if self._calls else None
            call = newest if index is None else self._at.get(index)
            if call is None or not call.continues(call_id, function_of(delta)):
                if len(self._calls) >= MAX_ITEMS:
                    return
                # A call without an index stands behind the one before it.
                place = index if index is not None else newest.place if newest else 0
                call = StreamedCall(place)
                self._calls.append(call)
        if call_id:
            self._by_id[call_id] = call
        if index is not None:
            self._at[index] = call
        call.add(delta)

    def whole(self) -> list[dict[str, Any]]:
        """The calls so far, in the shape of a message that was not streamed."""
        return [call.whole() for call in sorted(self._calls, key=lambda call: call.place)]


class StreamedCall:
    """A tool call.

    Args:
        place: Its index among the calls of the message.
    """

    def __init__(self, place: int = 0) -> None:
        self.place = place
        self._id = ""
        self._tool = ""
        self._text = GrowingText()
        self._arguments: Any = None
        """Arguments that are text, if any came, are in `_text` instead."""

    def continues(self, call_id: str, function: dict[str, Any]) -> bool:
        """Whether a delta belongs to this call rather than to a new one.

        Args:
            call_id: The delta's id, if it is not known to be this call's; else empty.
            function: The delta's function.
        """
        tool, arguments = name(function.get("name")), arguments_of(function)
        if call_id and self._id:
            # Each call names its tool: arguments alone go on, under an id invented for them.
            return not tool and bool(arguments)
        if not tool or not self._tool:
            return True
        if isinstance(arguments, str):
            arguments = arguments.strip()
        return tool == self._tool and not (arguments and self._is_complete())

    def _is_complete(self) -> bool:
        if self._text:
            return self._text.ends_with(("}", "]")) and holds_json(self._text.text())
        return self._arguments is not None

    def add(self, delta: dict[str, Any]) -> None:
        """Add a delta."""
        function = function_of(delta)
        self._id = self._id or name(delta.get("id"))
        self._tool = self._tool or name(function.get("name"))
        arguments = arguments_of(function)
        if isinstance(arguments, str):
            self._text.add(arguments)
            if self._arguments is None:
                self._arguments = ""
        elif arguments is not None:
            self._arguments = arguments

    def function(self) -> dict[str, Any]:
        """Name and arguments so far."""
        return {
            "name": self._tool,
            "arguments": self._text.text() if self._text else self._arguments,
        }

    def whole(self) -> dict[str, Any]:
        """The call so far, in the shape of a call that was not streamed."""
        return {"id": self._id, "function": self.function()}
