"""When to stop evaluating a candidate: paired with its parent on the same tasks, by betting.

A child runs the tasks of its parent, so that their difference is free of how hard the tasks are
(common random numbers). The first few are those that the change was made for, with one that the
parent could do. A change that loses there is given up, as GEPA does (Agrawal et al. 2025); one that
is even runs on only where most changes bring nothing, so that it is the better bet.
After that each further difference is a bet against "the child is no worse"; when the stake has
grown enough, the child is given up (Waudby-Smith & Ramdas 2024, "Estimating means of bounded
random variables by betting"). What may still be the best goes on (as in LUCB: Kalyanakrishnan et
al. 2012), in parts that double (Karnin et al. 2013, sequential halving).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from ratchet.learn.evolve.estimate import Standing

STAKES = (0.25, 0.5, 0.8)
"""Shares of the capital that are bet, each by a third of it."""

LOST = 3.0
"""How many times its stake a bet against a child has to grow before the child is given up: at most
one good child in three is lost so, however often one looks (Ville 1939)."""

OPTIMISM = 1.0
"""Standard deviations above its estimate up to which a candidate may still prove to be."""

EVEN = 1e-9
"""Differences below this are none."""

Verdict: TypeAlias = Literal["going", "even", "worse", "passed"]


def differences(child: Mapping[str, float], parent: Mapping[str, float]) -> list[float]:
    """Child minus parent on the tasks that both ran, in the child's order."""
    return [value - parent[task] for task, value in child.items() if task in parent]


def capital_against(gains: Sequence[float], scale: float = 1.0) -> float:
    """What one has after betting on each difference in turn that the child is worse.

    When it is no worse in truth, the chance that this ever exceeds C is at most 1/C.

    Args:
        gains: Differences between child and parent.
        scale: The largest that a difference can be.
    """
    total = 0.0
    for stake in STAKES:
        held = 1.0
        for gain in gains:
            held *= max(0.0, 1.0 - stake * max(-1.0, min(1.0, gain / scale)))
        total += held
    return total / len(STAKES)


def verdict(
    child: Mapping[str, float],
    parent: Mapping[str, float],
    *,
    over: bool,
    scale: float = 1.0,
) -> Verdict:
    """What the differences so far say of a child.

    Args:
        child: Its scores by task, in the order in which they were asked for.
        parent: The parent's.
        over: Whether it has run as many tasks as it takes to pass.
        scale: The largest that a difference can be.

    Returns:
        `worse` ends it. `even` is no gain so far: whether more tasks are worth it depends on what
        else they could be spent on.
    """
    gains = differences(child, parent)
    total = math.fsum(gains)
    if total < -EVEN or capital_against(gains, scale) >= LOST:
        return "worse"
    if total <= EVEN:
        return "worse" if over else "even"
    return "passed" if over else "going"


def may_lead(candidate: Standing, leader: Standing) -> bool:
    """Whether a candidate may yet prove better than the one that leads."""
    return candidate.mean + OPTIMISM * candidate.deviation >= leader.mean


def next_part(known: int, first: int, limit: int) -> int:
    """How many tasks to run next: as many as are known already, at least the first part."""
    return max(0, min(max(known, first), limit - known))
