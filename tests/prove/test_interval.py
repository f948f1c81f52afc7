"""The interval: it agrees with the decision, narrows with pairs and covers the truth."""

from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from ratchet.prove.interval import interval
from ratchet.stats.eprocess import EProcess

ALPHA = 0.05


def draws(seed: int, mean: float, count: int) -> list[float]:
    rng = random.Random(seed)
    return [max(-1.0, min(1.0, rng.gauss(mean, 0.18))) for _ in range(count)]


@given(st.lists(st.one_of(st.none(), st.floats(-1.0, 1.0)), max_size=60))
def test_gains_of_zero_or_less_are_excluded_exactly_when_the_candidate_is_proved_better(
    differences: list[float | None],
) -> None:
    process = EProcess(threshold=1 / ALPHA, horizon=60)
    for difference in differences:
        if difference is None:
            process.skip()
        else:
            process.observe(difference)
    low, high = interval(differences, alpha=ALPHA, min_gain=0.01, horizon=60)
    assert -1.0 <= low <= high <= 1.0
    if process.reached:
        assert low >= 0.0
    else:
        assert low <= 0.0 <= high


@given(
    st.lists(st.one_of(st.none(), st.floats(-0.2, 0.4)), max_size=60),
    st.sampled_from([-0.1, -0.02, 0.05]),
)
def test_another_boundary_is_excluded_exactly_when_the_decision_excludes_it(
    differences: list[float | None], boundary: float
) -> None:
    process = EProcess(null=boundary, threshold=1 / ALPHA, horizon=60)
    for difference in differences:
        if difference is None:
            process.skip()
        else:
            process.observe(difference)
    low, high = interval(differences, alpha=ALPHA, min_gain=0.0, horizon=60, boundary=boundary)
    assert -1.0 <= low <= high <= 1.0
    if process.reached:
        assert low >= boundary
    else:
        assert low <= boundary <= high


def test_the_interval_never_widens_as_pairs_come_in() -> None:
    differences = draws(3, 0.0, 400)
    ends = [
        interval(differences[:n], alpha=ALPHA, min_gain=0.01, horizon=400)
        for n in (10, 50, 100, 200, 400)
    ]
    for (low, high), (later_low, later_high) in itertools.pairwise(ends):
        assert low <= later_low
        assert later_high <= high
    assert ends[-1][1] - ends[-1][0] < 0.06


def test_the_true_gain_is_covered_at_the_stated_level() -> None:
    for mean in (-0.05, 0.0, 0.05):
        missed = 0
        for seed in range(80):
            low, high = interval(draws(seed, mean, 150), alpha=0.1, min_gain=0.01, horizon=150)
            missed += not low <= mean <= high
        assert missed <= 0.1 * 80 + 3 * (80 * 0.1 * 0.9) ** 0.5
