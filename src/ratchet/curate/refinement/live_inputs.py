"""Inputs of live traffic: what people asked the agent, oldest first."""

from __future__ import annotations

import json
from typing import Any

from ratchet.observe.dialects import names
from ratchet.store import Store
from ratchet.types import Span

LIMIT = 2000
"""Inputs read, the newest."""

MOST_SPANS = 200_000
"""Spans searched for them."""

PAGE = 1000


def live_inputs(store: Store, agent: str | None = None, limit: int = LIMIT) -> list[Any]:
    """Read the inputs of the newest live traces.

    The input of a trace is that of its root span: the recorded argument, or else the last message
    of the user. Traces without content are left out.

    Args:
        store: The store.
        agent: Only this agent's; by default all but the coach's.
        limit: Number of inputs.
    """
    agents = [agent] if agent is not None else [a for a in store.spans.agents() if a != "coach"]
    found: list[tuple[int, Any]] = []
    for name in agents:
        cursor: str | None = None
        mine: list[tuple[int, Any]] = []
        for _ in range(MOST_SPANS // PAGE):
            spans, cursor = store.spans.live(name, PAGE, cursor)
            roots = ((span.start_ns, _input(span)) for span in spans if span.parent_id is None)
            mine += [(at, value) for at, value in roots if value is not None]
            if cursor is None or len(mine) >= limit:
                break
        found += mine
    found.sort(key=lambda each: each[0])
    return [value for _, value in found[-limit:]]


def _input(span: Span) -> Any:
    value = _decoded(span.attributes.get(names.INPUT))
    if value is not None:
        return value
    messages = _decoded(span.attributes.get(names.INPUT_MESSAGES))
    if not isinstance(messages, list):
        return None
    for message in reversed(messages):
        if isinstance(message, dict) and message.get("role") == "user":
            parts = message.get("parts") or []
            texts = [p.get("content") for p in parts if isinstance(p, dict)]
            return "\n".join(text for text in texts if isinstance(text, str)) or None
    return None


def _decoded(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
