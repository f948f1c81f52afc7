"""Semantic Kernel tells by itself: its spans to the global provider, the messages to a logger.

Here the spans come to us, and the messages become events of their spans. Nothing more than before
reaches the handlers of the user's log.
"""

from __future__ import annotations

import logging
from typing import Any

from ratchet.observe.instruments.import_hook import load

_MODEL = "semantic_kernel.utils.telemetry.model_diagnostics.decorators"
_TRACING = (
    _MODEL,
    "semantic_kernel.utils.telemetry.agent_diagnostics.decorators",
    "semantic_kernel.functions.kernel_function",
    "semantic_kernel.connectors.ai.chat_completion_client_base",
)
_SETTINGS = (
    _MODEL,
    "semantic_kernel.utils.telemetry.agent_diagnostics.decorators",
    "semantic_kernel.utils.telemetry.model_diagnostics.function_tracer",
)
_EVENT = "event.name"


def switch_on(provider: Any) -> None:
    """Have its spans, with what was said in them.

    Args:
        provider: Where spans go.
    """
    for name in _TRACING:
        load(name).tracer = provider.get_tracer(name)
    for name in _SETTINGS:
        settings = load(name).MODEL_DIAGNOSTICS_SETTINGS
        settings.enable_otel_diagnostics = True
        settings.enable_otel_diagnostics_sensitive = True
    said = load(_MODEL).logger
    # First of the filters: what another of them drops is an event all the same.
    said.filters.insert(0, _ToEvents(said, said.level))
    said.setLevel(logging.INFO)


class _ToEvents(logging.Filter):
    """Puts what is logged of a call into its span.

    Args:
        logger: Where they are logged.
        level: The level that it had before; 0 for that of the loggers above it.
    """

    def __init__(self, logger: logging.Logger, level: int) -> None:
        super().__init__()
        self._logger = logger
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        from opentelemetry.trace import get_current_span

        event = getattr(record, _EVENT, None)
        if event is not None:
            get_current_span().add_event(
                str(event), {"gen_ai.event.content": str(record.getMessage())}
            )
        above = self._logger.parent
        wanted = self._level or (above.getEffectiveLevel() if above is not None else 0)
        return record.levelno >= wanted
