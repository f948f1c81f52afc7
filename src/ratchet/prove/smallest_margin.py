"""The smallest margin of a guardrail that this many pairs can prove.

A margin that even a candidate with equal metrics cannot pass refuses every candidate. Where nobody
has chosen a margin, it is the smallest that such a candidate passes on the planned pairs. It
depends on the plan alone, so it is fixed before the first pair.
"""

from __future__ import annotations

from math import ceil

import msgspec

from ratchet.prove.guardrails import Guardrail
from ratchet.stats.eprocess import EProcess

MARGIN_STEPS = 100
"""Margins are rounded up to hundredths."""

MAX_PLANNED_PAIRS = 100_000
"""Largest number of pairs that is planned."""

_HALVINGS = 24


def smallest_margin(guardrail: Guardrail, *, alpha: float, pairs: int) -> Guardrail:
    """The guardrail, with its margin widened until equal metrics pass; unchanged if they do
    already.

    Args:
        guardrail: The guardrail with the margin that it has at least.
        alpha: Level of the experiment.
        pairs: Number of planned pairs; above about 1 / alpha there is always such a margin.

    Returns:
        The widened guardrail; the given one if no margin passes on so few pairs.
    """
    if passes(guardrail.bound, alpha=alpha, pairs=pairs):
        return guardrail
    low, high = guardrail.bound, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if passes(middle, alpha=alpha, pairs=pairs):
            high = middle
        else:
            low = middle
    if high >= 1.0:
        return guardrail
    margin = ceil(_margin(guardrail, high) * MARGIN_STEPS) / MARGIN_STEPS
    if guardrail.aggregate == "mean" and margin >= guardrail.scale:
        return guardrail
    return msgspec.structs.replace(guardrail, margin=margin)


def pairs_to_pass(bound: float, *, alpha: float, pairs: int) -> int | None:
    """About how many pairs prove that equal metrics are within a bound; None if no number does.

    Args:
        bound: The margin on the scale of `Guardrail.worsening`.
        alpha: Level of the experiment.
        pairs: The fewest that are considered.
    """
    if bound <= 0.0:
        return None
    most = pairs
    while not passes(bound, alpha=alpha, pairs=most):
        if most > MAX_PLANNED_PAIRS:
            return None
        most *= 2
    low = most // 2
    while low >= pairs and most - low > 1:
        middle = (low + most) // 2
        if passes(bound, alpha=alpha, pairs=middle):
            most = middle
        else:
            low = middle
    return most


def passes(bound: float, *, alpha: float, pairs: int) -> bool:
    """Whether this many pairs prove a candidate with equal metrics to be within a bound."""
    process = EProcess(null=-bound, threshold=1.0 / alpha, horizon=pairs)
    for _ in range(pairs):
        process.observe(0.0)
        if process.reached:
            return True
    return False


def _margin(guardrail: Guardrail, bound: float) -> float:
    """The margin of a bound: the inverse of `Guardrail.bound`."""
    if guardrail.aggregate == "mean":
        return bound * guardrail.scale
    return bound / (1.0 - bound) if guardrail.lower_is_better else bound
