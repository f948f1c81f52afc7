"""Propagates the context of a rollout, or of a trace, to the agent's threads and thread pools."""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ratchet.observe.collector import current_sink

if TYPE_CHECKING:
    from opentelemetry.context import Context

STARTED_IN = "ratchet.started_in"
"""Key in a thread's OpenTelemetry context of the span in which the thread was started."""

_carried: set[str] = set()
"""What new threads inherit: `context`, `trace`, or both."""


def carry_context() -> None:
    """Make new threads and thread-pool submissions inherit the whole context of their creator.

    Called by executors, never in a user's own process: without it, a thread of an agent would read
    the source's defaults where its rollout runs another candidate.
    """
    _carry("context")


def carry_spans() -> None:
    """Make new threads and thread-pool submissions inherit the trace of their creator.

    For a user's own process: only OpenTelemetry's context is propagated. A thread that outlives the
    step in which it was started begins traces of its own from then on.
    """
    _carry("trace")


def _carry(what: str) -> None:
    if not _carried:
        _patch()
    _carried.add(what)


def _patch() -> None:
    start: Any = threading.Thread.start
    submit: Any = ThreadPoolExecutor.submit

    @functools.wraps(start)
    def start_in_context(thread: threading.Thread) -> None:
        if "trace" in _carried and current_sink() is not None:
            thread.run = _inside(thread.run)  # type: ignore[method-assign]
        if "context" in _carried:
            thread.run = functools.partial(contextvars.copy_context().run, thread.run)  # type: ignore[method-assign]
        start(thread)

    @functools.wraps(submit)
    def submit_in_context(
        pool: ThreadPoolExecutor, function: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        if "context" in _carried:
            return submit(pool, contextvars.copy_context().run, function, *args, **kwargs)
        if current_sink() is None:
            return submit(pool, function, *args, **kwargs)
        from opentelemetry.context import get_current

        # An empty context too: the pool's thread may have been started in a trace.
        return submit(pool, _run_in, get_current(), function, *args, **kwargs)

    patched: Any = start_in_context
    threading.Thread.start = patched  # type: ignore[method-assign]
    patched = submit_in_context
    ThreadPoolExecutor.submit = patched  # type: ignore[method-assign]


def _inside(run: Callable[[], Any]) -> Callable[[], Any]:
    """The thread's function, run in the current trace."""
    from opentelemetry.context import get_current, set_value
    from opentelemetry.trace import get_current_span

    context = get_current()
    if not context:
        return run
    started_in = set_value(STARTED_IN, get_current_span(context), context)
    return functools.partial(_run_in, started_in, run)


def _run_in(context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    from opentelemetry.context import attach, detach

    token = attach(context)
    try:
        return function(*args, **kwargs)
    finally:
        detach(token)
