"""A task of eight calls, each with a reward of its own.

The agent walks along a corridor of eight doors. Each has one of four signs, and the agent says the
key for it: the same key for a sign on all doors of all tasks. What it says at one door changes
nothing at another. A right key earns an eighth, in parts: see `drawers.py`, whose model, tokens and
names it shares.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from drawers import AGENT, END, LETTERS, TOOL, USER

KEYS = tuple(range(10, 14))
CALLS, LONGEST = 8, 2
"""Calls of a rollout, and tokens of each at most."""


class Corridor(NamedTuple):
    """A task."""

    signs: tuple[int, ...]
    """Sign of each door, 0 to 3."""

    def prompt(self) -> list[int]:
        """What the first call reads."""
        return [USER, LETTERS[self.signs[0]], AGENT]

    def observed(self, call: int, response: Sequence[int]) -> list[int]:
        """What stands behind the door that a call opened: the next one's sign."""
        return [TOOL, LETTERS[self.signs[call + 1]], AGENT]

    def rewards(self, responses: Sequence[Sequence[int]]) -> list[float]:
        """What each call earned."""
        return [
            (
                0.2 * (response[0] in KEYS)
                + 0.6 * (response[0] == KEYS[(sign + 1) % len(KEYS)])
                + 0.2 * (response[0] in KEYS and len(response) == LONGEST and response[1] == END)
            )
            / CALLS
            for sign, response in zip(self.signs, responses, strict=True)
        ]


def tasks(count: int, seed: int) -> list[Corridor]:
    """Random tasks."""
    dice = random.Random(seed)
    return [Corridor(tuple(dice.randrange(4) for _ in range(CALLS))) for _ in range(count)]
