"""Fleet: the runners of a server, and the ends of rollouts that run there."""

from __future__ import annotations

import msgspec

from ratchet.types.rollout import Rollout
from ratchet.types.score import Score
from ratchet.types.span import Span


class EndedRollout(msgspec.Struct, frozen=True):
    """A rollout that has ended."""

    rollout: Rollout
    spans: tuple[Span, ...]
    """Spans of its final attempt, in the order in which they started."""
    scores: tuple[Score, ...]
    """Scores that the agent itself gave, and those stored since."""


class EndedRollouts(msgspec.Struct, frozen=True):
    """Rollouts that have ended; only some of them, if there are many."""

    ended: tuple[EndedRollout, ...]
    unknown: tuple[str, ...]
    """Ids of rollouts that do not exist."""


class FleetRunner(msgspec.Struct, frozen=True):
    """A runner that claims from a server."""

    name: str
    """As HOST/PID/START."""
    queues: tuple[str, ...]
    """The queues that it serves; a name that ends with /* stands for every queue with that
    prefix."""
    seen_s: float
    """Seconds since its last claim."""
