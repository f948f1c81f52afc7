"""Credit: how much each call of a rollout earned, from rewards at the end or of single calls."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def shares(calls: int, discount: float) -> NDArray[np.float64]:
    """The share of a rollout's reward that each of its calls gets: γ^(T−t) for call t of T.

    With a discount of 1 all calls get the whole reward.

    Returns:
        Shape (calls,).
    """
    return discount ** np.arange(calls - 1, -1, -1, dtype=np.float64)


def returns(call_rewards: NDArray[np.float64], discount: float) -> NDArray[np.float64]:
    """The return of each call, from it to the last: G_t = Σ_{k≥t} γ^(k−t)·r_k.

    Args:
        call_rewards: Shape (calls,).
        discount: γ, a call.

    Returns:
        Shape (calls,).
    """
    discounted = np.zeros(len(call_rewards))
    following = 0.0
    for t in reversed(range(len(call_rewards))):
        following = call_rewards[t] + discount * following
        discounted[t] = following
    return discounted


def generalized_advantages(
    call_rewards: NDArray[np.float64],
    values: NDArray[np.float64],
    *,
    discount: float,
    trace: float,
) -> NDArray[np.float64]:
    """Generalized advantage estimation across the calls of a rollout, each of them an action.

    δ_t = r_t + γ·V_{t+1} − V_t and A_t = δ_t + γλ·A_{t+1}, with V = 0 behind the last call.
    Source: Schulman, Moritz, Levine, Jordan and Abbeel, "High-dimensional continuous control
    using generalized advantage estimation", ICLR 2016, equations 11 and 16.

    Args:
        call_rewards: Shape (calls,); the rollout's reward is part of the last.
        values: Shape (calls,); the critic's estimate before each call.
        discount: γ, a call.
        trace: λ.

    Returns:
        Shape (calls,).
    """
    deltas = call_rewards + discount * np.append(values[1:], 0.0) - values
    return returns(deltas, discount * trace)
