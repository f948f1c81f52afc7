"""Cycles of the autopilot: a turn of the loop, unattended, its states, moves and actions."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from ratchet.types.stage import StageDecision

CycleState: TypeAlias = Literal[
    "idle",
    "capture",
    "learn",
    "shadow",
    "approval",
    "canary",
    "pull_request",
    "activate",
    "watch",
    "done",
    "rollback",
    "quarantined",
    "held",
    "dropped",
]

CYCLE_TRANSITIONS: dict[CycleState, frozenset[CycleState]] = {
    # To the watch when a release was made by other hands.
    "idle": frozenset({"capture", "watch"}),
    "capture": frozenset({"learn", "dropped"}),
    "learn": frozenset({"shadow", "approval", "canary", "pull_request", "dropped"}),
    "shadow": frozenset({"approval", "canary", "pull_request", "held", "dropped"}),
    "approval": frozenset({"canary", "pull_request", "dropped"}),
    # To itself: the next step, with a larger share of traffic.
    "canary": frozenset({"canary", "pull_request", "activate", "rollback", "held", "dropped"}),
    "pull_request": frozenset({"watch", "held", "dropped"}),
    "activate": frozenset({"watch", "rollback"}),
    "watch": frozenset({"done", "rollback"}),
    "rollback": frozenset({"quarantined"}),
    # What was not proved is never shipped: only a request that was merged late comes back.
    "held": frozenset({"watch", "dropped"}),
    "done": frozenset(),
    "quarantined": frozenset(),
    "dropped": frozenset(),
}
"""Allowed moves. A state without successors is final; a cycle begins by leaving `idle`."""

DAY_S = 86_400.0

CYCLE_LIMITS: dict[CycleState, tuple[float, CycleState]] = {
    "capture": (3 * DAY_S, "dropped"),
    "learn": (3 * DAY_S, "dropped"),
    "shadow": (7 * DAY_S, "held"),
    "approval": (3 * DAY_S, "dropped"),
    "canary": (14 * DAY_S, "held"),
    "pull_request": (14 * DAY_S, "held"),
    "activate": (300.0, "rollback"),
    "held": (7 * DAY_S, "dropped"),
}
"""Seconds that a cycle may stay in a state, and the state that follows."""

FINAL_CYCLE_STATES: frozenset[CycleState] = frozenset(
    state for state, successors in CYCLE_TRANSITIONS.items() if not successors
)

ActionKind: TypeAlias = Literal[
    "split", "propose", "close_request", "activate", "deactivate", "revert", "notify"
]
"""split: set the canary's share of traffic. propose: create the branch, push it, open the
request. close_request: withdraw the request. activate, deactivate: the release at run time.
revert: open the request that reverts a merged release. notify: tell people."""

ActionState: TypeAlias = Literal["pending", "started", "done", "failed"]


class Cycle(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of the loop: from an observation to a release that was watched, or to an earlier
    end."""

    id: str
    agent: str
    """Name of the agent, as in its live traces."""
    state: CycleState
    version: int = 1
    """Counts the stored versions of this cycle; a writer that has not seen the last one is
    refused.
    """
    trigger: str
    """The observation that began it, in one sentence."""
    problem_id: str = ""
    """The problem that it works on; empty for none."""
    started_at: float
    """Unix seconds."""
    entered_at: float
    """When it entered its state."""
    updated_at: float
    held_at: CycleState | None = None
    """The state in which it was held, if its state is `held`."""
    waits: str = ""
    """Why it waits, in one sentence; empty while it works."""
    waits_until: float | None = None
    """When it will stop waiting by itself, if it will."""
    failures: int = 0
    """How many times in a row the work of its state has failed; `waits` says why."""
    dataset: str = ""
    """NAME@VERSION of the captured tasks."""
    rollouts: int | None = None
    """Rollouts that learning may use."""
    dollars: float | None = None
    """Dollars that learning may spend."""
    run_id: str = ""
    baseline_id: str = ""
    candidate_id: str = ""
    experiment_id: str = ""
    release_id: str = ""
    request: str = ""
    """URL of the pull request."""
    runtime_refusal: str = ""
    """Why the candidate cannot be released at run time; empty if it can."""
    step: int = 0
    """Index of the canary's step."""
    units_before_step: int = 0
    """Units of the canary's earlier steps."""
    progress: dict[str, Any] = {}
    """What the stage under way has measured so far, so that it continues exactly there."""
    decisions: tuple[StageDecision, ...] = ()
    """What the live stages decided, oldest first."""
    message: str = ""
    """How it ended, in one sentence."""


class CycleTransition(msgspec.Struct, frozen=True, kw_only=True):
    """A move of a cycle."""

    cycle_id: str
    number: int
    """From 1."""
    source: CycleState
    target: CycleState
    rule: str
    """The rule that allowed it, in one sentence."""
    inputs: str
    """Digest of the rule's inputs."""
    actor: str
    """`autopilot`, or the name of a person."""
    at: float
    """Unix seconds."""


class CycleAction(msgspec.Struct, frozen=True, kw_only=True):
    """An effect of a cycle outside its own rows; done once, or as if once.

    Stored with the move that asks for it, carried out after it. An action that may have been
    carried out before a crash is carried out again, and finds that nothing is left to do; `notify`
    alone is not, since people are told once.
    """

    key: str
    """Idempotency key; a second action with the same key is not stored."""
    cycle_id: str
    kind: ActionKind
    body: dict[str, Any] = {}
    state: ActionState = "pending"
    tries: int = 0
    next_at: float = 0.0
    """When to try (again), Unix seconds."""
    error: str = ""
    """Why the last try failed."""
    result: dict[str, Any] = {}


OperatorVerb: TypeAlias = Literal["pause", "resume", "approve", "deny", "stop"]


class OperatorCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A person's command to the autopilot."""

    verb: OperatorVerb
    agent: str
    cycle_id: str = ""
    """The cycle that is approved, denied or stopped."""
    candidate_id: str = ""
    """The candidate that an approval is for: it does not hold for another."""
    by: str
    reason: str = ""
    at: float
    """Unix seconds."""


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to lead, until it ends or another takes over."""

    name: str
    holder: str
    fence: int
    """Fencing token: grows with each holder. Writes with an earlier token are refused."""
    expires_at: float
    """Unix seconds."""


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What the autopilot used of a day's budget."""

    rollouts: int = 0
    dollars: float = 0.0
    requests: int = 0
    """Number of pull requests opened."""
