"""Processes: what forks and the children of `multiprocessing` ask of a thread that sends."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable


def is_importing(thread: int) -> bool:
    """Whether a thread is within an import statement."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def run_at_end_of_child(shutdown: Callable[[], None]) -> bool:
    """Have a child of `multiprocessing` send its spans at its end too: that is without `atexit`.

    Returns:
        Whether this process is one.
    """
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is None or util is None or process.parent_process() is None:
        return False
    util.Finalize(None, shutdown, exitpriority=10)
    return True


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


def silence_logs() -> None:
    """Have those loggers pass over what this thread does; what they say of others is logged."""
    _thread.is_ours = True
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_is_the_agents)  # adding it again adds nothing


def _is_the_agents(record: logging.LogRecord) -> bool:
    return not getattr(_thread, "is_ours", False)
