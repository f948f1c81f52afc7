"""The weighted effect: unbiased whatever was predicted, and narrower with a good prediction."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.stats.weighted_effect import WeightedEffect

SHARE = st.sampled_from([0.5, 0.1, 0.7])
UNITS = st.lists(
    st.tuples(
        st.none() | st.floats(0.0, 1.0),
        st.booleans(),
        st.sampled_from(["", "a", "b"]),
        st.none() | st.floats(0.0, 1.0),
    ),
    max_size=20,
)


def _after(
    units: list[tuple[float | None, bool, str, float | None]], share: float
) -> WeightedEffect:
    effect = WeightedEffect(share=share)
    for unit in units:
        effect.observe(*unit)
    return effect


@given(UNITS, SHARE, st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.sampled_from(["", "a", "c"]))
def test_the_mean_over_assignments_is_the_effect_whatever_came_before(
    units: list[tuple[float | None, bool, str, float | None]],
    share: float,
    treated: float,
    untreated: float,
    group: str,
) -> None:
    one, other = _after(units, share), _after(units, share)
    seen = one.observe(treated, True, group, 0.3), other.observe(untreated, False, group, 0.3)
    assert all(low == high for low, high in seen)
    mean = share * seen[0][0] + (1.0 - share) * seen[1][0]
    assert mean * one.bound == pytest.approx(treated - untreated, abs=1e-9)


@given(UNITS, SHARE, st.none() | st.floats(0.0, 1.0), st.none() | st.floats(0.0, 1.0))
def test_a_number_that_is_not_known_is_the_worst_and_the_best_that_it_can_be(
    units: list[tuple[float | None, bool, str, float | None]],
    share: float,
    treated: float | None,
    untreated: float | None,
) -> None:
    one, other = _after(units, share), _after(units, share)
    seen = one.observe(treated, True), other.observe(untreated, False)
    low, high = (share * seen[0][end] + (1.0 - share) * seen[1][end] for end in (0, 1))
    worst = (0.0 if treated is None else treated) - (1.0 if untreated is None else untreated)
    best = (1.0 if treated is None else treated) - (0.0 if untreated is None else untreated)
    assert low * one.bound == pytest.approx(worst, abs=1e-9)
    assert high * one.bound == pytest.approx(best, abs=1e-9)


@given(UNITS, SHARE)
def test_observations_and_predictions_stay_within_their_bounds(
    units: list[tuple[float | None, bool, str, float | None]], share: float
) -> None:
    effect = WeightedEffect(share=share)
    for number, treated, group, covariate in units:
        assert 0.0 <= effect.model.predict(group, covariate) <= 1.0
        low, high = effect.observe(number, treated, group, covariate)
        assert -1.0 <= low <= high <= 1.0


def _units(rng: random.Random) -> Iterator[tuple[float, bool, str, float]]:
    rates = {"easy": 0.95, "hard": 0.1}
    for _ in range(3000):
        group = rng.choice(["easy", "hard"])
        own = min(1.0, max(0.0, rates[group] + rng.uniform(-0.1, 0.1)))
        yield float(rng.random() < own), rng.random() < 0.5, group, own


def test_groups_and_a_prediction_make_the_effect_vary_less() -> None:
    plain, grouped, predicted = (WeightedEffect(share=0.5) for _ in range(3))
    for number, treated, group, own in _units(random.Random(1)):
        plain.observe(number, treated)
        grouped.observe(number, treated, group)
        predicted.observe(number, treated, "", own)
    assert grouped.lowest.squares < 0.4 * plain.lowest.squares
    assert predicted.lowest.squares < 0.4 * plain.lowest.squares


def test_a_useless_prediction_costs_next_to_nothing() -> None:
    rng = random.Random(2)
    plain, useless = WeightedEffect(share=0.5), WeightedEffect(share=0.5)
    for number, treated, _, _ in _units(random.Random(1)):
        plain.observe(number, treated)
        useless.observe(number, treated, rng.choice("abc"), rng.random())
    assert useless.lowest.squares < 1.02 * plain.lowest.squares
