"""The test of the planned ratio: valid by exact enumeration, and it finds what is off."""

from __future__ import annotations

import itertools
import random

import pytest

from ratchet.stats.sample_ratio import SampleRatio


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_its_expected_value_is_one_when_units_fall_as_planned(share: float) -> None:
    total = 0.0
    for units in itertools.product((True, False), repeat=10):
        test = SampleRatio(share=share)
        chance = 1.0
        for first in units:
            test.observe(first)
            chance *= share if first else 1.0 - share
        total += chance * test.value
    assert total == pytest.approx(1.0, abs=1e-12)


def test_45_instead_of_50_in_a_hundred_is_found() -> None:
    rng = random.Random(1)
    test = SampleRatio(share=0.5)
    while test.value < 1000.0:
        test.observe(rng.random() < 0.45)
    assert test.units < 4000
