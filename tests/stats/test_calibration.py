"""Calibration: scores on the labels' scale, in order, and never reversed."""

from __future__ import annotations

import random

import pytest

from ratchet.stats.agreement import calibration_curve, calibration_error
from ratchet.stats.calibration import calibrated, interpolated, isotonic, platt
from ratchet.types import InputError


def lenient(rng: random.Random, n: int) -> tuple[list[float], list[float]]:
    truth = [rng.random() for _ in range(n)]
    return [0.6 + 0.4 * t for t in truth], [float(rng.random() < t) for t in truth]


@pytest.mark.parametrize("n", [100, 1_000])
def test_a_lenient_judge_is_calibrated_on_held_out_cases(n: int) -> None:
    curve = calibrated(*lenient(random.Random(1), n))
    scores, labels = lenient(random.Random(2), 2_000)
    before = calibration_error(calibration_curve(scores, labels))
    mapped = [interpolated(curve, s) for s in scores]
    after = calibration_error(calibration_curve(mapped, labels))
    assert before is not None
    assert after is not None
    assert before > 0.25
    assert after < 0.1


@pytest.mark.parametrize("fit", [isotonic, platt])
def test_calibration_keeps_the_order_and_the_range(fit: object) -> None:
    rng = random.Random(3)
    scores = [rng.random() for _ in range(300)]
    labels = [float(rng.random() < 0.3) for _ in scores]
    curve = fit(scores, labels)  # type: ignore[operator]
    mapped = [interpolated(curve, n / 50) for n in range(51)]
    assert mapped == sorted(mapped)
    assert 0.0 <= mapped[0] <= mapped[-1] <= 1.0


def test_isotonic_regression_pools_what_is_out_of_order() -> None:
    assert isotonic([0.1, 0.2, 0.3, 0.4], [0.0, 1.0, 0.0, 1.0]) == (
        (0.1, 0.0),
        (0.2, 0.5),
        (0.3, 0.5),
        (0.4, 1.0),
    )
    assert isotonic([0.5, 0.5, 0.9], [0.0, 1.0, 1.0]) == ((0.5, 0.5), (0.9, 1.0))


def test_a_calibration_without_labels_is_refused() -> None:
    with pytest.raises(InputError, match="as many labels as scores"):
        calibrated([], [])
    with pytest.raises(InputError, match="no points"):
        interpolated((), 0.5)
