"""Asymptotic confidence sequences: their width, and how seldom they miss."""

from __future__ import annotations

import numpy as np
import pytest

from ratchet.stats.asymptotic import asymptotic_interval


def _width(count: int, tuned_for: int) -> float:
    low, high = asymptotic_interval(count, 0.0, 1.0, alpha=0.05, tuned_for=tuned_for)
    return high - low


@pytest.mark.parametrize("count", [100, 1000, 10_000])
def test_it_is_narrowest_where_it_is_tuned_for(count: int) -> None:
    here = _width(count, count)
    assert here < _width(count, count * 10)
    assert here < _width(count, max(1, count // 10))


def test_it_misses_seldom_though_it_is_looked_at_after_every_number() -> None:
    rng = np.random.default_rng(1)
    numbers = rng.normal(0.0, 1.0, (300, 1500)).cumsum(axis=1)
    missed = 0
    for row in numbers:
        for count in range(50, 1501, 5):
            low, high = asymptotic_interval(
                count, row[count - 1] / count, 1.0, alpha=0.05, tuned_for=1000
            )
            if not low <= 0.0 <= high:
                missed += 1
                break
    assert missed <= 15
