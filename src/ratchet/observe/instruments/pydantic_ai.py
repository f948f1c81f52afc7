"""pydantic-ai: enables its own instrumentation."""

from __future__ import annotations

from typing import Any

from ratchet.observe.instruments.import_hook import load


def switch_on(provider: Any) -> None:
    """Instrument all agents, unless the user has configured their instrumentation.

    Args:
        provider: Where spans go.
    """
    agent = load("pydantic_ai.agent:Agent")
    settings = load("pydantic_ai.models.instrumented:InstrumentationSettings")
    # A setting of the user's takes precedence.
    if getattr(agent, "_instrument_default", False) is False:
        agent.instrument_all(settings(tracer_provider=provider))
