"""Detection of a fall: false alarms are bounded by exact enumeration, and a fall is found."""

from __future__ import annotations

import itertools
import random

import pytest

from ratchet.stats.change import FallDetector
from ratchet.types import InputError


@pytest.mark.parametrize("mean", [0.5, 0.9])
def test_its_expected_value_is_the_count_while_the_mean_is_as_expected(mean: float) -> None:
    count, needed = 9, 20.0
    total = ever = 0.0
    for numbers in itertools.product((0.0, 1.0), repeat=count):
        detector = FallDetector(mean=mean)
        chance, alarm = 1.0, False
        for number in numbers:
            detector.observe(number)
            chance *= mean if number else 1.0 - mean
            alarm |= detector.value >= needed
        total += chance * detector.value
        ever += chance * alarm
    assert total == pytest.approx(count)
    assert ever <= count / needed


def test_a_larger_fall_is_found_sooner() -> None:
    def delay(after: float) -> int:
        rng = random.Random(5)
        detector = FallDetector(mean=0.9)
        while detector.value < 200_000.0:
            detector.observe(float(rng.random() < after))
        return detector.count

    assert delay(0.7) < delay(0.8) < delay(0.85) < 3000


@pytest.mark.parametrize("mean", [0.0, 1.0, float("nan")])
def test_a_mean_that_cannot_fall_or_is_no_number_is_refused(mean: float) -> None:
    with pytest.raises(InputError, match="cannot be watched"):
        FallDetector(mean=mean)
