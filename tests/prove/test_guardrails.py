"""Guardrails: what counts as worse, and by how much."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.prove import Comparison, ExperimentPlan, Guardrail, PairedScore
from ratchet.types import InputError

FINITE = st.floats(-1e15, 1e15)
POSITIVE = st.floats(0.0, 1e15)


@given(FINITE, FINITE, st.floats(1e-6, 1e6), st.booleans())
def test_worsening_stays_within_one(before: float, after: float, scale: float, low: bool) -> None:
    guardrail = Guardrail("cost", margin=0.0, scale=scale, lower_is_better=low)
    assert -1.0 <= guardrail.worsening(before, after) <= 1.0


@given(POSITIVE, POSITIVE)
def test_relative_worsening_changes_its_sign_when_the_sides_swap(a: float, b: float) -> None:
    guardrail = Guardrail("latency", margin=0.25, aggregate="relative")
    assert guardrail.worsening(a, b) == -guardrail.worsening(b, a)
    assert -1.0 <= guardrail.worsening(a, b) <= 1.0


def test_a_candidate_25_percent_slower_everywhere_stands_exactly_at_a_margin_of_25_percent() -> (
    None
):
    guardrail = Guardrail("latency", margin=0.25, aggregate="relative")
    for seconds in (0.01, 1.0, 300.0):
        assert guardrail.worsening(seconds, 1.25 * seconds) == pytest.approx(guardrail.bound)
    higher = Guardrail("throughput", margin=0.25, aggregate="relative", lower_is_better=False)
    assert higher.worsening(8.0, 6.0) == pytest.approx(higher.bound)


def test_below_the_floor_a_difference_is_small_whatever_its_ratio() -> None:
    guardrail = Guardrail("latency", margin=0.5, aggregate="relative", floor=0.1)
    assert guardrail.worsening(0.0001, 0.0101) == pytest.approx(0.1)
    assert guardrail.worsening(0.0101, 0.0001) == pytest.approx(-0.1)
    assert guardrail.worsening(0.0, 0.09) > guardrail.bound
    # Above it, it is as if there were none.
    assert guardrail.worsening(1.0, 1.5) == pytest.approx(guardrail.bound)


def test_a_relative_guardrail_refuses_negative_values() -> None:
    plan = ExperimentPlan(guardrails=(Guardrail("delta", 0.1, aggregate="relative"),))
    with pytest.raises(InputError, match="negative"):
        Comparison(plan).observe(PairedScore("q1", 0.5, 0.5, {"delta": (1.0, -1.0)}))


@pytest.mark.parametrize(
    "fields",
    [
        {"metric": "", "margin": 0.1},
        {"metric": "m", "margin": -0.1},
        {"metric": "m", "margin": 1.0},
        {"metric": "m", "margin": math.nan},
        {"metric": "m", "margin": 0.1, "scale": 0.0},
        {"metric": "m", "margin": 0.1, "scale": math.inf},
        {"metric": "m", "margin": 0.1, "aggregate": "relative", "floor": -0.1},
        {"metric": "m", "margin": 0.1, "aggregate": "relative", "floor": math.inf},
        {"metric": "m", "margin": True},
        {"metric": "m", "margin": 0.1, "aggregate": "median"},
        {"metric": "m", "margin": 1.0, "aggregate": "relative", "lower_is_better": False},
    ],
)
def test_a_guardrail_that_cannot_work_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Guardrail(**fields)  # type: ignore[arg-type]
