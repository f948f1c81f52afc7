"""Traces: one run of an agent as a whole, and the conversations that runs belong to."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from ratchet.types.cost import Cost
from ratchet.types.feedback import Feedback
from ratchet.types.span import Span

SUMS = frozenset({"invoke_agent", "create_agent", "invoke_workflow", "plan"})
"""Operations whose spans report the usage of the calls beneath them once more."""

CALLS = frozenset({"chat", "text_completion", "generate_content", "embeddings"})
"""Operations whose spans are calls of a model, also where they report no usage."""


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of a model used."""

    model: str = ""
    """The one that answered, or else the one that was asked for."""
    provider: str = ""
    """As OpenTelemetry's GenAI conventions call it."""
    input_tokens: int = 0
    """All of the input, with what came from or went into a cache."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    tier: str = ""
    """The service tier that the answer names."""
    cost_usd: float | None = None
    """Dollars, where whoever recorded the call knew them."""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """One run of an agent, in figures."""

    trace_id: str
    name: str
    """Of the root; of the first span that came while there is no root."""
    agent: str
    """The live agent; for an attempt of a rollout its queue."""
    start_ns: int
    """Unix time in nanoseconds, of the earliest start."""
    duration_s: float
    """From the earliest start to the latest end."""
    spans: int
    errors: int
    """Spans whose status is error."""
    rootless: bool = False
    """Whether no span without a parent has come: it comes late, or is somebody else's."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """Dollars of its model calls; None when the price of one is unknown."""
    known_usd: float = 0.0
    """When `cost_usd` is None: dollars of the calls whose price is known."""
    unpriced: dict[str, int] = {}
    """Number of calls whose price is unknown, by model."""
    models: tuple[str, ...] = ()
    """Those that were called, by name."""
    conversation_id: str = ""
    rollout_id: str = ""
    """Empty for live traffic."""
    fence: int = 0
    """The rollout's attempt."""
    feedback: int = 0
    """Statements about it, about its conversation and about its rollout."""
    worst: float | None = None
    """The lowest value in its feedback."""

    @property
    def cost(self) -> Cost:
        """What its model calls cost, as far as their prices are known."""
        if self.cost_usd is not None:
            return Cost(known_usd=self.cost_usd)
        return Cost(known_usd=self.known_usd, unpriced=self.unpriced or {"": 1})


class TraceFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which traces; what is left out does not matter."""

    agent: str | None = None
    """The live agent, or the queue of the rollout."""
    errors: bool = False
    """Only those with a span that failed."""
    since_ns: int | None = None
    """Only those that began then or later, in Unix nanoseconds."""
    until_ns: int | None = None
    """Only those that began before."""
    min_duration_s: float | None = None
    min_cost_usd: float | None = None
    """Only those whose calls of known price cost so many dollars or more."""
    name: str | None = None
    """Only those whose name has this in it, in whatever case."""
    conversation_id: str | None = None
    feedback: bool = False
    """Only those that somebody said something of."""
    rollouts: bool = False
    """Those of rollouts, too."""

    def names(self, trace: Trace) -> bool:
        """Whether a trace is wanted by what it is: its agent, its conversation, when it began."""
        return (
            (self.agent is None or trace.agent == self.agent)
            and (self.conversation_id is None or trace.conversation_id == self.conversation_id)
            and (self.since_ns is None or trace.start_ns >= self.since_ns)
            and (self.until_ns is None or trace.start_ns < self.until_ns)
        )

    def fits(self, trace: Trace) -> bool:
        """Whether a trace is wanted, by its figures, its name and its feedback."""
        return (
            (not self.errors or trace.errors > 0)
            and (self.min_duration_s is None or trace.duration_s >= self.min_duration_s)
            and (self.min_cost_usd is None or trace.cost.known_usd >= self.min_cost_usd)
            and (self.name is None or self.name.lower() in trace.name.lower())
            and (not self.feedback or trace.feedback > 0)
        )


EVERY = TraceFilter()
Sort: TypeAlias = Literal["newest", "slowest", "costliest"]


def first_of(traces: Iterable[Trace], sort: Sort, limit: int) -> list[Trace]:
    """Those that come first in an order: to lay pages of `slowest` or `costliest` together."""
    if sort == "newest":
        return sorted(traces, key=lambda trace: trace.start_ns, reverse=True)[:limit]
    if sort == "slowest":
        return heapq.nlargest(limit, traces, key=lambda one: (one.duration_s, one.start_ns))
    return heapq.nlargest(limit, traces, key=lambda one: (one.cost.known_usd, one.start_ns))


class TraceDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A trace with its spans."""

    trace: Trace
    spans: list[Span]
    """In the order they started; as many as were asked for."""
    feedback: list[Feedback]
    """Newest first."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What several runs of an agent have in common: somebody who goes on talking to it."""

    id: str
    agent: str
    turns: int
    """Traces."""
    start_ns: int
    """Unix time in nanoseconds, when the first trace began."""
    last_ns: int
    """Unix time in nanoseconds, when the last trace began."""
    feedback: int = 0
    """Statements about it and about its traces."""
    worst: float | None = None
    """The lowest value in its feedback."""


class ConversationMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: str
    """`user`, `assistant`, `tool`, or as the call named it."""
    parts: list[Any]
    """As OpenTelemetry's GenAI conventions have them: `type` says of what kind each is."""
    at_ns: int
    """Unix time in nanoseconds, when the call began that brought it, or ended that made it."""
    trace_id: str
    span_id: str
    """The call that brought it."""
    agent: str = ""
    """The agent, among several in a trace, whose call that was."""
    nested: bool = False
    """Whether it was said between agents, not to or by whoever talks to them."""


class Instructions(msgspec.Struct, frozen=True, kw_only=True):
    """A system prompt that a conversation was held under."""

    text: str
    agent: str = ""
    calls: int = 1
    """How many calls were made under it."""


class ConversationLog(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as it was held."""

    conversation: Conversation
    instructions: list[Instructions]
    """System prompts, in the order they first appeared."""
    messages: list[ConversationMessage]
    """In order, each once, however often it was sent."""
    cut: bool = False
    """Whether something is missing: it was too long to be recorded, or there are too many calls."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a conversation: a call of a model, a tool, an agent, or another step."""

    kind: str
    """As in `gen_ai.operation.name`, such as `chat` or `execute_tool`; else `step`."""
    name: str
    trace_id: str
    span_id: str
    parent_id: str | None
    start_ns: int
    """Unix time in nanoseconds."""
    duration_s: float
    status: Literal["unset", "ok", "error"]
    message: str = ""
    """What went wrong, when the status is error."""
    call: ModelCall | None = None
    """What it used, when it called a model."""
