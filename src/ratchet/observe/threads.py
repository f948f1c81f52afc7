"""Carries the context of a rollout into the threads and executors that an agent starts."""

from __future__ import annotations

import contextvars
import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_installed = False


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
