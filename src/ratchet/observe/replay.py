"""Recorded results of tools with side effects, which a rollout gets instead of acting."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ratchet.types import Span

REPLAYABLE = "ratchet.replayable"
"""Attribute of a live call of such a tool: its result is JSON data, recorded in full."""

REPLAYED = "ratchet.replayed"
"""Attribute of a call in a rollout that got a recorded result."""

REPLAY = "ratchet.replay"
"""Key in a rollout's metadata for the recorded calls: `[tool, arguments, result]`, as JSON
texts."""

ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"

_canonical = msgspec.json.Encoder(order="sorted")


class Replay:
    """Recorded results; each is used once, in the order in which the calls were made.

    Args:
        calls: The recorded calls, as under `REPLAY`.
    """

    def __init__(self, calls: Iterable[Sequence[str]]) -> None:
        self._results: dict[tuple[str, bytes], deque[Any]] = {}
        for tool, arguments, result in calls:
            results = self._results.setdefault((tool, _key(arguments)), deque())
            results.append(msgspec.json.decode(result))

    def take(self, tool: str, arguments: str) -> tuple[bool, Any]:
        """Whether there is a result for the next call with these arguments, and the result."""
        results = self._results.get((tool, _key(arguments)))
        return (True, results.popleft()) if results else (False, None)


def recorded_calls(spans: Iterable[Span]) -> list[list[str]]:
    """The calls of a trace that can be replayed, in order."""
    calls: list[list[str]] = []
    for span in sorted(spans, key=lambda span: span.start_ns):
        attributes: Mapping[str, Any] = span.attributes
        arguments, result = attributes.get(ARGUMENTS), attributes.get(RESULT)
        if attributes.get(REPLAYABLE) is not True:
            continue
        if isinstance(arguments, str) and isinstance(result, str) and _is_json(result):
            calls.append([span.name, arguments, result])
    return calls


def is_replayable(value: Any, text: str) -> bool:
    """Whether the value can be read back from its recorded text."""
    try:
        return bool(msgspec.json.decode(text) == value)
    except Exception:  # the user's object may raise anything when it is compared
        return False


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def _key(arguments: str) -> bytes:
    """Equal texts for equal arguments, in whatever order they are named."""
    try:
        return _canonical.encode(msgspec.json.decode(arguments))
    except msgspec.DecodeError:
        return arguments.encode("utf-8", "replace")
