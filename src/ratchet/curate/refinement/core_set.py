"""Core set: a few tasks whose mean score ranks candidates as the whole dataset does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ratchet.curate.refinement.item_response import ItemResponse

if TYPE_CHECKING:
    pass

ABILITY_STEP = 0.25
"""Difference of ability over which a task's slope is measured, in standard deviations."""


def core_set(response: ItemResponse, size: int, among: Sequence[int] | None = None) -> list[int]:
    """Select tasks one by one, each helping most to tell neighbours apart.

    Of the tasks selected, the mean score of a candidate rises by the sum of their slopes and varies
    by the sum of their variances. What is maximised is the mean logarithm of the squared ratio over
    the candidates' abilities, so that the middle of the field does not count alone.

    Args:
        response: Estimates for the tasks.
        size: Number of tasks; at most all are returned.
        among: Rows to select from; all by default.

    Returns:
        Rows of the tasks, the most useful first.
    """
    import numpy as np

    abilities = response.ability
    chance = response.success(abilities)
    slope = (
        response.success(abilities + ABILITY_STEP) - response.success(abilities - ABILITY_STEP)
    ) / (2 * ABILITY_STEP)
    variance = chance * (1.0 - chance)
    slopes, variances = np.zeros(len(abilities)), np.zeros(len(abilities))
    left = np.ones(len(chance), dtype=bool)
    if among is not None:
        left[:] = False
        left[list(among)] = True
    selected: list[int] = []
    for _ in range(min(size, int(left.sum()))):
        signal = np.maximum(slopes + slope, 1e-12)
        worth = (2 * np.log(signal) - np.log(variances + variance)).mean(1)
        worth[~left] = -np.inf
        best = int(worth.argmax())
        selected.append(best)
        left[best] = False
        slopes += slope[best]
        variances += variance[best]
    return selected
