"""Processes: what forks and the children of `multiprocessing` ask of a thread that sends."""

from __future__ import annotations

import sys
from collections.abc import Callable


def is_importing(thread: int) -> bool:
    """Whether a thread is within an import statement."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def finalize(shutdown: Callable[[], None]) -> bool:
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
