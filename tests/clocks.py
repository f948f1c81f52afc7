"""A clock that tests set."""

from __future__ import annotations


class Clock:
    """Stands still until `now`, in seconds, is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now
