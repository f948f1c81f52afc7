"""`ratchet.emit_reward`: a score that the agent itself gives its rollout."""

from __future__ import annotations

import math
import numbers
from typing import Any

from ratchet.observe.collector import current_collector
from ratchet.types import InputError, Score


def emit_reward(value: float, *, name: str = "reward", rationale: str = "") -> None:
    """Give the running rollout a score; outside of rollouts nothing happens.

    Args:
        value: A finite number; best in [0, 1].
        name: Under which name it is kept; the last value of a name holds.
        rationale: Why.

    Raises:
        InputError: The value is not a finite number.
    """
    given: Any = value
    # Real: the numbers of NumPy are such, and no float.
    if not isinstance(given, numbers.Real) or not math.isfinite(given):
        raise InputError(f"The reward {value!r} is not a finite number.")
    collector = current_collector()
    if collector is not None:
        collector.score(
            Score(evaluator=name, version="agent", value=float(given), rationale=rationale)
        )
