"""Intervals as text."""

from __future__ import annotations

import pytest

from ratchet.types.interval_text import interval_ends, interval_text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (-0.12, 0.53, "-0.120 to +0.530"),
        (0.0, 0.53, "above 0, up to +0.530"),  # the moment of proof
        (-0.0, 0.53, "above 0, up to +0.530"),
        (-1e-9, 0.53, "above 0, up to +0.530"),
        (-0.0003, 0.53, "-0.0003 to +0.530"),  # not proved, if only just
        (0.0004, 0.53, "+0.0004 to +0.530"),
        (-0.4, 0.0, "below 0, down to -0.400"),  # proved harm
        (0.0, 0.0, "0 to 0"),
    ],
)
def test_no_bound_is_printed_as_a_zero_that_it_is_not(low: float, high: float, text: str) -> None:
    assert interval_text(low, high) == text
    assert "0.000" not in text.replace("0.0003", "").replace("0.0004", "")


def test_the_bounds_have_the_digits_asked_for() -> None:
    assert interval_ends(0.12346, 0.5, 4) == ("+0.1235", "+0.5000")
