"""Microsoft Agent Framework: sends its spans to Ratchet's provider instead of the global one."""

from __future__ import annotations

from typing import Any

from ratchet.observe.instruments.import_hook import load


def switch_on(provider: Any) -> None:
    """Enable its spans, with messages.

    Args:
        provider: Where spans go.
    """
    observability = load("agent_framework.observability")
    version = getattr(observability, "version_info", None)
    tracer = provider.get_tracer("agent_framework", version)

    def get_tracer(*args: Any, **kwargs: Any) -> Any:
        return tracer

    observability.get_tracer = get_tracer
    # Not forced: a user may have switched it off.
    observability.enable_instrumentation(enable_sensitive_data=True, enable_message_events=False)
