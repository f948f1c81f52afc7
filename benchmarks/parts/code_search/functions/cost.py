"""A rule for the next stop of a round."""

from __future__ import annotations

from typing import Any

from optimisations.route import run

import ratchet


@ratchet.evolve
def cost(distance, home, nearest, average, left):
    """Returns what it costs to go to a stop next.

    It lies so far from here, so far from the depot, and so far from the nearest and from the
    average of the other stops that are left.
    """
    value = home
    if left > 12:
        value = value + 0.5 * distance
    return value


def answer(task: dict[str, Any]) -> Any:
    """The agent."""
    return run(cost, task)
