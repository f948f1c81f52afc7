"""Semantic Kernel: sends its own spans to Ratchet's provider, with the messages it logs as events.

By default its spans go to the global provider and the messages to a logger. The handlers of the
user's log receive no more than before.
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
    """Enable its spans, with messages.

    Args:
        provider: Where spans go.
    """
    for name in _TRACING:
        load(name).tracer = provider.get_tracer(name)
    for name in _SETTINGS:
        settings = load(name).MODEL_DIAGNOSTICS_SETTINGS
        settings.enable_otel_diagnostics = True
        settings.enable_otel_diagnostics_sensitive = True
    logger = load(_MODEL).logger
    # First of the filters, so that a record which another one drops still becomes an event.
    logger.filters.insert(0, _ToEvents(logger, logger.level))
    logger.setLevel(logging.INFO)


class _ToEvents(logging.Filter):
    """Adds the logged messages of a call to its span as events.

    Args:
        logger: The logger of the messages.
        level: Its former level; 0 for that of its ancestors.
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
