"""The e-process: valid by exact enumeration, reproducible to the bit, quick to find small gains."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.stats.eprocess import MAX_WEALTH, EProcess
from ratchet.types import InputError

OBSERVATION = st.floats(-1.0, 1.0)
NULL = st.floats(-0.9, 0.9)


@pytest.mark.parametrize(
    ("null", "low", "high"),
    [(0.0, -1.0, 1.0), (0.0, -0.25, 0.5), (-0.03, -1.0, 1.0), (0.2, -0.1, 0.9), (-0.9, -1.0, 1.0)],
)
@pytest.mark.parametrize("threshold", [2.0, 20.0])
def test_expected_wealth_under_the_null_is_one_on_every_binary_tree(
    null: float, low: float, high: float, threshold: float
) -> None:
    depth = 9
    up = (Fraction(null) - Fraction(low)) / (Fraction(high) - Fraction(low))
    total = Fraction(0)
    ever = Fraction(0)
    for moves in itertools.product((0, 1), repeat=depth):
        process = EProcess(null=null, threshold=threshold, horizon=depth)
        chance = Fraction(1)
        for move in moves:
            process.observe(high if move else low)
            chance *= up if move else 1 - up
        total += chance * Fraction(process.value)
        ever += chance * process.reached
    assert abs(float(total) - 1.0) < 1e-12
    assert float(ever) <= 1.0 / threshold


@given(st.lists(OBSERVATION, max_size=80), NULL, st.floats(1.5, 1e9), st.integers(1, 100))
def test_wealth_is_never_negative_and_always_finite(
    observations: list[float], null: float, threshold: float, horizon: int
) -> None:
    process = EProcess(null=null, threshold=threshold, horizon=horizon)
    for observation in observations:
        value = process.observe(observation)
        assert 0.0 <= value < math.inf
        assert process.peak >= value


@given(st.lists(OBSERVATION, min_size=1, max_size=60), NULL, st.integers(0, 60))
def test_resuming_from_a_state_gives_the_same_bits(
    observations: list[float], null: float, cut: int
) -> None:
    whole = EProcess(null=null, threshold=20.0, horizon=50)
    first = EProcess(null=null, threshold=20.0, horizon=50)
    path = [whole.observe(observation) for observation in observations]
    head = [first.observe(observation) for observation in observations[:cut]]
    second = EProcess(null=null, threshold=20.0, horizon=50)
    second.resume(first.state)
    tail = [second.observe(observation) for observation in observations[cut:]]
    assert head + tail == path
    assert second.state == whole.state


def test_the_bettor_rests_once_the_threshold_is_reached() -> None:
    process = EProcess(threshold=20.0, horizon=100)
    while not process.reached:
        process.observe(1.0)
    value = process.value
    assert value >= 20.0
    for _ in range(50):
        assert process.observe(-1.0) == value
    assert process.peak == value


def test_wealth_stops_at_the_ceiling_instead_of_overflowing() -> None:
    process = EProcess(threshold=MAX_WEALTH, horizon=10)
    for _ in range(5000):
        process.settle(1.0, process.bets())
    assert MAX_WEALTH <= process.value <= 10 * MAX_WEALTH


def test_recorded_bits_of_a_known_sequence() -> None:
    """A change of the arithmetic would make older evidence fail to verify: it needs a schema."""
    rng = random.Random(20)
    process = EProcess(threshold=20.0, horizon=60)
    path = [process.observe(rng.randrange(-512, 640) / 1024) for _ in range(60)]
    assert [path[0].hex(), path[9].hex(), path[59].hex()] == RECORDED


RECORDED = ["0x1.a666f87ba56c8p-1", "0x1.418c5ddfb7c24p-2", "0x1.e3e3c16aae019p-4"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"threshold": 1.0, "horizon": 5},
        {"threshold": math.nan, "horizon": 5},
        {"threshold": 20.0, "horizon": 0},
        {"threshold": 20.0, "horizon": 5, "null": -1.0},
        {"threshold": 20.0, "horizon": 5, "null": math.nan},
    ],
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(InputError):
        EProcess(**arguments)  # type: ignore[arg-type]


def test_false_rejections_stay_below_alpha_with_a_look_after_every_pair() -> None:
    rng = random.Random(1)
    rejected = 0
    for _ in range(400):
        process = EProcess(threshold=20.0, horizon=200)
        for _ in range(200):
            process.observe(rng.choice((-1.0, 0.0, 0.0, 1.0)))
        rejected += process.reached
    assert rejected <= 400 * 0.05 + 3 * math.sqrt(400 * 0.05 * 0.95)


def test_a_small_gain_is_usually_found_within_the_horizon() -> None:
    rng = random.Random(2)
    found = 0
    for _ in range(100):
        process = EProcess(threshold=20.0, horizon=1000)
        for _ in range(1000):
            process.observe(max(-1.0, min(1.0, rng.gauss(0.02, 0.179))))
        found += process.reached
    assert found >= 85
