"""Carries the context of a rollout, or of a trace, into the threads and executors of an agent."""

from __future__ import annotations

import contextvars
import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ratchet.observe.sink import current_sink

_installed = False
_spans_installed = False

STARTED_IN = "ratchet.started_in"
"""Key in OpenTelemetry's context of a thread: the span that it was started in."""


def carry_context() -> None:
    """Make new threads and thread-pool submissions run in their starter's context, once.

    Called by executors, never in a user's own process: without it, a thread of an agent would read
    the source's defaults where its rollout runs another candidate.
    """
    global _installed
    if _installed:
        return
    _installed = True
    start: Any = threading.Thread.start
    submit: Any = ThreadPoolExecutor.submit

    @functools.wraps(start)
    def start_in_context(thread: threading.Thread) -> None:
        thread.run = functools.partial(contextvars.copy_context().run, thread.run)  # type: ignore[method-assign]
        start(thread)

    @functools.wraps(submit)
    def submit_in_context(
        pool: ThreadPoolExecutor, function: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        return submit(pool, contextvars.copy_context().run, function, *args, **kwargs)

    patched: Any = start_in_context
    threading.Thread.start = patched  # type: ignore[method-assign]
    patched = submit_in_context
    ThreadPoolExecutor.submit = patched  # type: ignore[method-assign]


def carry_spans() -> None:
    """Make new threads and thread-pool submissions begin in their starter's trace, once.

    For a user's own process: OpenTelemetry's context is carried and no other. A thread that goes on
    when the step which started it has ended begins traces of its own from then on.
    """
    global _spans_installed
    if _spans_installed or _installed:
        return
    _spans_installed = True
    from opentelemetry.context import Context, attach, detach, get_current, set_value
    from opentelemetry.trace import get_current_span

    start: Any = threading.Thread.start
    submit: Any = ThreadPoolExecutor.submit

    @functools.wraps(start)
    def start_in_trace(thread: threading.Thread) -> None:
        context = get_current()
        if context and current_sink() is not None:
            inside = set_value(STARTED_IN, get_current_span(context), context)
            thread.run = functools.partial(run_in, inside, thread.run)  # type: ignore[method-assign]
        start(thread)

    @functools.wraps(submit)
    def submit_in_trace(
        pool: ThreadPoolExecutor, function: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        if current_sink() is None:
            return submit(pool, function, *args, **kwargs)
        # Nothing is carried too: the pool's thread may have begun in a trace.
        return submit(pool, run_in, get_current(), function, *args, **kwargs)

    def run_in(context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        token = attach(context)
        try:
            return function(*args, **kwargs)
        finally:
            detach(token)

    patched: Any = start_in_trace
    threading.Thread.start = patched  # type: ignore[method-assign]
    patched = submit_in_trace
    ThreadPoolExecutor.submit = patched  # type: ignore[method-assign]
