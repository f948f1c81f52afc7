"""Microsoft Agent Framework tells by itself, to the global provider; here it tells us."""

from __future__ import annotations

from typing import Any

from ratchet.observe.instruments.import_hook import load


def switch_on(provider: Any) -> None:
    """Have its spans, with what was said in them.

    Args:
        provider: Where spans go.
    """
    observability = load("agent_framework.observability")
    version = getattr(observability, "version_info", None)
    tracer = provider.get_tracer("agent_framework", version)

    def get_tracer(*args: Any, **kwargs: Any) -> Any:
        return tracer

    observability.get_tracer = get_tracer
    # A user who has switched it off has meant it: this does not force.
    observability.enable_instrumentation(enable_sensitive_data=True, enable_message_events=False)
