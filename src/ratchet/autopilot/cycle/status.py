"""What an autopilot does, why it waits, and what comes next."""

from __future__ import annotations

import msgspec

from ratchet.autopilot.config import Config
from ratchet.autopilot.cycle.policy import day_of
from ratchet.store import Store
from ratchet.types import Cycle, CycleAction, CycleState, Spending

NEXT_BY_STATE: dict[CycleState, str] = {
    "idle": "a cycle, when live traces call for one",
    "capture": "learning on what was captured",
    "learn": "the held-out proof, then the live stages",
    "shadow": "approval, canary or pull request, once the candidate is proved no worse",
    "approval": "the canary or the pull request: ratchet autopilot approve",
    "canary": "a larger share, then the release",
    "pull_request": "the watch, once the request is merged",
    "activate": "the watch",
    "watch": "the end of the cycle; or the rollback, at an alarm",
    "rollback": "the end of the cycle; its candidate is not tried again",
    "held": "it is dropped after a week; ratchet autopilot stop ends it now",
    "done": "the next cycle",
    "quarantined": "the next cycle",
    "dropped": "the next cycle",
}


class AutopilotStatus(msgspec.Struct, frozen=True, kw_only=True):
    """State of an autopilot at one moment."""

    agent: str
    mode: str
    running: bool
    """Whether a process runs it."""
    state: CycleState
    cycle: Cycle | None
    """The one under way."""
    does: str
    """A sentence."""
    waits: str
    """Why it waits, in a sentence; empty while it works."""
    waits_until: float | None
    next: str
    """What comes next."""
    spent: Spending
    """Today."""
    rollouts_per_day: int
    dollars_per_day: float
    requests_per_day: int
    unfinished: tuple[CycleAction, ...]
    """Actions that are still to be carried out."""
    ended: tuple[Cycle, ...]
    """The cycles that ended last, newest first."""


def status_of(store: Store, config: Config, agent: str, now: float) -> AutopilotStatus:
    """Read the state of an agent's autopilot.

    Args:
        store: The store.
        config: The project's configuration.
        agent: The live agent's name.
        now: Unix seconds.
    """
    policy = config.autopilot
    cycle = store.cycles.underway(agent)
    ended = [earlier for earlier in store.cycles.list(agent, limit=6) if earlier != cycle][:5]
    lease = store.leases.get(f"autopilot/{agent}")
    running = lease is not None and lease.expires_at > now
    pause = store.operator_commands.pause(agent)
    waits = cycle.waits if cycle else ""
    if pause is not None and (cycle is None or cycle.state not in ("watch", "rollback")):
        waits = f"{pause.by} paused the autopilot. To continue: ratchet autopilot resume."
    elif not running:
        waits = "No process runs it: ratchet autopilot run, or ratchet serve --autopilot."
    elif cycle is None and agent not in (names := store.spans.agents()):
        live_agents = f" Agents with live traces: {', '.join(names)}." if names else ""
        waits = (
            f"There are no live traces of {agent!r}.{live_agents}"
            " Set agent under [autopilot] to the right name."
        )
    return AutopilotStatus(
        agent=agent,
        mode=policy.mode,
        running=running,
        state=cycle.state if cycle else "idle",
        cycle=cycle,
        does=cycle.trigger if cycle else "It looks at live traces.",
        waits=waits,
        waits_until=cycle.waits_until if cycle and waits == cycle.waits else None,
        next=NEXT_BY_STATE[cycle.state if cycle else "idle"],
        spent=store.cycles.spent(agent, day_of(policy, now)),
        rollouts_per_day=policy.rollouts_per_day,
        dollars_per_day=policy.dollars_per_day,
        requests_per_day=policy.requests_per_day,
        unfinished=tuple(store.outbox.unfinished(agent)),
        ended=tuple(ended),
    )
