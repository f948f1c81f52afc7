"""The journal of one process: a file of JSON lines, each written at once."""

from __future__ import annotations

import functools
import json
import os
import threading
from typing import Any, Callable

_LOCAL = threading.local()


class EventJournal:
    """Appends events; never raises.

    Args:
        folder: Where each process keeps its file.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._open()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._open)

    def _open(self) -> None:
        name = os.path.join(self._folder, f"{os.getpid()}-{os.urandom(4).hex()}.jsonl")
        with quiet():
            self._file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._seen: set[Any] = set()

    def is_open(self) -> bool:
        """Whether the recording still goes on."""
        return os.path.isdir(self._folder)

    def write(self, kind: str, **fields: Any) -> None:
        """Append an event."""
        with quiet():
            try:
                line = json.dumps({"kind": kind, **fields}, default=str)
                os.write(self._file, line.encode("utf-8", "replace") + b"\n")
            except Exception:  # noqa: S110 - a full disk must not end the owner's program
                pass

    def once(self, kind: str, **fields: Any) -> None:
        """Append an event unless this process has written the same before."""
        key = (kind, tuple(sorted(fields.items())))
        if key not in self._seen and len(self._seen) < 20_000:
            self._seen.add(key)
            self.write(kind, **fields)


class quiet:  # noqa: N801 - reads as a statement
    """Within it, what this thread does is the hook's own, and no event."""

    def __enter__(self) -> None:
        self._before = getattr(_LOCAL, "quiet", False)
        _LOCAL.quiet = True

    def __exit__(self, *_: object) -> None:
        _LOCAL.quiet = self._before


def is_quiet() -> bool:
    """Whether the hook itself is at work in this thread."""
    return getattr(_LOCAL, "quiet", False)


def harmless(result: Any = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Of a function of the hook: where it fails, the owner's program goes on without it.

    Args:
        result: What it answers then.
    """

    def guard(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except Exception:  # objects of theirs may raise anything when they are looked at
                return result

        return guarded

    return guard
