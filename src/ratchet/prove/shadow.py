"""The shadow stage: mirrored live inputs, the candidate's score beside the user's."""

from __future__ import annotations

import msgspec

from ratchet.prove.plan_checks import check_counts, check_numbers
from ratchet.types import InputError


class ShadowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a shadow stage, fixed before its first pair.

    Raises:
        InputError: A value is out of range; the message names the field.
    """

    metric: str = "score"
    """Name of the objective, for display; scores are in [0, 1]."""
    alpha: float = 0.05
    """Probability that a candidate passes that is worse by `margin` or more."""
    margin: float = 0.02
    """Smallest unacceptable fall of the mean score. Above 0: what is no better passes, too, and it
    is the held-out experiment that has proved a gain."""
    harm_alpha: float = 0.05
    """Probability of stopping for harm when the candidate is no worse."""
    min_pairs: int = 30
    """Scored pairs before which nothing passes."""
    max_pairs: int = 2000
    """Pairs, unscored ones included, after which the stage ends."""
    harm_pairs: int = 100
    """Pairs within which the test for harm aims to stop a candidate; it goes on afterwards."""
    max_missing: float = 0.1
    """Share of pairs without a score above which nothing passes."""
    max_blocked: float = 0.2
    """Share of blocked pairs above which nothing passes."""
    blocked_score: float | None = 0.0
    """The candidate's score in a blocked pair, where it is unknown, in the proof of `pass`. With 0,
    the worst, the proof needs no assumption about blocked pairs. None leaves them out: what passes
    is then no worse in the others."""
    subgroup_alpha: float = 0.05
    """Accepted share of wrong ones among the groups that are called harmed."""

    def __post_init__(self) -> None:
        check_numbers(self, 1e-12, 0.5, "alpha", "harm_alpha", "subgroup_alpha")
        check_numbers(self, 0.0, 0.9, "margin")
        check_numbers(self, 0.0, 1.0, "max_missing", "max_blocked")
        if self.blocked_score is not None:
            check_numbers(self, 0.0, 1.0, "blocked_score")
        check_counts(self, 1, 10**9, "min_pairs", "max_pairs", "harm_pairs")
        if self.min_pairs > self.max_pairs:
            raise InputError(
                f"ShadowPlan: min_pairs = {self.min_pairs} exceeds max_pairs = {self.max_pairs}."
            )


class ShadowPair(msgspec.Struct, frozen=True, kw_only=True):
    """One mirrored input: the score of what the user got, and of what the candidate answers.

    Both scores come from the same evaluator, which does not know whose answer it scores. Feedback
    exists for one side only, and is no such score.

    Raises:
        InputError: A score is outside [0, 1].
    """

    trace_id: str
    """The live trace that was mirrored."""
    baseline: float | None = None
    """In [0, 1]; None when it could not be scored."""
    candidate: float | None = None
    """In [0, 1]; None when it could not be scored. An answer that failed has the score 0."""
    blocked: str = ""
    """Why the candidate has no answer that could be scored: it was stopped at a side effect, or
    left what was recorded. Empty otherwise."""
    group: str = ""
    """Cluster or tag; empty for none."""
    rollout_id: str = ""
    """The candidate's rollout."""

    def __post_init__(self) -> None:
        for side in ("baseline", "candidate"):
            if getattr(self, side) is not None:
                check_numbers(self, 0.0, 1.0, side)
