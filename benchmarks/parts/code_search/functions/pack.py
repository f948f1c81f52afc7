"""A packer of bins."""

from __future__ import annotations

from typing import Any

from optimisations.pack import run

import ratchet


@ratchet.evolve
def pack(sizes, capacity):
    """Returns bins, each a list of sizes that fit into it."""
    bins = []
    rooms = []
    for size in sizes:
        chosen = -1
        most = 0.5
        for place in range(len(bins)):
            room = rooms[place] - size
            if room >= 0:
                worth = room
                if worth > most:
                    most = worth
                    chosen = place
        if chosen < 0:
            bins.append([size])
            rooms.append(capacity - size)
        else:
            bins[chosen].append(size)
            rooms[chosen] -= size
    return bins


def answer(task: dict[str, Any]) -> Any:
    """The agent."""
    return run(pack, task)
