"""Quiet: what Ratchet's own threads do stays out of the agent's logs.

A program that logs at the level INFO would else find a line of the HTTP client's for every batch.
"""

from __future__ import annotations

import logging
import threading

LOGGERS = (
    "httpx2",
    "httpcore2.connection",
    "httpcore2.http11",
    "httpcore2.http2",
    "httpcore2.proxy",
    "httpcore2.socks",
    "urllib3.connectionpool",
    "alembic.runtime.migration",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
)
"""Who logs on the way to a server, to a store or to another back end."""

_thread = threading.local()


def unlogged() -> None:
    """Have those loggers pass over what this thread does; what they say of others is logged."""
    _thread.is_ours = True
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_is_the_agents)  # adding it again adds nothing


def _is_the_agents(record: logging.LogRecord) -> bool:
    return not getattr(_thread, "is_ours", False)
