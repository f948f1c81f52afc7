"""What an agent runs with outside of rollouts, and how a server treats its traffic."""

from __future__ import annotations

import msgspec


class Activation(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate made an agent's active one; an agent's newest activation holds."""

    agent: str
    candidate_id: str
    """Empty: the agent's own source, as it stands."""
    activated_at: float
    """Unix seconds."""
    reason: str = ""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a server treats an agent. Rollouts of a queue follow the agent of the queue's name."""

    name: str
    substitute: bool = False
    """Whether the gateway replaces registered prompts by the candidate's or the release's."""
