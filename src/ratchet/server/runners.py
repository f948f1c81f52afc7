"""Registry of the runners that claim from this server: which queues each serves."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence

from ratchet.store.turns import QUEUE_WILDCARD
from ratchet.types import FleetRunner

PRESENT_S = 90.0
"""Seconds after its last claim for which a runner counts as present. A claim waits for at most 60
s."""

MAX_RUNNERS = 10_000
"""Maximum number of runners to remember; those seen last stay."""


def serves(runner: FleetRunner, queue: str) -> bool:
    """Whether a runner claims from a queue."""
    return any(
        queue.startswith(name[:-1]) if name.endswith(QUEUE_WILDCARD) else queue == name
        for name in runner.queues
    )


class RunnerRegistry:
    """Remembers runners by name, in memory: each server knows those that claim from it.

    Args:
        clock: Monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: OrderedDict[str, tuple[tuple[str, ...], float]] = OrderedDict()

    def saw(self, name: str, queues: tuple[str, ...]) -> None:
        """Record a claim."""
        self._seen[name] = queues, self._clock()
        self._seen.move_to_end(name)
        if len(self._seen) > MAX_RUNNERS:
            self._seen.popitem(last=False)

    def left(self, name: str) -> None:
        """Record that a runner disconnected while it waited for a claim."""
        self._seen.pop(name, None)

    def present(self, busy: Collection[str] = ()) -> Sequence[FleetRunner]:
        """Runners that claimed recently or hold attempts, most recently seen first.

        Args:
            busy: Names of those that hold attempts: with all slots taken, a runner claims nothing.
        """
        now = self._clock()
        return [
            FleetRunner(name, queues, now - at)
            for name, (queues, at) in reversed(self._seen.items())
            if now - at <= PRESENT_S or name in busy
        ]
