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
"""Why an attempt did not succeed. exception: the agent raised. memory: it exceeded its memory
limit. timeout: it was stopped. crash: its process died. Empty: none of these."""

ROLLOUT_TRANSITIONS: dict[RolloutStatus, frozenset[RolloutStatus]] = {
    "queued": frozenset({"running", "cancelled"}),
    # Back to queued: the attempt failed and may be retried, was released, or its lease expired.
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
"""Allowed status transitions. A status without successors is final."""

FINAL: frozenset[RolloutStatus] = frozenset(s for s, n in ROLLOUT_TRANSITIONS.items() if not n)

SPOILED: frozenset[AttemptStatus] = frozenset({"failed", "timed_out", "crashed"})
"""Attempt statuses that count towards `max_attempts`. An attempt whose runner disappeared
(`expired`, `released`) does not count; only MAX_DELIVERIES limits those."""

MAX_DELIVERIES = 50
"""Maximum number of times that a rollout is claimed, for whatever reason."""

assert set(ROLLOUT_TRANSITIONS) == set(get_args(RolloutStatus))


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of an agent on one task with one candidate."""

    id: str
    queue: str
    """Queue that it is claimed from: the agent's entry and the version of its source."""
    candidate_id: str
    task_id: str
    input: Any
    expected: Any = None
    metadata: dict[str, Any] = {}
    seed: int = 0
    """Seed for the agent's own randomness; it depends on the repetition."""
    purpose: str = ""
    """Its purpose, such as `improve/RUN/learn`, `eval`, `live`."""
    status: RolloutStatus = "queued"
    max_attempts: int = 2
    """Failed attempts after which the rollout ends with the last one's status."""
    failures: int = 0
    """Failed attempts so far."""
    fence: int = 0
    """Fencing token of the newest claim, which is also the number of claims."""
    created_at: float = 0.0
    """Unix seconds."""
    started_at: float | None = None
    """Start of its final attempt, Unix seconds."""
    ended_at: float | None = None
    """End of its final attempt, Unix seconds."""
    output: Any = None
    """Return value of the agent; any JSON value."""
    error: str = ""
    """The agent's exception, or why it was stopped."""
    duration_s: float | None = None
    """Seconds from the call of the agent to its return, in the final attempt."""
    cost_usd: float | None = 0.0
    """Dollars of its model calls in all attempts; None if any price is unknown."""
    known_usd: float = 0.0
    """If `cost_usd` is None: dollars of the calls whose price is known."""
    unpriced: dict[str, int] = {}
    """Number of calls whose price is unknown, by model."""

    @property
    def cost(self) -> Cost:
        """Cost of its model calls in all attempts."""
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
        """Create a rollout with a content hash as id, so that equal work is run only once.

        Args:
            task: The task.
            candidate_id: The candidate.
            scope: What else distinguishes this rollout from others, such as run and repetition.
            seed_parts: What the seed depends on besides the task. Without the candidate, the two
                rollouts of a pair share a seed.
            queue: Queue that it is claimed from.
            purpose: What it is for.
            max_attempts: Failed attempts after which it ends.
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
    """The right to run one attempt of a rollout until the lease expires."""

    rollout: Rollout
    fence: int
    lease_until: float
    """Unix seconds; heartbeats extend it."""
    token: str = ""
    """Key for this attempt only, valid at the gateway and for sending spans; issued by a server."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one attempt, as its executor reports it."""

    rollout_id: str
    fence: int
    status: AttemptStatus
    started_at: float
    ended_at: float
    duration_s: float | None
    """Seconds from the call of the agent to its return; None if the agent was not called."""
    output: Any = None
    error: str = ""
    """A sentence for display; no decision depends on it."""
    cause: Cause = ""
    cost_usd: float | None = 0.0
    """Dollars of model calls that no span records; None if unknown. The store counts the calls
    that spans record."""
    spans: tuple[Span, ...] = ()
    scores: tuple[Score, ...] = ()
    """Scores given by the agent itself, such as a returned reward."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt at a rollout."""

    rollout_id: str
    fence: int
    worker: str
    """The worker that runs it, as HOST/PID/START."""
    status: AttemptStatus
    lease_until: float
    started_at: float
    ended_at: float | None = None
    error: str = ""
