"""pydantic-ai tells by itself what its agents do, once it is told to."""

from __future__ import annotations

from typing import Any


def switch_on(provider: Any) -> None:
    """Instrument all agents that are not instrumented otherwise.

    Args:
        provider: Where spans go.
    """
    from pydantic_ai.agent import Agent
    from pydantic_ai.models.instrumented import InstrumentationSettings

    # What a user has set, be it False, holds.
    if getattr(Agent, "_instrument_default", False) is False:
        Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
