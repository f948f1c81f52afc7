"""Evidence for a coach: which rollouts it is shown, and as what text."""

from ratchet.learn.evidence.failures import (
    LowRollout,
    kinds_of_failure,
    least_alike,
    low_rollout,
    spread,
    token_limit,
)
from ratchet.observe.step_text import cut, text_of

__all__ = [
    "LowRollout",
    "cut",
    "kinds_of_failure",
    "least_alike",
    "low_rollout",
    "spread",
    "text_of",
    "token_limit",
]
