"""The shadow stage: what passes, what is stopped, and what blocked and unscored pairs do."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.prove.replaying import replay_shadow

from ratchet.prove import Guardrail, ShadowPair, ShadowPlan, ShadowTest, load_stage, save_stage
from ratchet.types import InputError


def pairs(
    gain: float, seed: int = 1, count: int = 3000, blocked: float = 0.0, unscored: float = 0.0
) -> Iterator[ShadowPair]:
    rng = random.Random(seed)
    for number in range(count):
        before = rng.uniform(0.3, 0.6)
        after = min(1.0, max(0.0, before + gain + rng.uniform(-0.3, 0.3)))
        stopped = rng.random() < blocked
        lost = rng.random() < unscored
        yield ShadowPair(
            trace_id=f"t{number}",
            baseline=before,
            candidate=None if stopped or lost else after,
            blocked="send_mail" if stopped else "",
            group=rng.choice("ab"),
        )


def test_a_better_candidate_passes() -> None:
    test = replay_shadow(ShadowPlan(), pairs(0.05))
    assert test.verdict == "pass"
    decided = test.decision()
    assert decided.e_value >= decided.needed == 20.0
    assert decided.candidate_count == test.scored == test.pairs
    assert decided.interval is not None
    assert decided.interval[0] >= -0.02
    assert decided.sentence.startswith("In shadow the candidate is proved to be less than 0.02")


def test_an_equal_candidate_passes_as_it_is_not_worse_by_the_margin() -> None:
    assert replay_shadow(ShadowPlan(margin=0.05), pairs(0.0)).verdict == "pass"


def test_a_worse_candidate_is_stopped_for_harm() -> None:
    test = replay_shadow(ShadowPlan(), pairs(-0.1))
    assert test.verdict == "harm"
    assert test.pairs < 150
    assert "stopped for harm" in test.decision().sentence
    assert "score is proved lower" in test.decision().sentence


def test_a_stage_that_is_ended_early_is_inconclusive() -> None:
    test = ShadowTest.begin(ShadowPlan())
    assert test.finish() == "inconclusive"
    decided = test.decision()
    assert (decided.baseline, decided.interval) == (None, None)
    assert "no score of both sides yet" in decided.sentence


def test_nothing_passes_before_the_fewest_pairs() -> None:
    test = replay_shadow(ShadowPlan(min_pairs=500), pairs(0.2))
    assert (test.verdict, test.pairs) == ("pass", 500)


def test_a_blocked_pair_counts_as_the_worst_score() -> None:
    plan = ShadowPlan(max_pairs=600)
    assert replay_shadow(plan, pairs(0.1)).verdict == "pass"
    worst = replay_shadow(plan, pairs(0.1, blocked=0.19))
    assert worst.verdict == "inconclusive"
    left_out = ShadowPlan(max_pairs=600, blocked_score=None)
    test = replay_shadow(left_out, pairs(0.1, blocked=0.1))
    assert test.verdict == "pass"
    assert test.decision().blocked == test.blocked > 0


def test_blocked_pairs_are_no_evidence_of_harm() -> None:
    plan = ShadowPlan(max_pairs=300, max_blocked=1.0)
    test = replay_shadow(plan, pairs(0.0, blocked=1.0))
    assert test.verdict == "inconclusive"
    assert test.harming.peak == 1.0
    left_out = ShadowPlan(max_pairs=300, max_blocked=1.0, blocked_score=None)
    assert replay_shadow(left_out, pairs(0.0, blocked=1.0)).harming.value == 1.0


def test_with_too_many_pairs_blocked_nothing_passes() -> None:
    plan = ShadowPlan(max_pairs=400, blocked_score=None)
    test = replay_shadow(plan, pairs(0.2, blocked=0.3))
    assert test.passing.reached
    assert test.verdict == "inconclusive"
    assert "are blocked" in test.decision().sentence


def test_an_answer_that_cannot_be_scored_gains_nothing() -> None:
    worst = (
        msgspec.structs.replace(each, candidate=None)
        if (each.candidate or 0.0) < (each.baseline or 0.0) - 0.24
        else each
        for each in pairs(0.0)
    )
    test = replay_shadow(ShadowPlan(alpha=0.2, max_pairs=1000, harm_alpha=1e-9), worst)
    decided = test.decision()
    assert decided.candidate is not None
    assert decided.baseline is not None
    assert decided.candidate > decided.baseline + 0.02
    assert decided.verdict == "inconclusive"
    assert 0 < decided.missing < 0.13 * test.pairs
    assert f"{decided.missing} of 1000 pairs had no score and count against" in decided.sentence
    assert decided.interval is not None
    assert decided.interval[0] < -0.02 < 0.02 < decided.interval[1]


def test_a_gain_that_outweighs_what_is_missing_passes_however_much_that_is() -> None:
    assert replay_shadow(ShadowPlan(), pairs(0.4, unscored=0.2)).verdict == "pass"


def test_missing_scores_are_no_harm() -> None:
    best = (
        msgspec.structs.replace(each, candidate=None)
        if (each.candidate or 0.0) > (each.baseline or 0.0) + 0.2
        else each
        for each in pairs(0.0)
    )
    plan = ShadowPlan(max_pairs=1000, harm_alpha=0.3, margin=0.0)
    decided = replay_shadow(plan, best).decision()
    assert decided.candidate is not None
    assert decided.baseline is not None
    assert decided.candidate < decided.baseline - 0.03
    assert decided.verdict == "inconclusive"
    assert decided.harmed_groups == ()


COST = Guardrail("cost", 0.25, unit="USD", aggregate="relative")


@pytest.mark.parametrize(
    ("times", "verdict", "said"),
    [
        (1.0, "pass", "Guardrails proved to hold: cost."),
        (1.25, "inconclusive", "Not proved within its margin: cost."),
        (None, "inconclusive", "The cost of 300 pairs is not known and counts against"),
    ],
)
def test_a_guardrail_has_to_be_proved_to_hold(times: float | None, verdict: str, said: str) -> None:
    rng = random.Random(9)
    test = ShadowTest.begin(ShadowPlan(guardrails=(COST,), max_pairs=300))
    for pair in pairs(0.1, blocked=0.002):
        before = rng.uniform(0.01, 0.02)
        after = None if times is None else times * rng.uniform(0.01, 0.02)
        if test.add(msgspec.structs.replace(pair, metrics={"cost": (before, after)})) is not None:
            break
    assert test.passing.reached
    assert test.verdict == verdict
    assert said in test.decision().sentence


def test_a_guardrail_is_given_once() -> None:
    with pytest.raises(InputError, match="guardrail 'cost' is given twice"):
        ShadowPlan(guardrails=(COST, COST))


@pytest.mark.parametrize("known", [{"baseline": 0.5}, {"candidate": 0.5}, {}])
def test_a_side_without_a_score_counts_as_the_worst_against_what_is_to_be_proved(
    known: dict[str, float],
) -> None:
    test = ShadowTest.begin(ShadowPlan())
    test.add(ShadowPair(trace_id="a", **known))
    assert (test.missing, test.scored) == (1, 0)
    assert test.passing.value < 1.0
    assert test.harming.value < 1.0


def test_a_gain_overall_that_harms_a_group_is_flagged() -> None:
    rng = random.Random(3)
    test = ShadowTest.begin(ShadowPlan(min_pairs=500))
    while test.verdict is None:
        group = "refunds" if rng.random() < 0.2 else "bookings"
        gain = -0.3 if group == "refunds" else 0.2
        before = rng.uniform(0.4, 0.6)
        after = before + gain + rng.uniform(-0.1, 0.1)
        test.add(ShadowPair(trace_id="t", baseline=before, candidate=after, group=group))
    decided = test.decision()
    assert decided.verdict == "pass"
    assert decided.harmed_groups == ("refunds",)
    assert decided.sentence.endswith("in these groups, whatever it is overall: refunds.")


def test_a_killed_stage_goes_on_with_the_same_bits() -> None:
    plan = ShadowPlan()
    whole = ShadowTest.begin(plan)
    killed = ShadowTest.begin(plan)
    for pair in pairs(0.02, blocked=0.01, unscored=0.01):
        killed = load_stage(ShadowTest, json.loads(json.dumps(save_stage(killed))))
        if whole.add(pair) is not None:
            break
        assert killed.add(pair) is None
        assert killed.e_values == whole.e_values
        if whole.pairs == 60:
            break
    assert save_stage(killed) == save_stage(whole)
    assert killed.decision() == whole.decision()


def test_a_saved_state_of_another_stage_is_refused() -> None:
    saved = save_stage(ShadowTest.begin(ShadowPlan()))
    del saved["harming"]
    with pytest.raises(InputError, match="not that of a ShadowTest"):
        load_stage(ShadowTest, saved)


def test_a_pair_after_the_verdict_is_refused() -> None:
    test = replay_shadow(ShadowPlan(), pairs(-0.3))
    with pytest.raises(InputError, match="'late' came after the verdict 'harm'"):
        test.add(ShadowPair(trace_id="late"))


@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_a_candidate_at_the_margin_passes_no_more_often_than_alpha(alpha: float) -> None:
    passed = 0
    for seed in range(200):
        test = ShadowTest.begin(ShadowPlan(alpha=alpha, margin=0.1, max_pairs=100, min_pairs=1))
        rng = random.Random(seed)
        while test.verdict is None:
            before = float(rng.random() < 0.6)
            test.add(ShadowPair(trace_id="", baseline=before, candidate=float(rng.random() < 0.5)))
        passed += test.verdict == "pass"
    assert passed <= 200 * alpha + 3.0 * (200 * alpha) ** 0.5


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("alpha", 0.0),
        ("alpha", True),
        ("margin", -0.1),
        ("harm_alpha", float("nan")),
        ("max_missing", 0.1),
        ("missing", "drop"),
        ("blocked_score", 2.0),
        ("min_pairs", 0),
        ("max_pairs", 2.5),
        ("min_pairs", 5000),
    ],
)
def test_a_plan_that_cannot_be_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"ShadowPlan: .*{field}"):
        ShadowPlan(**{field: value})
