"""The metrics of a live outcome, scaled to [0, 1], and the limits that guard them."""

from __future__ import annotations

import msgspec

from ratchet.prove.plan_checks import check_numbers
from ratchet.types import InputError, LiveOutcome
from ratchet.types.feedback import BAD_BELOW

SCORE = "score"

NEGATIVE = "negative feedback or errors"
"""Share of all units with negative feedback or an error, where scores are feedback."""

UNITS = {SCORE: "", "errors": "", NEGATIVE: "", "latency": "s", "cost": "USD"}
"""Metrics of a live outcome, with their units. A higher score is better; of the others, lower
values are."""


def live_value(outcome: LiveOutcome, metric: str) -> float | None:
    """The outcome's value in the metric's own unit, or None if it is unknown.

    A call that failed and has no score has the score 0.
    """
    if metric == SCORE:
        return 0.0 if outcome.score is None and outcome.error else outcome.score
    if metric == "errors":
        return 1.0 if outcome.error else 0.0
    if metric == NEGATIVE:
        feedback = feedback_of(outcome)
        negative = feedback is not None and feedback < BAD_BELOW
        return 1.0 if outcome.error or negative else 0.0
    if metric == "latency":
        return outcome.latency_s
    return outcome.cost_usd


def feedback_of(outcome: LiveOutcome) -> float | None:
    """People's feedback on an answer, where scores are feedback; None if there was none.

    A call that failed has no answer, and its score of 0 is not theirs.
    """
    return None if outcome.error else outcome.score


def share_of(value: float, ceiling: float) -> float:
    """A value as a share of its ceiling, clipped to [0, 1]."""
    share = value / ceiling
    return 0.0 if share < 0.0 else 1.0 if share > 1.0 else share


class LiveGuardrail(msgspec.Struct, frozen=True, kw_only=True):
    """A metric whose mean over the candidate's units must not exceed the baseline's by the margin.

    Unlike a `Guardrail` it compares arms, not pairs. Values above the ceiling count as the ceiling:
    choose it as the largest value that should count in full. A higher one makes the proof slower,
    in proportion to its square.

    Raises:
        InputError: The metric is not one of `errors`, `latency` and `cost`, or a number is out of
            range.
    """

    metric: str
    margin: float
    """Smallest unacceptable increase of the mean, in the metric's unit."""
    ceiling: float = 1.0
    """In the metric's unit; 1 for errors."""

    def __post_init__(self) -> None:
        check_metric(self.metric)
        if self.metric == SCORE:
            raise InputError(
                "The score is what a canary decides by, so it cannot be a guardrail as well."
            )
        check_numbers(self, 1e-12, 1e12, "ceiling")
        check_numbers(self, 0.0, 1e12, "margin")
        if self.margin >= self.ceiling:
            raise InputError(
                f"Guardrail {self.metric!r}: margin {self.margin:g} is not below its ceiling"
                f" {self.ceiling:g}.",
                hint="A margin is the smallest unacceptable increase.",
            )


def check_metric(metric: str) -> None:
    """Refuse a metric that live outcomes do not have.

    Raises:
        InputError: It is unknown.
    """
    if metric not in UNITS:
        raise InputError(
            f"Live outcomes have no metric {metric!r}.", hint=f"Choose one of: {', '.join(UNITS)}."
        )
