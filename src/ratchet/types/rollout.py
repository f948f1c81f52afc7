"""Rollouts and attempts: one execution of an agent on one task with one candidate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from ratchet.types.cost import Cost
from ratchet.types.hashing import content_hash
from ratchet.types.score import Score
from ratchet.types.span import Span
from ratchet.types.task import Task

RolloutStatus: TypeAlias = Literal[
    "queued", "running", "succeeded", "failed", "timed_out", "crashed", "inconclusive", "cancelled"
]
AttemptStatus: TypeAlias = Literal[
    "running",
    "succeeded",
    "failed",
    "timed_out",
    "crashed",
    "inconclusive",
    "cancelled",
    "released",
    "expired",
]

Cause: TypeAlias = Literal["", "exception", "memory", "timeout", "crash"]
"""What ended an attempt that did not succeed. exception: the agent raised. memory: it asked for
more memory than it may have. timeout: it was cut off. crash: its process died. Empty: none of
these."""

ROLLOUT_TRANSITIONS: dict[RolloutStatus, frozenset[RolloutStatus]] = {
    "queued": frozenset({"running", "cancelled"}),
    # Back to queued: the attempt failed and may be retried, was given back, or its lease expired.
    "running": frozenset(
        {"queued", "succeeded", "failed", "timed_out", "crashed", "inconclusive", "cancelled"}
    ),
    "succeeded": frozenset(),
    "failed": frozenset(),
    "timed_out": frozenset(),
    "crashed": frozenset(),
    "inconclusive": frozenset(),
    "cancelled": frozenset(),
}
"""Which status may follow which; a status that nothing follows is final."""

FINAL: frozenset[RolloutStatus] = frozenset(s for s, n in ROLLOUT_TRANSITIONS.items() if not n)

SPOILED: frozenset[AttemptStatus] = frozenset({"failed", "timed_out", "crashed"})
"""Ends of an attempt that count towards `max_attempts`. An attempt whose runner went away
(`expired`, `released`) says nothing against the rollout and is limited by MAX_DELIVERIES alone."""

MAX_DELIVERIES = 50
"""How often a rollout is handed out at most, for whatever reason."""

assert set(ROLLOUT_TRANSITIONS) == set(get_args(RolloutStatus))


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of an agent on one task with one candidate."""

    id: str
    queue: str
    """Which runners may take it: the agent's entry and the version of its source."""
    candidate_id: str
    task_id: str
    input: Any
    expected: Any = None
    metadata: dict[str, Any] = {}
    seed: int = 0
    """For the agent's own randomness; the repetition's number is folded in."""
    purpose: str = ""
    """Why it runs, such as `improve/RUN/learn`, `eval`, `live`."""
    status: RolloutStatus = "queued"
    max_attempts: int = 2
    """Attempts that the agent may spoil before the rollout ends so."""
    failures: int = 0
    """Attempts that the agent spoiled so far."""
    fence: int = 0
    """Fencing token of the newest claim; also how often it was handed out."""
    created_at: float = 0.0
    """Unix time in seconds."""
    started_at: float | None = None
    """Start of the attempt that ended it, unix seconds."""
    ended_at: float | None = None
    """End of the attempt that ended it, unix seconds."""
    output: Any = None
    """What the agent returned; any JSON value."""
    error: str = ""
    """What the agent raised, or why it was stopped."""
    duration_s: float | None = None
    """Seconds from the call of the agent to its return, in the attempt that ended it."""
    cost_usd: float | None = 0.0
    """Dollars of its model calls in all attempts; None when the price of one is unknown."""
    known_usd: float = 0.0
    """When `cost_usd` is None: dollars of the calls whose price is known."""
    unpriced: dict[str, int] = {}
    """Number of calls whose price is unknown, by model."""

    @property
    def cost(self) -> Cost:
        """What its model calls cost, as far as their prices are known."""
        if self.cost_usd is not None:
            return Cost(known_usd=self.cost_usd)
        return Cost(known_usd=self.known_usd, unpriced=self.unpriced or {"": 1})

    @classmethod
    def of(
        cls,
        task: Task,
        candidate_id: str,
        *,
        scope: Sequence[Any],
        seed_parts: Sequence[Any],
        queue: str,
        purpose: str,
        max_attempts: int,
    ) -> Rollout:
        """A rollout of a candidate on a task, named by its content: the same is never run twice.

        Args:
            task: The task.
            candidate_id: The candidate.
            scope: What else tells this rollout from others, such as the run and the repetition.
            seed_parts: What the seed depends on beside the task. Leave the candidate out of it, and
                pairs share their seed.
            queue: Which runners may take it.
            purpose: Why it runs.
            max_attempts: Attempts that the agent may spoil.
        """
        content = task.content()
        return cls(
            id=content_hash([*scope, candidate_id, task.id, content]),
            queue=queue,
            candidate_id=candidate_id,
            task_id=task.id,
            input=task.input,
            expected=task.expected,
            metadata=task.metadata,
            seed=int(content_hash([*seed_parts, content])[:8], 16),
            purpose=purpose,
            max_attempts=max_attempts,
        )


class Claim(msgspec.Struct, frozen=True):
    """The right to run one attempt of a rollout until the lease ends."""

    rollout: Rollout
    fence: int
    lease_until: float
    """Unix seconds; a heartbeat moves it."""
    token: str = ""
    """Key for this attempt alone, at the gateway and for spans; a server gives it."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one attempt ended, as its executor reports it."""

    rollout_id: str
    fence: int
    status: AttemptStatus
    started_at: float
    ended_at: float
    duration_s: float | None
    """Seconds from the call of the agent to its return; None when the agent was not called."""
    output: Any = None
    error: str = ""
    """A sentence for people; nothing is decided by it."""
    cause: Cause = ""
    cost_usd: float | None = 0.0
    """Dollars of model calls that no span records; None when they are unknown. What the spans
    record is counted by the store."""
    spans: tuple[Span, ...] = ()
    scores: tuple[Score, ...] = ()
    """Scores that the agent itself gave, such as a returned reward."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try at a rollout."""

    rollout_id: str
    fence: int
    worker: str
    """Who runs it, as HOST/PID/START."""
    status: AttemptStatus
    lease_until: float
    started_at: float
    ended_at: float | None = None
    error: str = ""
