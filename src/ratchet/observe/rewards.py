"""Rewards that an agent gives itself: for a whole rollout, or for one of its model calls."""

from __future__ import annotations

import math
import numbers
from typing import Any

from ratchet.observe.collector import current_collector
from ratchet.observe.span_template import SpanTemplate
from ratchet.observe.step import Step
from ratchet.types import REWARD_CALL, REWARD_SPAN, REWARD_VALUE, InputError, Score

_REWARD = SpanTemplate(REWARD_SPAN, "step")


def emit_reward(
    value: float, *, name: str = "reward", rationale: str = "", call: bool | str = False
) -> None:
    """Give the running rollout a score, or reward one of its model calls.

    It does nothing outside rollouts.

    Args:
        value: A finite number; for a score preferably in [0, 1].
        name: Name of the score; a later value of the same name replaces it.
        rationale: The reason for the value.
        call: True rewards the latest model call that began before this moment; the id of a
            response, such as `chatcmpl-1`, rewards that call. Rewards of one call add up. The
            rollout's score is not changed.

    Raises:
        InputError: The value is not a finite number.
    """
    reward: Any = value
    # Real rather than float: NumPy's numbers are not floats.
    if not isinstance(reward, numbers.Real) or not math.isfinite(reward):
        raise InputError(f"The reward {value!r} is not a finite number.")
    collector = current_collector()
    if collector is None:
        return
    if not call:
        collector.score(
            Score(evaluator=name, version="agent", value=float(reward), rationale=rationale)
        )
        return
    with Step(_REWARD) as step:
        step.set(REWARD_VALUE, float(reward))
        if isinstance(call, str):
            step.set(REWARD_CALL, call)
        if rationale:
            step.set("ratchet.reward.rationale", rationale)
