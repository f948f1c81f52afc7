"""The alpha budget of a stream of experiments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.prove import level
from ratchet.types import InputError


def test_levels_without_promotions_never_sum_to_more_than_alpha() -> None:
    spent = sum(level(0.05, [False] * t) for t in range(2000))
    assert 0.048 < spent < 0.05


def test_a_promotion_raises_every_later_level() -> None:
    assert level(0.05, [True, False]) == pytest.approx(2 * level(0.05, [False, False]))


@given(st.lists(st.booleans(), max_size=300), st.floats(1e-6, 0.999))
def test_a_level_is_always_between_zero_and_alpha(history: list[bool], alpha: float) -> None:
    assert 0.0 < level(alpha, history) <= alpha


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, float("nan")])
def test_an_alpha_that_is_no_probability_is_refused(alpha: float) -> None:
    with pytest.raises(InputError):
        level(alpha, [])
