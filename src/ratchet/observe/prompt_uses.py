"""Reads from recorded spans which agent made which model call with which system prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from ratchet.observe.dialects import names
from ratchet.observe.system_prompts import entries, system_prompts, texts_of
from ratchet.types import PromptUse, Span
from ratchet.types.trace import SUMS

_AGENTS = frozenset({"invoke_agent", "create_agent"})


class _Step(NamedTuple):
    parent_id: str | None
    agent: str
    """The agent whose run the span is; empty for other spans."""


class _Call(NamedTuple):
    trace_id: str
    span_id: str
    agent: str
    """The agent that the call itself names."""
    prompts: tuple[str, ...]
    tools: frozenset[str]


class RecordedCalls:
    """The system prompts of recorded model calls, and the agents that made them.

    Args:
        spans: Spans of whole traces, in any order.
    """

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._steps: dict[tuple[str, str], _Step] = {}
        self._calls: list[_Call] = []
        self._runs: list[_Call] = []
        """Runs of agents; some instrumentations repeat the prompt of their calls there."""
        self._said: dict[int, int] = {}
        """When each text was first said by a model, by its hash."""
        self._sent: dict[int, int] = {}
        """When each text was first sent as a system prompt, by its hash."""
        for span in spans:
            self.add(span)

    def add(self, span: Span) -> bool:
        """Read a span; returns whether it is a model call with a system prompt."""
        operation = span.attributes.get(names.OPERATION)
        agent_name = span.attributes.get(names.AGENT_NAME)
        agent = agent_name if isinstance(agent_name, str) else ""
        around = (agent or span.name) if operation in _AGENTS else ""
        self._steps[span.trace_id, span.span_id] = _Step(span.parent_id, around)
        prompts = tuple(system_prompts(span.attributes))
        for text in prompts:
            _keep_first(self._sent, text, span.start_ns)
        for message in entries(span.attributes.get(names.OUTPUT_MESSAGES)):
            for text in texts_of(message):
                _keep_first(self._said, text, span.end_ns)
        if prompts:
            tools = frozenset(_tool_names(span.attributes.get(names.TOOL_DEFINITIONS)))
            call = _Call(span.trace_id, span.span_id, agent, prompts, tools)
            (self._runs if operation in SUMS else self._calls).append(call)
        return bool(prompts) and operation not in SUMS

    def __len__(self) -> int:
        """Number of calls with a system prompt."""
        return sum(1 for _ in self._told())

    def uses(self) -> list[PromptUse]:
        """Each text once for each agent and its tools.

        The agent is the one that the call names, or else the nearest one around it.
        """
        counts: Counter[PromptUse] = Counter()
        for call in self._told():
            speaker = call.agent or self._around(call)
            counts.update(
                PromptUse(text, speaker, call.tools)
                for text in call.prompts
                if not self._is_history(text)
            )
        return [msgspec.structs.replace(use, count=count) for use, count in counts.items()]

    def _is_history(self, text: str) -> bool:
        """Whether a model said it before it was first sent as a system prompt."""
        key = hash(text.strip())
        return key in self._said and self._said[key] <= self._sent[key]

    def _told(self) -> Iterator[_Call]:
        """The calls, and the runs of agents none of whose calls shows its prompt."""
        recorded_prompts = {(call.trace_id, text) for call in self._calls for text in call.prompts}
        yield from self._calls
        for run in self._runs:
            if not any((run.trace_id, text) in recorded_prompts for text in run.prompts):
                yield run

    def _around(self, call: _Call) -> str:
        """Name of the nearest agent around a call; empty if there is none."""
        visited: set[str] = set()
        span_id: str | None = call.span_id
        while span_id is not None and span_id not in visited:
            visited.add(span_id)
            step = self._steps.get((call.trace_id, span_id))
            if step is None:
                break
            if step.agent:
                return step.agent
            span_id = step.parent_id
        return ""


def _keep_first(times: dict[int, int], text: str, ns: int) -> None:
    key = hash(text.strip())
    times[key] = min(ns, times.get(key, ns))


def _tool_names(definitions: Any) -> Iterator[str]:
    for tool in entries(definitions):
        function = tool.get("function")  # as OpenAI's chat completions nest it
        inner = function.get("name") if isinstance(function, dict) else None
        name = tool.get("name") or inner or tool.get("type")
        if isinstance(name, str):
            yield name
