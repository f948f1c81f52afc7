"""How much a runner claims ahead, and what it takes back into the queue."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ratchet.store import Store

AHEAD_S = 0.1
"""Seconds of work that are claimed ahead."""

MAX_AHEAD = 256


def claimed_ahead(slots: int, typical_s: float, *, serving: bool) -> int:
    """How many rollouts to claim beyond those that run.

    Enough for AHEAD_S of work, so that slots need not wait for the store, and for rollouts of one's
    own at least one a slot; not more, since what is claimed here cannot run elsewhere.

    Args:
        slots: Attempts at once.
        typical_s: Seconds that an attempt takes.
        serving: Whether other runners may want them too.
    """
    enough = int(slots * AHEAD_S / max(typical_s, 1e-3))
    return min(enough if serving else max(slots, enough), MAX_AHEAD)


def requeued(store: Store, queue: str, own: str) -> int:
    """Requeue what runners of a queue left behind that are known to have ended.

    Args:
        store: Where the queue is.
        queue: Its name.
        own: The name of the runner that asks, and lives.

    Returns:
        How many rollouts were requeued.
    """
    dead = {attempt.worker for attempt in store.rollouts.running(queue)}
    dead.discard(own)
    return len(store.rollouts.expire(time.time(), queue=queue, dead_workers=dead))
