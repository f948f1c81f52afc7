"""Activations and settings of live agents."""

from __future__ import annotations

import msgspec


class Activation(msgspec.Struct, frozen=True, kw_only=True):
    """Makes a candidate active for an agent. An agent's newest activation is in effect."""

    agent: str
    candidate_id: str
    """Empty for the agent's own source, unchanged."""
    activated_at: float
    """Unix seconds."""
    reason: str = ""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Server-side settings of an agent. They also apply to the queue of the same name."""

    name: str
    substitute: bool = False
    """Whether the gateway replaces registered prompts with those of the active candidate or
    release."""
    mirror: float | None = None
    """Share of the agent's live calls that may be repeated for a candidate, in [0, 1]; None
    leaves it to the agent and to `ratchet.toml`. 0 stops the repetitions at once."""
