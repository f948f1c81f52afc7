"""pydantic-ai tells by itself what its agents do, once it is told to."""

from __future__ import annotations

from typing import Any

from ratchet.observe.instruments.import_hook import load


def switch_on(provider: Any) -> None:
    """Instrument all agents that are not instrumented otherwise.

    Args:
        provider: Where spans go.
    """
    agent = load("pydantic_ai.agent:Agent")
    settings = load("pydantic_ai.models.instrumented:InstrumentationSettings")
    # What a user has set holds.
    if getattr(agent, "_instrument_default", False) is False:
        agent.instrument_all(settings(tracer_provider=provider))
