"""A comparison: when it goes on, how it ends, what it says."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.prove import Comparison, ExperimentPlan, Guardrail, PairedScore, decision
from ratchet.prove.comparison import replay
from ratchet.types import InputError

SCORE = st.one_of(st.none(), st.floats(0.0, 1.0))
PAIR = st.builds(
    PairedScore,
    st.text(max_size=5),
    SCORE,
    SCORE,
    st.fixed_dictionaries({}, optional={"cost": st.tuples(st.floats(0, 9), st.floats(0, 9))}),
)


def pairs(
    gain: float, count: int, seed: int = 0, **metrics: tuple[float, float]
) -> list[PairedScore]:
    rng = random.Random(seed)
    result = []
    for i in range(count):
        before = rng.uniform(0.3, 0.6)
        after = max(0.0, min(1.0, before + gain + rng.gauss(0.0, 0.1)))
        result.append(PairedScore(f"q{i:04d}", before, after, dict(metrics)))
    return result


def test_a_clear_gain_is_promoted_before_the_pairs_run_out() -> None:
    comparison = replay(ExperimentPlan(max_pairs=300), pairs(0.1, 300))
    assert comparison.verdict == "promote"
    result = decision(comparison)
    assert result.pairs < 80
    assert result.e_value >= 20
    assert result.candidate > result.baseline
    assert result.interval[0] >= 0.0
    assert "Proved better" in result.sentence


def test_a_worse_candidate_is_stopped_for_harm() -> None:
    comparison = replay(ExperimentPlan(max_pairs=300, futility_alpha=1e-9), pairs(-0.1, 300))
    assert comparison.verdict == "harm"
    assert len(comparison.path) < 100
    assert "worse" in decision(comparison).sentence


def test_equal_candidates_end_without_a_significant_gain() -> None:
    comparison = replay(ExperimentPlan(max_pairs=200, min_gain=0.0), pairs(0.0, 200, seed=3))
    assert comparison.verdict == "no_gain"
    assert "no significant gain" in decision(comparison).sentence


def test_a_gain_proved_too_small_ends_early_as_futile() -> None:
    comparison = replay(ExperimentPlan(max_pairs=1000, min_gain=0.05), pairs(0.0, 1000))
    assert comparison.verdict == "futile"
    assert len(comparison.path) < 500
    assert "no significant gain" in decision(comparison).sentence


def test_a_better_candidate_that_breaks_a_guardrail_is_not_promoted() -> None:
    plan = ExperimentPlan(max_pairs=200, guardrails=(Guardrail("cost", 0.2, aggregate="relative"),))
    comparison = replay(plan, pairs(0.1, 200, cost=(1.0, 1.5)))
    assert comparison.verdict == "guardrail"
    result = decision(comparison)
    assert "cost" in result.sentence
    assert [g.passed for g in result.guardrails] == [False]
    assert result.guardrails[0].candidate == 1.5


def test_promotion_waits_for_every_guardrail() -> None:
    rails = (Guardrail("cost", 0.2, aggregate="relative"), Guardrail("latency", 0.4))
    plan = ExperimentPlan(max_pairs=200, guardrails=rails)
    alone = replay(ExperimentPlan(max_pairs=200), pairs(0.15, 200))
    guarded = replay(plan, pairs(0.15, 200, cost=(1.0, 1.0), latency=(0.1, 0.1)))
    assert guarded.verdict == "promote"
    assert len(guarded.path) >= len(alone.path)
    assert all(state.process.value >= 20 for state in guarded.guardrails)


def test_no_promotion_before_the_smallest_number_of_pairs() -> None:
    plan = ExperimentPlan(min_pairs=40, max_pairs=100)
    assert replay(plan, [PairedScore(str(i), 0.0, 1.0) for i in range(100)]).scored == 40
    short = replay(plan, [PairedScore(str(i), 0.0, 1.0) for i in range(20)])
    assert short.verdict == "no_gain"
    assert "at least 40" in decision(short).sentence


def test_unknown_scores_are_skipped_and_counted_never_zero() -> None:
    good = pairs(0.1, 300)
    spoiled = [
        PairedScore(p.task_id, None if i % 15 == 0 else p.baseline, p.candidate)
        for i, p in enumerate(good)
    ]
    comparison = replay(ExperimentPlan(max_pairs=300), spoiled)
    assert comparison.verdict == "promote"
    assert comparison.missing >= 1
    assert f"{comparison.missing} of {len(comparison.path)} pairs" in decision(comparison).sentence


def test_nothing_is_promoted_when_more_than_a_tenth_of_the_pairs_is_unknown() -> None:
    spoiled = [
        PairedScore(p.task_id, p.baseline, None if i % 5 == 0 else p.candidate)
        for i, p in enumerate(pairs(0.1, 200))
    ]
    comparison = replay(ExperimentPlan(max_pairs=200), spoiled)
    assert comparison.verdict == "no_gain"
    sentence = decision(comparison).sentence
    assert "no significant gain" in sentence
    assert "too many" in sentence


def test_a_guardrail_metric_that_is_mostly_unknown_cannot_pass() -> None:
    plan = ExperimentPlan(max_pairs=200, guardrails=(Guardrail("cost", 0.5),))
    mixed = [
        PairedScore(p.task_id, p.baseline, p.candidate, {"cost": (0.1, 0.1 if i % 2 else None)})
        for i, p in enumerate(pairs(0.1, 200))
    ]
    comparison = replay(plan, mixed)
    assert comparison.verdict == "guardrail"
    decided = decision(comparison)
    assert "Not measured: cost." in decided.sentence
    assert "Not proved within its margin" not in decided.sentence
    assert "cost was not measured in 100 of 200 scored pairs" in decided.sentence
    (guardrail,) = decided.guardrails
    assert (guardrail.baseline, guardrail.candidate) == (None, None)
    assert (guardrail.measured, guardrail.passed) == (False, False)


def test_a_candidate_whose_cost_became_unknown_is_not_proved_to_cost_no_more() -> None:
    plan = ExperimentPlan(
        max_pairs=200, guardrails=(Guardrail("cost", 0.25, aggregate="relative"),)
    )
    moved = [
        PairedScore(p.task_id, p.baseline, p.candidate, {"cost": (0.1, None)})
        for p in pairs(0.1, 200)
    ]
    comparison = replay(plan, moved)
    assert comparison.verdict == "guardrail"
    assert "proved to hold" not in decision(comparison).sentence


def test_a_cost_of_nothing_on_both_sides_is_measured_and_holds() -> None:
    plan = ExperimentPlan(
        max_pairs=200, guardrails=(Guardrail("cost", 0.25, aggregate="relative"),)
    )
    free = [
        PairedScore(p.task_id, p.baseline, p.candidate, {"cost": (0.0, 0.0)})
        for p in pairs(0.3, 200)
    ]
    comparison = replay(plan, free)
    assert comparison.verdict == "promote"
    assert "Guardrails proved to hold: cost." in decision(comparison).sentence
    assert decision(comparison).guardrails[0].baseline == 0.0


def test_a_failed_rollout_counts_as_zero_only_when_the_caller_says_so() -> None:
    assert PairedScore("q", None, 0.5).baseline is None
    assert PairedScore("q", None, 0.5, failed=("baseline",)).baseline == 0.0
    with pytest.raises(InputError, match="failed"):
        PairedScore("q", 0.3, 0.5, failed=("baseline",))


@settings(deadline=None)
@given(st.lists(PAIR, max_size=40))
def test_looking_never_changes_the_path(observed: list[PairedScore]) -> None:
    plan = ExperimentPlan(max_pairs=40, guardrails=(Guardrail("cost", 0.5, 3.0),))
    peeked, silent = Comparison(plan), Comparison(plan)
    for pair in observed:
        if silent.observe(pair) is not None:
            break
    silent.finish()
    for pair in observed:
        verdict = peeked.observe(pair)
        _ = (peeked.path, peeked.means, peeked.superiority.state, peeked.pairs)
        if verdict is not None:
            decision(peeked)
            break
    peeked.finish()
    assert peeked.path == silent.path
    assert decision(peeked) == decision(silent)


@settings(deadline=None)
@given(st.lists(PAIR, max_size=40))
def test_pairs_are_kept_in_the_order_given(observed: list[PairedScore]) -> None:
    comparison = replay(ExperimentPlan(max_pairs=40), observed)
    assert list(comparison.pairs) == observed[: len(comparison.path)]
    assert comparison.scored + comparison.missing == len(comparison.pairs)


def test_a_pair_after_the_verdict_is_refused() -> None:
    comparison = replay(ExperimentPlan(max_pairs=10), pairs(0.0, 10))
    with pytest.raises(InputError, match="came after the verdict"):
        comparison.observe(PairedScore("late", 0.1, 0.2))


def test_an_unfinished_comparison_has_no_decision() -> None:
    with pytest.raises(InputError, match="not over"):
        decision(Comparison(ExperimentPlan()))


def test_an_empty_comparison_ends_without_a_gain() -> None:
    comparison = Comparison(ExperimentPlan())
    assert comparison.finish() == "no_gain"
    assert decision(comparison).interval == (-1.0, 1.0)


@pytest.mark.parametrize("score", [1.5, -0.1, math.nan, math.inf, "0.5", True])
def test_a_score_outside_zero_and_one_is_refused_naming_the_task(score: object) -> None:
    with pytest.raises(InputError, match="q7"):
        PairedScore("q7", score, 0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields",
    [
        {"alpha": 0.0},
        {"alpha": 0.9},
        {"alpha": math.nan},
        {"min_gain": -0.1},
        {"min_pairs": 0},
        {"min_pairs": 20, "max_pairs": 10},
        {"max_pairs": 3.5},
        {"guardrails": (Guardrail("cost", 0.1), Guardrail("cost", 0.2))},
    ],
)
def test_a_plan_that_cannot_work_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InputError):
        ExperimentPlan(**fields)  # type: ignore[arg-type]
