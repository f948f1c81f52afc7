"""Traces and conversations: one execution of an agent, and the conversation it belongs to."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from ratchet.types.cost import Cost
from ratchet.types.feedback import Feedback
from ratchet.types.notebook import table_html
from ratchet.types.span import Span

SUMS = frozenset({"invoke_agent", "create_agent", "invoke_workflow", "plan"})
"""Operations whose spans repeat the usage of the calls beneath them."""

CALLS = frozenset({"chat", "text_completion", "generate_content", "embeddings"})
"""Operations whose spans are model calls even if they report no usage."""


OWN_AGENTS = frozenset({"coach", "judge"})
"""Agent names of Ratchet's own model calls. Their traces do not count as use of an agent."""


CANDIDATE = "ratchet.candidate_id"
EXPERIMENT = "ratchet.experiment_id"
ARM = "ratchet.arm"
UNIT = "ratchet.unit"
GROUP = "ratchet.group"
"""Attributes of a live call's root span: the candidate that it ran, its canary, its arm and a
hash of its unit there, and the group of users or inputs for a look at subgroups."""

RESOURCES = "ratchet.resources"
"""Attribute of a live call's root span: the versions of its source's resources that it ran, each
as NAME@VERSION; see `short_version`."""

RELEASE = "ratchet.release"
"""Attribute of a live call's root span: the deployed version, as RATCHET_RELEASE names it."""

CALL_START = "ratchet.start"
"""Name of a span that says that a live call has begun: a child of the call's span, without
duration, with the attributes above. It only exists in the call's own trace, and only if the call
did not end soon. A call with a start but no span of its own is under way, or was killed."""


TRANSLATED = "ratchet.translation.api"
"""Span attribute: dialect of the upstream that the gateway translated a call for."""

LEFT_OUT = "ratchet.translation.left_out"
"""Span attribute: the parts of a call that had no equivalent in the upstream's API and were left
out."""

BROKEN_OFF = "ratchet.broken_off"
"""Span attribute: whether a model was at work when its call ended. The call's cost is then
unknown, whatever usage it reported before."""


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of one model call."""

    model: str = ""
    """The model that answered, or else the requested one."""
    provider: str = ""
    """Provider name of OpenTelemetry's GenAI conventions."""
    input_tokens: int = 0
    """All input tokens, including those read from or written to a cache."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    """Of the tokens written to a cache, those kept for an hour."""
    web_searches: int = 0
    """Web searches that the provider made."""
    broken_off: bool = False
    """Whether the model was at work when the call ended, so that its full usage is unknown."""
    tier: str = ""
    """Service tier stated in the answer."""
    cost_usd: float | None = None
    """Dollars, if the recorder of the call reported them."""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of one execution of an agent."""

    trace_id: str
    name: str
    """Name of the root span, or of the first received span while there is no root."""
    agent: str
    """The live agent, or for a rollout the name of its queue."""
    start_ns: int
    """Earliest start of a span, Unix time in nanoseconds."""
    duration_s: float
    """Seconds from the earliest start to the latest end."""
    spans: int
    errors: int
    """Number of spans with status error."""
    rootless: bool = False
    """Whether no root span has been received: it is late, or belongs to another service."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """Dollars of its model calls; None if any price is unknown."""
    known_usd: float = 0.0
    """If `cost_usd` is None: dollars of the calls whose price is known."""
    unpriced: dict[str, int] = {}
    """Number of calls whose price is unknown, by model."""
    models: tuple[str, ...] = ()
    """Names of the called models."""
    conversation_id: str = ""
    rollout_id: str = ""
    """Empty for live traffic."""
    fence: int = 0
    """Attempt of the rollout."""
    feedback: int = 0
    """Number of feedback items about the trace, its conversation and its rollout."""
    worst: float | None = None
    """Lowest feedback value."""
    input: str = ""
    """In lists: the agent's input, as one line, cut off after 300 characters."""
    output: str = ""
    """In lists: the agent's answer, in the same form."""
    error: str = ""
    """In lists: message of the span that failed first, in the same form."""
    user: str = ""
    """In lists: the user that the trace names (`user.id`)."""

    def _repr_html_(self) -> str:
        return table_html(
            f"Trace {self.trace_id[:8]}",
            {
                "name": self.name,
                "agent": self.agent,
                "took": f"{self.duration_s:.3g} s",
                "spans": self.spans,
                "failed": self.errors or "",
                "tokens": f"{self.input_tokens} → {self.output_tokens}",
                "cost": self.cost,
                "models": ", ".join(self.models),
                "conversation": self.conversation_id,
                "rollout": self.rollout_id,
            },
        )

    @property
    def cost(self) -> Cost:
        """Cost of its model calls."""
        if self.cost_usd is not None:
            return Cost(known_usd=self.cost_usd)
        return Cost(known_usd=self.known_usd, unpriced=self.unpriced or {"": 1})


class TraceFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter for traces; unset fields match everything."""

    agent: str | None = None
    """The live agent, or the queue of the rollout."""
    errors: bool = False
    """Only traces with a failed span."""
    since_ns: int | None = None
    """Only traces that began at or after this Unix time in nanoseconds."""
    until_ns: int | None = None
    """Only traces that began before this Unix time in nanoseconds."""
    min_duration_s: float | None = None
    min_cost_usd: float | None = None
    """Only traces whose calls of known price cost at least this many dollars."""
    name: str | None = None
    """Only traces whose name contains this, ignoring case."""
    conversation_id: str | None = None
    feedback: bool = False
    """Only traces with feedback."""
    rollouts: bool = False
    """Include traces of rollouts."""
    own_calls: bool = True
    """Include traces of Ratchet's own model calls; see `OWN_AGENTS`."""
    candidate_id: str | None = None
    """Only live calls that ran this candidate."""
    experiment_id: str | None = None
    """Only live calls in this canary."""
    arm: Literal["baseline", "candidate"] | None = None
    """Only live calls in this arm of a canary."""
    group: str | None = None
    """Only live calls of this group of users or inputs."""
    search: str | None = None
    """Only live traces with all of these words in their input, output, error, user,
    conversation, id, models or names of steps: `"in quotes"` as a phrase, the last word and any
    before an asterisk as a prefix."""
    model: str | None = None
    """Only live traces that called the model with this name."""
    user: str | None = None
    """Only live traces of this user."""

    @property
    def is_indexed(self) -> bool:
        """Whether the index of live traces answers it, rather than their spans."""
        return any(part is not None for part in (self.search, self.model, self.user))

    @property
    def recorded(self) -> dict[str, str]:
        """Values that attributes of the root span must have, by name."""
        wanted = {
            CANDIDATE: self.candidate_id,
            EXPERIMENT: self.experiment_id,
            ARM: self.arm,
            GROUP: self.group,
        }
        return {name: value for name, value in wanted.items() if value is not None}

    def names(self, trace: Trace) -> bool:
        """Whether a trace matches by agent, conversation and start time."""
        return (
            (self.agent is None or trace.agent == self.agent)
            and (self.own_calls or bool(trace.rollout_id) or trace.agent not in OWN_AGENTS)
            and (self.conversation_id is None or trace.conversation_id == self.conversation_id)
            and (self.since_ns is None or trace.start_ns >= self.since_ns)
            and (self.until_ns is None or trace.start_ns < self.until_ns)
        )

    def fits(self, trace: Trace) -> bool:
        """Whether a trace matches by errors, duration, cost, name and feedback."""
        return (
            (not self.errors or trace.errors > 0)
            and (self.min_duration_s is None or trace.duration_s >= self.min_duration_s)
            and (self.min_cost_usd is None or trace.cost.known_usd >= self.min_cost_usd)
            and (self.name is None or self.name.lower() in trace.name.lower())
            and (not self.feedback or trace.feedback > 0)
        )


class TraceFacets(msgspec.Struct, frozen=True, kw_only=True):
    """Values of live traces that match a filter, with the number of traces of each."""

    agents: dict[str, int]
    """By number, most frequent first; at most 50, as for models and users."""
    models: dict[str, int]
    users: dict[str, int]
    failed: int
    """Traces with a failed span."""
    feedback: int
    """Traces with feedback."""
    traces: int
    """Traces that were counted: the newest 10,000 with these words in this time that match."""
    more: bool
    """Whether there are older ones."""


EVERY_TRACE = TraceFilter()
Sort: TypeAlias = Literal["newest", "slowest", "costliest"]


def first_of(traces: Iterable[Trace], sort: Sort, limit: int) -> list[Trace]:
    """Return the first traces in sort order; merges pages of `slowest` or `costliest`."""
    if sort == "newest":
        return sorted(traces, key=lambda trace: trace.start_ns, reverse=True)[:limit]
    if sort == "slowest":
        return heapq.nlargest(limit, traces, key=lambda trace: (trace.duration_s, trace.start_ns))
    return heapq.nlargest(limit, traces, key=lambda trace: (trace.cost.known_usd, trace.start_ns))


class TraceDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A trace with its spans."""

    trace: Trace
    spans: list[Span]
    """In order of their start, up to the requested limit."""
    feedback: list[Feedback]
    """Newest first."""


class SpanSkeleton(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A span without its attributes and events: what a tree or a timeline shows.

    Fields that have their default are left out of JSON: a trace may have 100,000 spans.
    """

    span_id: str
    name: str
    start_ns: int
    """Unix time in nanoseconds."""
    end_ns: int
    parent_id: str | None = None
    operation: str = "step"
    """Value of `gen_ai.operation.name`, such as `chat` or `execute_tool`; else `step`."""
    status: Literal["unset", "ok", "error"] = "unset"
    message: str = ""
    """Error message, cut off if it is long."""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """Dollars, if the span is a model call whose price is known."""
    unmeasured: str = ""
    """Why the cost of a model call is unknown, and how to make it known; empty if it is known."""


class TraceSkeleton(msgspec.Struct, frozen=True, kw_only=True):
    """A trace with the skeletons of its spans."""

    trace: Trace
    spans: list[SpanSkeleton]
    """In order of their start, up to the requested limit."""
    total: int
    """Number of spans of the trace."""
    returned: int
    feedback: list[Feedback]
    """Newest first."""


class TraceRecording(msgspec.Struct, frozen=True, kw_only=True):
    """What a trace recorded of its input and output."""

    trace: Trace
    root: Span
    """The root span, or the first received span while there is no root."""
    call: Span | None = None
    """The call of the agent below a root without an input, such as a web request or a step of
    its own around the call; None if there are several."""
    first_call: Span | None = None
    """The first model call; None if none is recorded."""
    last_call: Span | None = None
    """The last model call; the first if there is only one."""
    feedback: tuple[Feedback, ...] = ()
    """About the trace, its conversation and its rollout; newest first."""
    unfinished: Span | None = None
    """The start of a live call that has not ended; see `CALL_START`."""

    @property
    def ended(self) -> bool:
        """Whether the agent's call has ended.

        Below a span of another service there may never be a root; the call's own span is enough.
        """
        if self.unfinished is not None:
            return False
        marks = (EXPERIMENT, CANDIDATE, RESOURCES, RELEASE)
        return not self.trace.rootless or any(mark in self.attributes for mark in marks)

    @property
    def started_ns(self) -> int:
        """Start of the agent's call, Unix time in nanoseconds."""
        return (self.unfinished or self.call or self.root).start_ns

    @property
    def took_s(self) -> float:
        """Seconds that the agent's call took, once it has ended."""
        call = self.call or self.root
        return (call.end_ns - call.start_ns) / 1e9

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the agent's call, and those of the root that it lacks."""
        call = self.unfinished or self.call
        if call is None:
            return self.root.attributes
        return {**self.root.attributes, **call.attributes}

    @property
    def failed(self) -> bool:
        """Whether the agent's call failed, or the span around it."""
        return any(span.status == "error" for span in (self.root, self.call) if span)


class ObservedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A trace with its spans, in order of their start."""

    recording: TraceRecording
    spans: tuple[Span, ...]
    imported: bool = False
    """Whether it was imported as a rollout, with scores of its own."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation: the traces of one user's exchange with an agent."""

    id: str
    agent: str
    turns: int
    """Number of traces."""
    start_ns: int
    """Start of the first trace, Unix time in nanoseconds."""
    last_ns: int
    """Start of the last trace, Unix time in nanoseconds."""
    feedback: int = 0
    """Number of feedback items about the conversation and its traces."""
    worst: float | None = None
    """Lowest feedback value."""
    title: str = ""
    """Input of its first live trace, in one line; empty until that trace is indexed."""


class ConversationMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: str
    """`user`, `assistant`, `tool`, or any other role that the call recorded."""
    parts: list[Any]
    """Message parts of OpenTelemetry's GenAI conventions, each with its `type`."""
    at_ns: int
    """Unix time in nanoseconds: start of the call that sent the message, or end of the call that
    generated it."""
    trace_id: str
    span_id: str
    """Span of the call that sent or generated it."""
    agent: str = ""
    """Agent that made the call, if the trace has several."""
    nested: bool = False
    """Whether it was exchanged between agents rather than with the user."""


class Instructions(msgspec.Struct, frozen=True, kw_only=True):
    """A system prompt used in a conversation."""

    text: str
    agent: str = ""
    calls: int = 1
    """Number of calls that used it."""


class ConversationLog(msgspec.Struct, frozen=True, kw_only=True):
    """Messages and system prompts of a conversation."""

    conversation: Conversation
    instructions: list[Instructions]
    """System prompts, in order of first appearance."""
    messages: list[ConversationMessage]
    """In order, each once, however often it was resent."""
    cut: bool = False
    """Whether messages are missing: recordings were truncated, or there are too many calls."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a conversation: a call of a model, a tool or an agent, or another span."""

    kind: str
    """Value of `gen_ai.operation.name`, such as `chat` or `execute_tool`; else `step`."""
    name: str
    trace_id: str
    span_id: str
    parent_id: str | None
    start_ns: int
    """Unix time in nanoseconds."""
    duration_s: float
    status: Literal["unset", "ok", "error"]
    message: str = ""
    """Error message, if the status is error."""
    call: ModelCall | None = None
    """Usage, if the step is a model call."""
