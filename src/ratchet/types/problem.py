"""Problems: kinds of failure of an agent in live traffic, and their states."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

ProblemKind: TypeAlias = Literal[
    "error",
    "low_score",
    "negative_feedback",
    "retry",
    "abandonment",
    "loop",
    "refusal",
    "guardrail",
    "cut_off",
]
"""error: a span failed. low_score: an evaluator's score is low. negative_feedback: a user said that
it was wrong. retry: a user asked again. abandonment: a user left without an answer. loop: the same
tool was called with the same arguments again and again. refusal: the agent refused. guardrail: a
content filter or a guardrail stopped the answer. cut_off: the answer ended at the token limit."""

ProblemState: TypeAlias = Literal["open", "learning", "proposed", "fixed", "returned", "ignored"]

PROBLEM_TRANSITIONS: dict[ProblemState, frozenset[ProblemState]] = {
    "open": frozenset({"learning", "fixed", "ignored"}),
    # Back to open: learning found nothing that is proved.
    "learning": frozenset({"open", "returned", "proposed", "fixed", "ignored"}),
    # Back: the pull request was closed without a merge, or the release rolled back.
    "proposed": frozenset({"open", "returned", "learning", "fixed", "ignored"}),
    "fixed": frozenset({"open", "returned", "ignored"}),
    "returned": frozenset({"learning", "fixed", "ignored"}),
    "ignored": frozenset({"open"}),
}
"""Allowed changes of state. `returned` is an open problem that a release had fixed."""

NEEDS_WORK: frozenset[ProblemState] = frozenset({"open", "returned"})
"""States in which nobody works on the problem yet."""


class TraceReading(msgspec.Struct, frozen=True, kw_only=True):
    """What a coach says of a failing trace that it read."""

    wrong: str = ""
    """What went wrong in this trace, in a sentence; empty if the coach saw nothing wrong."""
    mistake: str = ""
    """The mistake, in words that also fit other traces with it."""
    model: str = ""
    """The model that read it."""
    cost_usd: float | None = None
    """The trace's share of the call's cost, in dollars; None if its price is unknown."""


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """A trace in which something failed."""

    id: str
    """Hash of what failed, where, in which trace: if found again, it is the same occurrence."""
    trace_id: str
    agent: str
    kind: ProblemKind
    place: str = ""
    """Where: a span's name, a tool, an evaluator or a field of the answer; empty for the answer."""
    text: str
    """The text that is compared with other occurrences, without numbers and ids: a message, or a
    question with the comment on its answer."""
    is_message: bool = False
    """Whether the text is a message of a program, such as an error or a rationale."""
    acts: tuple[str, ...] = ()
    """Names of the tools that the agent called in the trace, sorted; compared like words."""
    detail: str = ""
    """What a person reads: the error message, rationale or comment, as recorded, or else the kind
    of failure in words."""
    input: str = ""
    """The agent's input, cut off if it is long."""
    output: str = ""
    """The agent's output, cut off if it is long."""
    loss: float = 1.0
    """How bad it is, from 0 to 1."""
    cost_usd: float | None = None
    """Dollars of the trace's model calls; None if unknown."""
    at: float
    """Unix seconds."""
    problem_id: str = ""
    """The problem that it belongs to; empty while it resembles too few others."""
    reading: TraceReading | None = None
    """What the coach says of the trace; None if it has not read it."""

    @property
    def mistake(self) -> str:
        """The mistake that the coach named; empty for none."""
        return self.reading.mistake if self.reading is not None else ""

    @property
    def wrong(self) -> str:
        """What went wrong, for a person: the coach's words, or else what was recorded."""
        return (self.reading.wrong if self.reading is not None else "") or self.detail


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of failure, which keeps its id for as long as it exists."""

    id: str
    agent: str
    """The live agent's name."""
    kind: ProblemKind
    place: str = ""
    title: str
    """What goes wrong, in a few words."""
    is_named: bool = False
    """Whether a coach wrote the title."""
    state: ProblemState = "open"
    reason: str = ""
    """Why it is in its state, in one sentence."""
    by: str = ""
    """Who set the state; empty for Ratchet."""
    first_seen: float
    """Unix seconds."""
    last_seen: float
    changed_at: float
    """When its state changed, in Unix seconds."""
    fixed_at: float = 0.0
    """When the release that fixed it became active; 0 if none did."""
    release_id: str = ""
    """The release that fixed it, or is proposed to."""
    run_ids: tuple[str, ...] = ()
    """Runs that worked on it, oldest first."""
    requests: tuple[str, ...] = ()
    """URLs of its pull requests, oldest first."""
    evaluator: str = ""
    """The evaluator that measures it; empty if none does."""
    frozen_set: str = ""
    """Id of the frozen set that guards its fix; empty if there is none."""
    version: int = 1
    """Counts its changes."""


class ProblemTransition(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a problem's state."""

    source: ProblemState
    target: ProblemState
    reason: str
    by: str = ""
    """Who set it; empty for Ratchet."""
    at: float
    """Unix seconds."""


class ProblemReport(msgspec.Struct, frozen=True, kw_only=True):
    """A problem with what it costs."""

    problem: Problem
    traces: int
    """Number of its traces in the window."""
    share: float
    """Share of the agent's traces in the window, from 0 to 1."""
    loss: float
    """Mean loss of its occurrences, from 0 to 1."""
    days: tuple[int, ...]
    """Occurrences of each day of the window, oldest first."""
    cost_usd: float | None
    """Dollars of its traces in the window; None if any price is unknown."""
    examples: tuple[Occurrence, ...]
    """Some occurrences, newest first."""

    @property
    def weight(self) -> float:
        """Its cost to the agent: share × loss. The costliest problems are worked on first."""
        return self.share * self.loss
