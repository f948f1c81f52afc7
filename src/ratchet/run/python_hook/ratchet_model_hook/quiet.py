"""Marks what a hook does by itself."""

from __future__ import annotations

import threading

_LOCAL = threading.local()


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
