"""Background threads: forks, children of `multiprocessing`, and silence in the agent's logs."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable


def is_importing(thread: int) -> bool:
    """Whether a thread is executing an import statement."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def run_at_end_of_child(shutdown: Callable[[], None]) -> bool:
    """Call a function as a child of `multiprocessing` exits, where `atexit` does not run.

    Returns:
        Whether this process is such a child.
    """
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is None or util is None or process.parent_process() is None:
        return False
    util.Finalize(None, shutdown, exitpriority=10)
    return True


LOGGERS = (
    *("httpx2", "httpx"),
    *(
        f"{library}.{part}"
        for library in ("httpcore2", "httpcore")
        for part in ("connection", "http11", "http2", "proxy", "socks")
    ),
    "urllib3.connectionpool",
    "alembic.runtime.migration",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
)
"""Loggers of the libraries that a background thread uses."""

_thread = threading.local()


def silence_logs() -> None:
    """Drop what those loggers record about this thread, and nothing else."""
    _thread.is_ours = True
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_is_the_agents)  # adding it again has no effect


def _is_the_agents(record: logging.LogRecord) -> bool:
    return not getattr(_thread, "is_ours", False)


def suppress_tracing() -> None:
    """Suppress recording and logging of this thread by any library: it is not the agent's."""
    from ratchet.observe.collector import collecting

    collecting.set(None)
    silence_logs()
    with contextlib.suppress(Exception):  # keys that OpenTelemetry's instrumentations check
        from opentelemetry import context

        current = context.Context()
        for name in ("_SUPPRESS_INSTRUMENTATION_KEY", "_SUPPRESS_HTTP_INSTRUMENTATION_KEY"):
            key = getattr(context, name, None)
            if key is not None:
                current = context.set_value(key, True, current)
        context.attach(context.set_value("suppress_instrumentation", True, current))
