"""verl's advantage estimator `ratchet`: passes on what each call of a rollout earned.

verl imports this module in each of its processes when VERL_USE_EXTERNAL_MODULES names it.
"""

from __future__ import annotations

from typing import Any

import torch
from verl.trainer.ppo.core_algos import register_adv_est  # type: ignore[import-not-found]

from ratchet.weights.verl.rows import decode_index

NAME = "ratchet"


@register_adv_est(NAME)  # type: ignore[untyped-decorator]
def call_advantages(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Spread the advantage of each call over its tokens.

    Args:
        token_level_rewards: Shape (rows, response length); only its shape and type count.
        response_mask: Shape (rows, response length); tokens that verl rejected are 0.
        index: Shape (rows,); texts of `encode_index`.

    Returns:
        Advantages and returns, which are the same; both of shape (rows, response length).
    """
    advantages = torch.zeros_like(token_level_rewards)
    for row, text in enumerate(index):
        for begin, end, value in decode_index(str(text)):
            advantages[row, begin:end] = value
    advantages = advantages * response_mask
    return advantages, advantages
