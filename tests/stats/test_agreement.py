"""Agreement: known values from the literature, and ends of the scale where formulas break down."""

from __future__ import annotations

import random

import pytest

from ratchet.stats.agreement import (
    auroc,
    calibration_curve,
    calibration_error,
    confusion,
    kappa,
    share,
    wilson,
)
from ratchet.types import InputError


def table(both: int, first: int, second: int, neither: int) -> tuple[list[bool], list[bool]]:
    a = [True] * (both + first) + [False] * (second + neither)
    b = [True] * both + [False] * first + [True] * second + [False] * neither
    return a, b


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(98, 100, 0.930, 0.994), (58, 60, 0.886, 0.991), (0, 40, 0.0, 0.088), (0, 75, 0.0, 0.049)],
)
def test_wilsons_interval_has_its_published_ends(
    successes: int, n: int, low: float, high: float
) -> None:
    assert wilson(successes, n) == pytest.approx((low, high), abs=6e-4)


def test_a_proportion_of_no_trials_is_none_and_an_impossible_one_is_refused() -> None:
    assert share(0, 0) is None
    with pytest.raises(InputError, match="5 of 4 is not a proportion"):
        wilson(5, 4)


def test_kappa_of_cohens_textbook_table_is_0_4() -> None:
    found = kappa(*table(20, 5, 10, 15))
    assert found is not None
    assert found.value == pytest.approx(0.4)
    assert (found.low, found.high) == pytest.approx((0.1511, 0.6489), abs=1e-3)


def test_kappa_is_undefined_when_both_raters_say_one_thing_only() -> None:
    assert kappa([1, 1], [1, 1]) is None
    assert kappa([], []) is None
    constant = kappa([1, 1, 1, 1], [1, 0, 1, 0])
    assert constant is not None
    assert constant.value == 0.0


def test_the_interval_of_kappa_covers_the_true_one() -> None:
    rng = random.Random(1)
    covered = 0
    for _ in range(400):
        truth = [rng.random() < 0.5 for _ in range(60)]
        said = [t if rng.random() < 0.85 else not t for t in truth]
        found = kappa(said, truth)
        assert found is not None
        covered += found.low <= 0.7 <= found.high
    assert covered / 400 > 0.91


def test_a_confusion_matrix_shows_what_the_majority_alone_would_get() -> None:
    found = confusion(*table(30, 10, 5, 55))
    assert tuple(found) == (30, 10, 5, 55)
    assert (found.accuracy, found.majority) == (0.85, 0.65)
    sensitivity, specificity = found.true_positive_rate(), found.true_negative_rate()
    assert sensitivity is not None
    assert specificity is not None
    assert (sensitivity.value, specificity.value) == (30 / 35, 55 / 65)
    assert confusion([], []).accuracy is None
    with pytest.raises(InputError, match="2 scores and 1 label"):
        confusion([True, False], [True])


def test_auroc_of_perfect_separation_by_few_cases_is_not_certain() -> None:
    found = auroc([0.9] * 5 + [0.1] * 5, [True] * 5 + [False] * 5)
    assert found is not None
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(wilson(5, 5)[0])


def test_calibrated_scores_lie_on_the_diagonal_and_lenient_ones_do_not() -> None:
    rng = random.Random(2)
    scores = [rng.random() for _ in range(2000)]
    labels = [float(rng.random() < s) for s in scores]
    curve = calibration_curve(scores, labels)
    assert [b.label.n for b in curve] == [200] * 10
    assert calibration_error(curve) == pytest.approx(0.0, abs=0.04)
    lenient = calibration_curve([0.5 + s / 2 for s in scores], labels)
    assert calibration_error(lenient) == pytest.approx(0.25, abs=0.04)
