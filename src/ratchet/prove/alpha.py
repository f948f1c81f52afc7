"""One alpha budget for a stream of experiments (e-LOND).

Every candidate that meets the baseline has a chance of being promoted wrongly; after enough of them
one would be. e-LOND gives the t-th experiment the level

    alpha_t = alpha * gamma_t * (promotions so far + 1)

and keeps the expected share of false promotions among all promotions at or below alpha, however the
experiments depend on one another (Xu and Ramdas, "Online multiple testing with e-values", AISTATS
2024). Experiments may overlap: "so far" is when the t-th begins, and one that is still running then
counts as no promotion. The proof asks of the count only that, whenever the t-th is promoted, it is
at most the number of the other promotions at the end. Each promotion that is known when the t-th
begins is one of them, so to count fewer is always safe; it makes alpha_t smaller. The level is
fixed at the beginning, since the bets of an e-process may depend on it.

The gammas sum to 1; here gamma_t = 1/sqrt(t) - 1/sqrt(t + 1). The sum telescopes, so the
part of the budget left after t experiments is 1/sqrt(t + 1); it falls slowly enough that the tenth
experiment still gets a twentieth of the first one's level, and a promotion adds to all that follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from ratchet.types import InputError


def level(alpha: float, history: Sequence[bool]) -> float:
    """Level of the next experiment.

    Args:
        alpha: The whole budget: the accepted share of false promotions, in (0, 1).
        history: Of each experiment that began earlier, oldest first, whether it has promoted its
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
