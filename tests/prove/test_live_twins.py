"""The simulated stages of the benchmark decide as the real ones do, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.parts.live_decisions.scarce import (
    FeedbackCanaries,
    UnscoredCanaries,
    UnscoredShadows,
)
from benchmarks.parts.live_decisions.stages import (
    HARM,
    HOLD,
    PASS,
    Canaries,
    Shadows,
    Watches,
)

from ratchet.prove import (
    CanaryPlan,
    CanaryTest,
    FeedbackRule,
    ShadowPair,
    ShadowPlan,
    ShadowTest,
    WatchedMetric,
    WatchPlan,
    WatchTest,
)
from ratchet.types import LiveOutcome

RUNS = 6
VERDICTS = {"pass": PASS, "harm": HARM, "hold": HOLD, "inconclusive": 0}


def test_simulated_shadows_are_real_ones() -> None:
    rng = np.random.default_rng(1)
    plan = ShadowPlan(alpha=0.1, margin=0.05, max_pairs=250, min_pairs=20)
    gains = np.array([-0.2, -0.05, 0.0, 0.05, 0.1, 0.3])
    twins = Shadows(RUNS, plan)
    tests = [ShadowTest.begin(plan) for _ in range(RUNS)]
    for number in range(plan.max_pairs):
        before = rng.uniform(0.3, 0.6, RUNS)
        after = np.clip(before + gains + rng.normal(0.0, 0.25, RUNS), 0.0, 1.0)
        twins.add(after - before)
        for run, test in enumerate(tests):
            if test.verdict is None:
                pair = ShadowPair(
                    trace_id=str(number), baseline=float(before[run]), candidate=float(after[run])
                )
                test.add(pair)
                assert test.e_values["pass"] == twins.passing.value[run]
                assert test.e_values["harm"] == twins.harming.value[run]
    _same_ends(twins.ends.verdict, twins.ends.at, tests, plan.max_pairs, [t.pairs for t in tests])
    assert {"pass", "harm"} <= {test.verdict for test in tests}


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize("covariates", [False, True])
def test_simulated_canaries_are_real_ones(share: float, covariates: bool) -> None:
    rng = np.random.default_rng(2)
    plan = CanaryPlan(
        alpha=0.1, min_effect=-0.1, share=share, max_units=400, min_units=50, hold_alpha=0.01
    )
    rates = np.array([0.3, 0.6, 0.8, 0.9, 0.99, 0.9])
    assigned = np.array([share] * 5 + [0.8 * share])
    twins = Canaries(RUNS, plan, groups=3)
    tests = [CanaryTest.begin(plan) for _ in range(RUNS)]
    for number in range(plan.max_units):
        treated = rng.random(RUNS) < assigned
        scores = (rng.random(RUNS) < np.where(treated, rates, 0.8)).astype(float)
        group = rng.integers(0, 3, RUNS) if covariates else None
        predicted = rng.random(RUNS) if covariates else None
        twins.add(scores, treated, group, predicted)
        for run, test in enumerate(tests):
            if test.verdict is None:
                test.add(
                    LiveOutcome(
                        trace_id=str(number),
                        unit=str(number),
                        at=number,
                        arm="candidate" if treated[run] else "baseline",
                        score=float(scores[run]),
                        group="" if group is None else f"group {group[run]}",
                        predicted=None if predicted is None else float(predicted[run]),
                    )
                )
                found = test.e_values
                assert found["pass"] == twins.passing.value[run]
                assert found["harm"] == twins.harming.value[run]
                assert found["sample ratio"] == twins.ratio.value[run]
                if number % 50 == 49:
                    low, high, shown = twins.interval()
                    assert (test.interval is not None) == shown[run]
                    if test.interval is not None:
                        expected = (max(low[run], -1.0), min(high[run], 1.0))
                        assert test.interval == pytest.approx(expected, abs=1e-6)
    units = [test.ratio.units for test in tests]
    _same_ends(twins.ends.verdict, twins.ends.at, tests, plan.max_units, units)
    assert "harm" in {test.verdict for test in tests}


def test_simulated_shadows_with_missing_scores_are_real_ones() -> None:
    rng = np.random.default_rng(4)
    plan = ShadowPlan(alpha=0.1, margin=0.05, max_pairs=250, min_pairs=20)
    gains = np.array([-0.3, -0.1, 0.0, 0.1, 0.3, 0.4])
    twins = UnscoredShadows(RUNS, plan)
    tests = [ShadowTest.begin(plan) for _ in range(RUNS)]
    for number in range(plan.max_pairs):
        before = rng.uniform(0.3, 0.6, RUNS)
        after = np.clip(before + gains + rng.normal(0.0, 0.25, RUNS), 0.0, 1.0)
        known = rng.random(RUNS) < 0.95
        twins.add(before, after, known)
        for run, test in enumerate(tests):
            if test.verdict is None:
                score = float(after[run]) if known[run] else None
                test.add(
                    ShadowPair(trace_id=str(number), baseline=float(before[run]), candidate=score)
                )
                assert test.e_values["pass"] == twins.passing.value[run]
                assert test.e_values["harm"] == twins.harming.value[run]
    _same_ends(twins.ends.verdict, twins.ends.at, tests, plan.max_pairs, [t.pairs for t in tests])
    assert {"pass", "harm"} <= {test.verdict for test in tests}


@pytest.mark.parametrize("share", [0.5, 0.2])
@pytest.mark.parametrize("feedback", [None, FeedbackRule(negative_margin=0.1, coverage_margin=0.2)])
def test_simulated_canaries_without_all_scores_are_real_ones(
    share: float, feedback: FeedbackRule | None
) -> None:
    rng = np.random.default_rng(5)
    plan = CanaryPlan(
        alpha=0.1,
        min_effect=-0.1,
        share=share,
        max_units=700,
        min_units=50,
        hold_alpha=0.01,
        feedback=feedback,
    )
    rates = np.array([0.2, 0.5, 0.6, 0.9, 0.95, 0.9])
    known_rates = np.array([0.9] * 5 + [0.5])
    kind = UnscoredCanaries if feedback is None else FeedbackCanaries
    twins = kind(RUNS, plan)
    tests = [CanaryTest.begin(plan) for _ in range(RUNS)]
    for number in range(plan.max_units):
        treated = rng.random(RUNS) < share
        scores = (rng.random(RUNS) < np.where(treated, rates, 0.5)).astype(float)
        known = rng.random(RUNS) < np.where(treated, known_rates, 0.9)
        twins.add(scores, treated, known)
        for run, test in enumerate(tests):
            if test.verdict is None:
                test.add(
                    LiveOutcome(
                        trace_id=str(number),
                        unit=str(number),
                        at=number,
                        arm="candidate" if treated[run] else "baseline",
                        score=float(scores[run]) if known[run] else None,
                    )
                )
                assert test.passing.value == twins.passing.value[run]
                assert test.harming.value == twins.harming.value[run]
                if isinstance(twins, FeedbackCanaries):
                    assert test.coverage is not None
                    assert test.coverage.not_higher.value == twins.not_higher.value[run]
                    assert test.coverage.lower.value == twins.lower.value[run]
                    assert test.guardrails[0].passing.value == twins.no_more_negative.value[run]
                    assert test.guardrails[0].harming.value == twins.more_negative.value[run]
    units = [test.ratio.units for test in tests]
    _same_ends(twins.ends.verdict, twins.ends.at, tests, plan.max_units, units)
    assert {"pass", "harm", "hold"} <= {test.verdict for test in tests}


def test_simulated_watches_are_real_ones() -> None:
    rng = np.random.default_rng(3)
    plan = WatchPlan(metrics=(WatchedMetric(expected=0.8, tolerance=0.02),), outcomes=300)
    rates = np.array([0.9, 0.8, 0.7, 0.6, 0.4, 0.2])
    twins = Watches(RUNS, plan)
    tests = [WatchTest.begin(plan) for _ in range(RUNS)]
    for number in range(plan.outcomes):
        scores = (rng.random(RUNS) < rates).astype(float)
        twins.add(scores)
        for run, test in enumerate(tests):
            if test.verdict is None:
                outcome = LiveOutcome(
                    trace_id=str(number), unit="", at=number, score=float(scores[run])
                )
                if test.add(outcome) != "alarm":
                    assert test.e_values["release"] == twins.value[run]
    ended = [test.release.outcomes if test.verdict == "alarm" else np.inf for test in tests]
    assert ended == twins.alarm_at.tolist()
    assert {"pass", "alarm"} == {test.verdict for test in tests}


def _same_ends(
    verdicts: np.ndarray,
    at: np.ndarray,
    tests: list[ShadowTest] | list[CanaryTest],
    most: int,
    counts: list[int],
) -> None:
    assert [VERDICTS[test.verdict or ""] for test in tests] == verdicts.tolist()
    assert counts == np.minimum(at, most).tolist()
