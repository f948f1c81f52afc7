"""Prediction-powered inference: the mean of labels, from few labels and many judged cases.

A judge scores every case, people label a random part. The labelled part measures the judge's error,
the judge reduces the variance. With weight `w` on the judge,

    estimate = w * mean(scores of unlabelled) + mean(label - w * score over labelled)

is unbiased for any judge. The weight that minimises the variance is estimated from the labelled
cases, so a useless judge gets the weight 0 and the estimate is that of the labels alone. Source:
Angelopoulos, Duchi and Zrnic, "PPI++: Efficient prediction-powered inference" (2023). The interval
here uses Student's t and the unbiased variance, since with the normal one its coverage is too low
for tens of labels.

The labelled cases must be drawn at random from all cases. Cases that were selected, such as those
that users complained about, bias the estimate in an unknown way.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

from ratchet.stats.agreement import CONFIDENCE_LEVEL, wilson
from ratchet.stats.student_t import t_quantile
from ratchet.types import InputError
from ratchet.types.wording import counted

MIN_LABELS = 50
"""Labels below which the interval of a proportion is Wilson's, of the labels alone."""


class PredictionPowered(NamedTuple):
    """An estimate of a mean by labels and a judge."""

    value: float
    low: float
    high: float
    weight: float
    """Weight of the judge's scores, in [0, 1]; 0 when they do not help."""
    labels: int
    judged: int
    """Number of cases with a score and no label."""
    classical: tuple[float, float]
    """The interval of the labels alone."""
    bias: float
    """Mean of score minus label over the labelled cases."""


def predicted_mean(
    labels: Sequence[float],
    scores: Sequence[float],
    unlabelled: Sequence[float],
    *,
    level: float = CONFIDENCE_LEVEL,
    proportion: bool = False,
) -> PredictionPowered:
    """Estimate the mean label over all cases.

    Args:
        labels: Labels of cases drawn at random.
        scores: The judge's scores of the same cases.
        unlabelled: The judge's scores of the other cases.
        level: Confidence level.
        proportion: Labels and scores are in [0, 1], so Wilson's interval applies below `MIN_LABELS`
            labels. False for differences.

    Raises:
        InputError: There are fewer than 2 labels, or labels and scores differ in number.
    """
    n, judged = len(labels), len(unlabelled)
    if n != len(scores):
        raise InputError(
            f"There are {counted(n, 'label')} and {counted(len(scores), 'score')} of the same"
            " cases."
        )
    if n < 2:
        raise InputError(f"{counted(n, 'label')} cannot give an interval; at least 2 are needed.")
    mean_label, mean_score = _mean(labels), _mean(scores)
    quantile = t_quantile(0.5 + level / 2.0, n - 1)
    half = quantile * sqrt(_covariance(labels, labels) / n)
    classical = (mean_label - half, mean_label + half)
    bias = mean_score - mean_label
    if proportion and n < MIN_LABELS:
        low, high = wilson(min(max(sum(labels), 0.0), n), n, level)
        return PredictionPowered(mean_label, low, high, 0.0, n, judged, (low, high), bias)
    weight = _weight(labels, scores, unlabelled)
    value = mean_label
    if weight:
        value += weight * (_mean(unlabelled) - mean_score)
        errors = [y - weight * s for y, s in zip(labels, scores, strict=True)]
        of_rest = weight * weight * _covariance(unlabelled, unlabelled) / judged
        of_labels = _covariance(errors, errors) / n
        error = of_rest + of_labels
        # One degree of freedom less than without a judge: the weight is estimated, too.
        half = t_quantile(0.5 + level / 2.0, max(1, n - 2)) * sqrt(error)
    low, high = value - half, value + half
    if proportion:
        value, low, high = (min(1.0, max(0.0, bound)) for bound in (value, low, high))
    return PredictionPowered(value, low, high, weight, n, judged, classical, bias)


def _weight(labels: Sequence[float], scores: Sequence[float], unlabelled: Sequence[float]) -> float:
    """The weight of least variance, clipped to [0, 1]."""
    if len(unlabelled) < 2:
        return 0.0
    everything = [*scores, *unlabelled]
    spread = _covariance(everything, everything)
    if spread <= 0.0:
        return 0.0
    ratio = _covariance(labels, scores) / ((1.0 + len(labels) / len(unlabelled)) * spread)
    return min(1.0, max(0.0, ratio))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _covariance(first: Sequence[float], second: Sequence[float]) -> float:
    """The unbiased covariance."""
    a, b = _mean(first), _mean(second)
    return sum((x - a) * (y - b) for x, y in zip(first, second, strict=True)) / (len(first) - 1)
