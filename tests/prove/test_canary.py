"""The canary: what passes, what is stopped or held, and that a unit counts once."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from tests.prove.replaying import replay_canary

from ratchet.prove import (
    CanaryPlan,
    CanaryTest,
    FeedbackRule,
    LiveGuardrail,
    load_stage,
    save_stage,
)
from ratchet.types import Arm, InputError, LiveOutcome, TrafficSplit, arm_of

SPLIT = TrafficSplit(agent="a", experiment_id="e", candidate_id="c", enrolled=1.0)
ERRORS = LiveGuardrail(metric="errors", margin=0.1)
LATENCY = LiveGuardrail(metric="latency", margin=0.5, ceiling=5.0)
COST = LiveGuardrail(metric="cost", margin=0.01, ceiling=0.05)


def outcomes(
    base: float, candidate: float, seed: int = 1, **candidates: Callable[[random.Random], Any]
) -> Iterator[LiveOutcome]:
    """Outcomes of units; `candidates` draw what differs for the candidate's."""
    rng = random.Random(seed)
    for number in range(20_000):
        unit = f"user-{number}"
        arm = arm_of(SPLIT, unit)
        better = arm == "candidate"
        made = LiveOutcome(
            trace_id=f"t{number}",
            unit=unit,
            at=number,
            experiment_id="e",
            arm=arm,
            score=float(rng.random() < (candidate if better else base)),
            error=rng.random() < 0.02,
            latency_s=rng.uniform(0.5, 1.5),
            cost_usd=rng.uniform(0.005, 0.015),
            group=rng.choice("ab"),
        )
        if better:
            made = msgspec.structs.replace(
                made, **{name: draw(rng) for name, draw in candidates.items()}
            )
        yield made


def test_a_candidate_that_is_no_worse_passes_with_its_guardrails() -> None:
    plan = CanaryPlan(min_effect=-0.1, guardrails=(ERRORS, LATENCY, COST))
    test = replay_canary(plan, outcomes(0.8, 0.85))
    decided = test.decision()
    assert decided.verdict == "pass"
    assert [each.passed for each in decided.guardrails] == [True, True, True]
    assert [each.unit for each in decided.guardrails] == ["", "s", "USD"]
    assert "less than 0.1 worse" in decided.sentence
    assert "hold: errors, latency, cost" in decided.sentence
    assert decided.baseline_count + decided.candidate_count == test.scored


def test_a_worse_candidate_is_stopped_for_harm() -> None:
    test = replay_canary(CanaryPlan(guardrails=(ERRORS,)), outcomes(0.9, 0.7))
    assert test.verdict == "harm"
    assert test.ratio.units < 500
    assert "score is proved lower" in test.decision().sentence


@pytest.mark.parametrize(
    ("guardrail", "worse", "said"),
    [
        (ERRORS, {"error": lambda rng: rng.random() < 0.4}, "mean of errors is proved higher"),
        (LATENCY, {"latency_s": lambda rng: rng.uniform(2.0, 4.0)}, "higher by more than 0.5 s"),
        (COST, {"cost_usd": lambda rng: 0.04}, "higher by more than 0.01 USD"),
    ],
)
def test_a_broken_guardrail_stops_a_candidate_with_better_scores(
    guardrail: LiveGuardrail, worse: dict[str, Any], said: str
) -> None:
    plan = CanaryPlan(guardrails=(ERRORS, LATENCY, COST))
    test = replay_canary(plan, outcomes(0.8, 0.85, **worse))
    assert test.verdict == "harm"
    assert said in test.decision().sentence
    assert not next(r for r in test.decision().guardrails if r.metric == guardrail.metric).passed


def test_within_the_margin_a_guardrail_is_not_harmed_and_does_not_pass_without_proof() -> None:
    plan = CanaryPlan(min_effect=-0.2, guardrails=(LATENCY,), max_units=1200)
    slower = outcomes(0.8, 0.8, latency_s=lambda rng: rng.uniform(1.0, 2.0))
    test = replay_canary(plan, slower)
    assert test.passing.reached
    assert test.verdict == "inconclusive"
    assert "Not proved within its margin: latency" in test.decision().sentence


def test_a_metric_that_is_not_known_counts_as_its_ceiling() -> None:
    plan = CanaryPlan(min_effect=-0.2, guardrails=(COST,), max_units=800)
    mostly = outcomes(
        0.8, 0.9, cost_usd=lambda rng: None if rng.random() < 0.3 else rng.uniform(0.005, 0.01)
    )
    test = replay_canary(plan, mostly)
    cost = test.decision().guardrails[0]
    assert cost.candidate is not None
    assert cost.baseline is not None
    assert cost.candidate < cost.baseline
    assert (test.verdict, cost.passed) == ("inconclusive", False)


def test_arms_of_other_sizes_than_planned_hold_the_canary() -> None:
    rng = random.Random(2)
    plan = CanaryPlan(min_effect=0.0, max_units=20_000)
    kept = (each for each in outcomes(0.9, 0.9) if each.arm == "baseline" or rng.random() < 45 / 55)
    test = replay_canary(plan, kept)
    assert test.verdict == "hold"
    decided = test.decision()
    assert decided.sample_ratio_e_value is not None
    assert decided.sample_ratio_e_value >= 1000.0
    assert "got the candidate, where 50 % were planned" in decided.sentence


def test_scores_that_are_missing_in_one_arm_hold_the_canary() -> None:
    def sometimes(rng: random.Random) -> float | None:
        return None if rng.random() < 0.1 else 1.0

    plan = CanaryPlan(min_effect=0.2)
    test = replay_canary(plan, outcomes(0.8, 0.8, score=sometimes, error=lambda rng: False))
    assert test.verdict == "hold"
    assert "scores are missing because of it" in test.decision().sentence


def unscored(share: float, base: float, candidate: float, seed: int = 4) -> Iterator[LiveOutcome]:
    """Outcomes of which a share has no score, alike in both arms."""
    rng = random.Random(seed)
    for each in outcomes(base, candidate, seed):
        lost = rng.random() < share
        yield msgspec.structs.replace(each, score=None, error=False) if lost else each


def test_a_unit_without_a_score_counts_as_the_worst_against_what_is_to_be_proved() -> None:
    test = CanaryTest.begin(CanaryPlan())
    for unit, arm in enumerate(("candidate", "baseline")):
        before = test.passing.value, test.harming.value
        test.add(LiveOutcome(trace_id="t", unit=str(unit), at=0.0, arm=arm))
        assert test.passing.value < before[0]
        assert test.harming.value < before[1]
    assert (test.scored, test.missing_ratio.units) == (0, 2)


def losing(
    base: float, candidate: float, lost: dict[tuple[str, float], float]
) -> list[LiveOutcome]:
    """Outcomes of which a share has no score, by arm and by the score that it would have."""
    rng = random.Random(3)
    return [
        msgspec.structs.replace(each, score=None, error=False)
        if rng.random() < lost.get((str(each.arm), float(each.score or 0.0)), 0.0)
        else each
        for each in itertools.islice(outcomes(base, candidate), 3000)
    ]


def test_an_answer_that_cannot_be_scored_gains_nothing() -> None:
    worst = losing(0.9, 0.87, {("candidate", 0.0): 0.9, ("baseline", 1.0): 0.13})
    test = replay_canary(CanaryPlan(alpha=0.2, max_units=3000, hold_alpha=1e-9), worst)
    decided = test.decision()
    assert decided.candidate is not None
    assert decided.baseline is not None
    assert decided.candidate > decided.baseline + 0.05
    assert decided.verdict == "inconclusive"
    assert f"{decided.missing} of 3000 units had no score and count against" in decided.sentence
    assert decided.interval is not None
    assert decided.interval[0] < -0.03 < 0.05 < decided.interval[1]


def test_a_gain_that_outweighs_what_is_missing_passes_however_much_that_is() -> None:
    plan = CanaryPlan(min_effect=0.0)
    assert replay_canary(plan, unscored(0.15, 0.3, 0.9)).verdict == "pass"


def test_missing_scores_are_no_harm() -> None:
    best = losing(0.6, 0.6, {("candidate", 1.0): 0.15, ("baseline", 0.0): 0.22})
    plan = CanaryPlan(min_effect=0.5, max_units=3000, harm_alpha=0.3)
    decided = replay_canary(plan, best).decision()
    assert decided.candidate is not None
    assert decided.baseline is not None
    assert decided.candidate < decided.baseline - 0.08
    assert decided.verdict == "inconclusive"
    assert decided.harmed_groups == ()


def test_a_failed_call_without_a_score_counts_as_0() -> None:
    test = CanaryTest.begin(CanaryPlan())
    test.add(LiveOutcome(trace_id="t", unit="u", at=0.0, arm="candidate", error=True))
    assert (test.scored, test.effect.treated.mean) == (1, 0.0)


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize("min_effect", [-0.1, 0.0, 0.1])
def test_the_bets_are_fair_on_every_path_when_the_effect_is_the_largest_that_must_not_pass(
    share: float, min_effect: float
) -> None:
    depth, base = 4, 0.6
    plan = CanaryPlan(share=share, min_effect=min_effect)
    passing = harming = 0.0
    units = itertools.product((True, False), (0.0, 1.0))
    for path in itertools.product(list(units), repeat=depth):
        test = CanaryTest.begin(plan)
        chance = 1.0
        for number, (treated, score) in enumerate(path):
            rate = base + min_effect if treated else base
            chance *= share if treated else 1.0 - share
            chance *= rate if score else 1.0 - rate
            test.add(
                LiveOutcome(
                    trace_id="",
                    unit=str(number),
                    at=0.0,
                    arm="candidate" if treated else "baseline",
                    score=score,
                    group="ab"[number % 2],
                    predicted=0.3 * number,
                )
            )
        passing += chance * test.passing.value
        harming += chance * test.harming.value
    assert passing == pytest.approx(1.0, abs=1e-9)
    assert (harming > 1.0 + 1e-9) == (min_effect < 0.0)
    assert (harming < 1.0 - 1e-9) == (min_effect > 0.0)


def test_only_the_first_outcome_of_a_unit_counts() -> None:
    test = CanaryTest.begin(CanaryPlan())
    first = LiveOutcome(trace_id="1", unit="u", at=0.0, arm="candidate", score=1.0)
    test.add(first)
    saved = save_stage(test)
    test.add(msgspec.structs.replace(first, trace_id="2", score=0.0))
    assert save_stage(test) == saved


def _filled(arm_counts: dict[Arm, tuple[int, int]]) -> CanaryTest:
    test = CanaryTest.begin(CanaryPlan(min_effect=-0.5, min_units=1000))
    number = 0
    for arm, (good, bad) in arm_counts.items():
        for place in range(good + bad):
            number += 1
            score = float(place < good)
            test.add(LiveOutcome(trace_id="", unit=str(number), at=0.0, arm=arm, score=score))
    return test


def test_the_interval_is_hidden_until_both_arms_have_ten_successes_and_ten_failures() -> None:
    assert _filled({"baseline": (20, 10), "candidate": (20, 9)}).interval is None
    assert _filled({"baseline": (9, 20), "candidate": (20, 10)}).interval is None
    shown = _filled({"baseline": (20, 10), "candidate": (20, 10)}).interval
    assert shown is not None
    assert -1.0 <= shown[0] < 0.0 < shown[1] <= 1.0


def test_a_group_that_is_harmed_is_flagged_though_the_candidate_passes() -> None:
    rng = random.Random(3)
    test = CanaryTest.begin(CanaryPlan(min_units=2000, min_effect=-0.1))
    for number in range(5000):
        unit = f"u{number}"
        arm = arm_of(SPLIT, unit)
        group = "refunds" if rng.random() < 0.2 else "bookings"
        rate = 0.7 if arm == "baseline" else 0.2 if group == "refunds" else 0.9
        score = float(rng.random() < rate)
        outcome = LiveOutcome(trace_id="", unit=unit, at=0.0, arm=arm, score=score, group=group)
        if test.add(outcome) is not None:
            break
    assert test.verdict == "pass"
    assert test.decision().harmed_groups == ("refunds",)
    harmed = next(each for each in test.decision().subgroups if each.group == "refunds")
    assert (harmed.baseline, harmed.candidate) == (
        pytest.approx(0.7, abs=0.1),
        pytest.approx(0.2, abs=0.1),
    )


def test_a_killed_canary_goes_on_with_the_same_bits() -> None:
    plan = CanaryPlan(guardrails=(ERRORS, LATENCY))
    whole, killed = CanaryTest.begin(plan), CanaryTest.begin(plan)
    for number, outcome in enumerate(outcomes(0.8, 0.8)):
        whole.add(outcome)
        killed.add(outcome)
        if number % 10 == 0:
            killed = load_stage(CanaryTest, json.loads(json.dumps(save_stage(killed))))
        if number == 80:
            break
    assert killed.e_values == whole.e_values
    assert save_stage(killed) == save_stage(whole)
    assert killed.decision() == whole.decision()


def test_a_unit_outside_of_the_canary_is_refused() -> None:
    test = CanaryTest.begin(CanaryPlan())
    with pytest.raises(InputError, match="in neither arm"):
        test.add(LiveOutcome(trace_id="t", unit="u", at=0.0, score=1.0))


@pytest.mark.parametrize("field", ["score", "predicted"])
def test_a_score_outside_0_to_1_is_refused(field: str) -> None:
    test = CanaryTest.begin(CanaryPlan())
    outcome = LiveOutcome(trace_id="t", unit="u", at=0.0, arm="baseline", **{field: 1.5})
    with pytest.raises(InputError, match=r"score 1\.5 is outside"):
        test.add(outcome)
    assert test.ratio.units == 0


def test_an_outcome_after_the_verdict_is_refused() -> None:
    test = CanaryTest.begin(CanaryPlan())
    assert test.finish() == "inconclusive"
    with pytest.raises(InputError, match="after the verdict 'inconclusive'"):
        test.add(LiveOutcome(trace_id="t", unit="u", at=0.0, arm="baseline", score=1.0))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"share": 0.0}, "share"),
        ({"min_effect": -1.0}, "min_effect"),
        ({"hold_alpha": 0.0}, "hold_alpha"),
        ({"max_units": 10}, "min_units"),
        ({"guardrails": (ERRORS, ERRORS)}, "given twice"),
        ({"guardrails": (FeedbackRule().guardrail,)}, "only for a canary on feedback"),
        ({"missing": "drop"}, "neither 'worst' nor 'skip'"),
        ({"max_missing": 0.2}, "max_missing belongs to missing = 'skip'"),
        ({"missing": "skip"}, "max_missing belongs to missing = 'skip'"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        CanaryPlan(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"metric": "tone", "margin": 0.1}, "no metric 'tone'"),
        ({"metric": "score", "margin": 0.1}, "cannot be a guardrail"),
        ({"metric": "latency", "margin": 2.0}, "not below its ceiling"),
        ({"metric": "cost", "margin": -0.1}, "margin"),
    ],
)
def test_a_guardrail_that_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        LiveGuardrail(**given)
