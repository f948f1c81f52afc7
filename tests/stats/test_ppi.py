"""Prediction-powered intervals: they cover, they are narrower, and a bad judge does no harm."""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from ratchet.stats.ppi import PredictionPowered, predicted_mean
from ratchet.stats.student_t import t_cdf, t_quantile
from ratchet.types import InputError


@pytest.mark.parametrize(
    ("probability", "degrees", "value"),
    [(0.975, 1, 12.7062), (0.975, 10, 2.22814), (0.975, 48, 2.01063), (0.95, 3, 2.35336)],
)
def test_quantiles_of_students_t_are_the_tabulated_ones(
    probability: float, degrees: float, value: float
) -> None:
    assert t_quantile(probability, degrees) == pytest.approx(value, rel=1e-5)
    assert t_quantile(1 - probability, degrees) == pytest.approx(-value, rel=1e-5)
    assert t_cdf(value, degrees) == pytest.approx(probability, abs=1e-6)
    assert t_quantile(0.975, 1e9) == pytest.approx(1.95996, rel=1e-5)


def drawn(
    rng: random.Random, n: int, cases: int, correlation: float, bias: float = 0.0
) -> PredictionPowered:
    labels = [rng.gauss(0, 1) for _ in range(cases)]
    other = (1 - correlation**2) ** 0.5
    scores = [bias + correlation * y + other * rng.gauss(0, 1) for y in labels]
    return predicted_mean(labels[:n], scores[:n], scores[n:])


def test_with_50_labels_95_percent_intervals_cover_and_are_narrower_than_by_labels_alone() -> None:
    rng = random.Random(0)
    found = [drawn(rng, 50, 400, 0.73) for _ in range(500)]
    assert 0.92 < fmean(each.low <= 0 <= each.high for each in found) < 0.98
    width = fmean((e.high - e.low) / (e.classical[1] - e.classical[0]) for e in found)
    assert width < 0.8


def test_a_judges_bias_does_not_move_the_estimate() -> None:
    fair = drawn(random.Random(3), 60, 400, 0.8)
    biased = drawn(random.Random(3), 60, 400, 0.8, bias=0.5)
    assert biased.value == pytest.approx(fair.value)
    assert (biased.low, biased.high) == pytest.approx((fair.low, fair.high))
    assert biased.bias == pytest.approx(fair.bias + 0.5)


def test_too_few_labels_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="1 label cannot give an interval"):
        predicted_mean([1.0], [0.5], [0.5])
    with pytest.raises(InputError, match="2 labels and 1 score"):
        predicted_mean([1.0, 0.0], [0.5], [0.5])
