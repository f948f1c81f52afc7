"""One alpha budget for a stream of experiments (e-LOND).

Every candidate tested has a chance of being promoted wrongly; over many tests one would be. e-LOND
gives the t-th experiment the level

    alpha_t = alpha * gamma_t * (promotions so far + 1)

and bounds the expected share of false promotions among all promotions by alpha, however the
experiments depend on one another (Xu and Ramdas, "Online multiple testing with e-values", AISTATS
2024). Experiments may overlap: "so far" is when the t-th begins, and one still running then does
not count as a promotion. The proof requires only that, whenever the t-th is promoted, the count is
at most the number of the other promotions at the end. Each promotion known when the t-th begins is
one of them, so undercounting is always safe; it makes alpha_t smaller. The level is fixed at the
start, since the bets of an e-process may depend on it.

The gammas sum to 1; here gamma_t = 1/sqrt(t) - 1/sqrt(t + 1). The sum telescopes, so the share of
the budget left after t experiments is 1/sqrt(t + 1); it decreases so slowly that the tenth
experiment still gets a twentieth of the first one's level, and a promotion raises the level of all
later ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from ratchet.types import InputError


def level(alpha: float, history: Sequence[bool]) -> float:
    """Level of the next experiment.

    Args:
        alpha: The whole budget: the accepted share of false promotions, in (0, 1).
        history: For each experiment that began earlier, oldest first, whether it has promoted its
            candidate by now; False while it runs.

    Raises:
        InputError: `alpha` is not in (0, 1).
    """
    if not 0.0 < alpha < 1.0:
        raise InputError(f"alpha = {alpha!r} is not between 0 and 1.")
    before = sqrt(len(history) + 1)
    after = sqrt(len(history) + 2)
    # 1/before - 1/after without cancellation.
    gamma = 1.0 / (before * after * (before + after))
    promotions = 0
    for promoted in history:
        promotions += 1 if promoted else 0
    return alpha * gamma * (promotions + 1)
