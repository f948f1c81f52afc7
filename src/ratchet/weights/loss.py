"""Losses of reinforcement learning, over the generated tokens of a batch.

With ρ the ratio of a token's probability now to that before the batch, w the importance weight
between trainer and sampler, and A the advantage:

- `token_mean`, `rollout_mean`, `constant`: −w·min(ρA, clip(ρ)A), and at least −cA where A < 0.
  Schulman et al., "Proximal policy optimization algorithms", 2017, equation 7; the wider upper
  clip from Yu et al., "DAPO", 2025, equation 8; the dual clip c from Ye et al., "Mastering complex
  control in MOBA games", AAAI 2020, equation 2.
- `sequence`: the same with ρ the geometric mean over a call's tokens. Zheng et al., "Group
  sequence policy optimization", 2025, equations 5 and 7.
- `cispo`: −w·sg(clip(ρ))·A·log π. MiniMax, "MiniMax-M1", 2025, equations 4 and 5.

The importance weights are min(exp(log π_old − log μ), C), without gradient, μ being the sampler's
probability: Yao et al., "Your efficient RL framework secretly brings you off-policy RL training",
2025. The divergence from the base is estimated by exp(d) − d − 1 with d = log π_base − log π: the
k3 of Schulman, "Approximating KL divergence", 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratchet.weights.settings import LossName, PolicyLoss


class ScoredTokens(NamedTuple):
    """Tensors over the trained tokens of a micro-batch, each of shape (tokens,)."""

    advantages: Any
    old: Any
    """Log-probabilities under the weights before the batch."""
    sampler: Any
    """Log-probabilities under the sampler."""
    base: Any
    """Log-probabilities under the base model; None without a divergence in the loss."""
    weights: Any
    """Weight of each token's loss in the sum, from `token_weights`."""
    call: Any
    """Index of the call that each token belongs to; indices start at 0 and have no gaps."""


def token_weights(
    loss: LossName, tokens: Sequence[int], rollouts: Sequence[str], length: int
) -> NDArray[np.float64]:
    """Weight of the tokens of each row, such that the weighted sum is the batch's loss.

    Args:
        loss: `token_mean` and `cispo` divide by the number N of generated tokens; `rollout_mean`
            and `sequence` by the rollout's own and the number of rollouts, so that each counts
            once; `constant` by `length` and the number of rollouts (Liu et al., "Understanding
            R1-Zero-like training", 2025).
        tokens: Generated tokens of each row, at least 1. Rows whose advantage is zero belong here.
        rollouts: The rollout of each row.
        length: Tokens by which `constant` divides.

    Returns:
        Shape (rows,).
    """
    count = np.asarray(tokens, np.float64)
    if loss in ("token_mean", "cispo"):
        return np.full(len(count), 1.0 / count.sum())
    _, of_row = np.unique(np.asarray(rollouts), return_inverse=True)
    per_rollout = np.bincount(of_row, weights=count)
    if loss == "constant":
        return np.full(len(count), 1.0 / (length * len(per_rollout)))
    return np.asarray(1.0 / (per_rollout[of_row] * len(per_rollout)))


def policy_loss(
    logprobs: Any, tokens: ScoredTokens, settings: PolicyLoss
) -> tuple[Any, dict[str, float]]:
    """The loss of a micro-batch, and sums over its tokens for the statistics.

    Args:
        logprobs: Shape (tokens,); under the current weights, with gradient.
        tokens: What the loss is computed from.
        settings: Which loss.

    Returns:
        The loss as a scalar tensor, to be added to those of the batch's other micro-batches, and
        sums: `clipped` tokens at which the clip took the gradient away, `ratio`, `kl`
        (from the base) and `gap` (|log π_old − log μ|).
    """
    import torch

    low, high = settings.clip
    log_ratio = logprobs - tokens.old
    if settings.name == "sequence":
        log_ratio = _mean_by_call(log_ratio, tokens.call)
    ratio = log_ratio.exp()
    clipped = ratio.clamp(low, high)
    with torch.no_grad():
        falls = tokens.advantages < 0
        outside = torch.where(falls, ratio < low, ratio > high)
    if settings.name == "cispo":
        loss = -clipped.detach() * tokens.advantages * logprobs
    else:
        loss = -torch.minimum(ratio * tokens.advantages, clipped * tokens.advantages)
        if settings.dual_clip is not None:
            bound = -settings.dual_clip * tokens.advantages
            outside = outside | (falls & (loss > bound))
            loss = torch.where(falls, torch.minimum(loss, bound), loss)
    with torch.no_grad():
        difference = tokens.old - tokens.sampler
        sums = {
            "clipped": outside.sum(),
            "ratio": ratio.sum(),
            "gap": difference.abs().sum(),
        }
        if settings.max_weight is not None:
            loss_weight = difference.exp().clamp(max=settings.max_weight)
            sums["truncated"] = (difference.exp() > settings.max_weight).sum()
    if settings.max_weight is not None:
        loss = loss * loss_weight
    if tokens.base is not None:
        toward_base = tokens.base - logprobs
        divergence = toward_base.exp() - toward_base - 1.0
        loss = loss + settings.kl * divergence
        sums["kl"] = divergence.detach().sum()
    return (loss * tokens.weights).sum(), {name: float(value) for name, value in sums.items()}


def value_loss(values: Any, old_values: Any, targets: Any, clip: float) -> Any:
    """Half the squared error of the critic's estimate or of the clipped one, whichever is larger.

    Source: the reference implementation of PPO (OpenAI baselines, `ppo2`).

    Args:
        values: Shape (calls,); with gradient.
        old_values: Shape (calls,); before the batch.
        targets: Shape (calls,); what the calls earned.
        clip: How far an estimate may move.

    Returns:
        Shape (calls,).
    """
    import torch

    near = old_values + (values - old_values).clamp(-clip, clip)
    return 0.5 * torch.maximum((values - targets) ** 2, (near - targets) ** 2)


def _mean_by_call(values: Any, call: Any) -> Any:
    """Each token's value becomes the mean over its call."""
    import torch

    calls = int(call.max()) + 1
    zeros = torch.zeros(calls, dtype=values.dtype, device=values.device)
    sums = zeros.index_add(0, call, values)
    counts = zeros.index_add(0, call, torch.ones_like(values))
    return (sums / counts).index_select(0, call)
