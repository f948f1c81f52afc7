"""A canary on people's feedback: silence is no missing score, and what it may hide is proved."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator

import msgspec
import pytest
from tests.prove.replaying import replay_canary

from ratchet.prove import CanaryPlan, CanaryTest, FeedbackRule, load_stage, save_stage
from ratchet.types import InputError, LiveOutcome

PLAN = CanaryPlan(metric="feedback", feedback=FeedbackRule())


def people(
    liked: tuple[float, float],
    speaks: tuple[float, float],
    seed: int = 1,
    failing: tuple[float, float] = (0.0, 0.0),
) -> Iterator[LiveOutcome]:
    """Outcomes of units: shares of content people, of those who say so, and of failed calls, each
    of the baseline and of the candidate."""
    rng = random.Random(seed)
    for number in range(20_000):
        arm = int(rng.random() < 0.5)
        content, spoke = rng.random() < liked[arm], rng.random() < speaks[arm]
        failed = rng.random() < failing[arm]
        yield LiveOutcome(
            trace_id=f"t{number}",
            unit=f"u{number}",
            at=float(number),
            arm="candidate" if arm else "baseline",
            score=0.0 if failed else float(content) if spoke else None,
            error=failed,
        )


def test_a_better_candidate_passes_though_four_of_five_units_say_nothing() -> None:
    test = replay_canary(PLAN, people((0.6, 0.8), (0.2, 0.2)))
    decided = test.decision()
    assert decided.verdict == "pass"
    assert [(each.metric, each.passed) for each in decided.guardrails] == [
        ("negative feedback or errors", True),
        ("share with feedback", True),
    ]
    assert decided.missing == test.ratio.units - test.scored > 0.75 * test.ratio.units
    assert f"{decided.missing} of {test.ratio.units} units gave no feedback" in decided.sentence
    assert "assumed that people fall silent alike in both arms" in decided.sentence
    assert "against the candidate" not in decided.sentence
    assert decided.missing_e_value is None


def test_until_the_coverage_is_proved_equal_nothing_passes() -> None:
    outcomes = list(people((0.3, 0.9), (0.2, 0.2)))
    test = CanaryTest.begin(PLAN)
    for outcome in outcomes[:1200]:
        assert test.add(outcome) is None
    assert test.passing.reached
    assert test.coverage is not None
    assert not test.coverage.equal


def test_arms_in_which_people_speak_unlike_are_held() -> None:
    test = replay_canary(PLAN, people((0.6, 0.8), (0.3, 0.15)))
    assert test.verdict == "hold"
    said = test.decision().sentence
    assert "of the baseline's units gave feedback and" in said
    assert "people do not fall silent alike in both arms" in said


def test_more_negative_feedback_among_all_units_is_harm_though_the_mean_of_it_rises() -> None:
    rng = random.Random(1)
    rated = (
        msgspec.structs.replace(
            each,
            score=(float(rng.random() < 0.7) if each.arm == "candidate" else 0.55),
        )
        for each in people((1.0, 1.0), (1.0, 1.0))
    )
    decided = replay_canary(PLAN, rated).decision()
    assert decided.baseline is not None
    assert decided.candidate is not None
    assert decided.candidate > decided.baseline
    assert decided.verdict == "harm"
    assert "negative feedback or errors is proved higher by more than 0.03" in decided.sentence


def test_a_failed_call_is_counted_with_negative_feedback_and_is_nobodys_feedback() -> None:
    failing = people((0.6, 0.8), (0.2, 0.2), failing=(0.0, 0.15))
    test = replay_canary(PLAN, failing)
    assert test.verdict == "harm"
    assert test.effect.treated.mean == pytest.approx(0.8, abs=0.1)
    fewer = replay_canary(PLAN, people((0.6, 0.8), (0.2, 0.2), failing=(0.03, 0.0)))
    assert fewer.verdict == "pass"


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_the_bets_on_the_coverage_are_fair_on_every_path_when_it_differs_by_the_margin(
    share: float,
) -> None:
    margin, base = 0.1, 0.3
    plan = CanaryPlan(share=share, feedback=FeedbackRule(coverage_margin=margin))
    means = dict.fromkeys(("not_lower", "not_higher", "lower", "higher"), 0.0)
    for path in itertools.product(itertools.product((True, False), repeat=2), repeat=4):
        test, chance = CanaryTest.begin(plan), 1.0
        assert test.coverage is not None
        for number, (treated, spoke) in enumerate(path):
            rate = base + margin if treated else base
            chance *= share if treated else 1.0 - share
            chance *= rate if spoke else 1.0 - rate
            test.add(
                LiveOutcome(
                    trace_id="",
                    unit=str(number),
                    at=0.0,
                    arm="candidate" if treated else "baseline",
                    score=1.0 if spoke else None,
                )
            )
        for name in means:
            means[name] += chance * getattr(test.coverage, name).value
    assert means["not_higher"] == pytest.approx(1.0, abs=1e-9)
    assert means["higher"] == pytest.approx(1.0, abs=1e-9)
    assert means["lower"] < 1.0 < means["not_lower"]


def outlook(**before: float | None) -> str:
    return CanaryTest.begin(CanaryPlan(feedback=FeedbackRule(**before))).decision().sentence


def test_at_its_start_it_says_how_many_units_it_takes() -> None:
    said = outlook(coverage=0.2, units_per_day=1000.0)
    assert "With feedback on 20 % of units, as before, a canary takes about 3,000 units" in said
    assert "or 3.0 days of all traffic, if the mean feedback rises by 0.1" in said
    assert "it ends after 5,000 units, which max_units raises" in outlook(coverage=0.05)
    for unknown in (None, 0.0):
        assert "How many units it takes is not known" in outlook(coverage=unknown)


def test_coverage_and_traffic_before_are_counted_by_unit() -> None:
    day = 86_400.0
    spoken = [
        LiveOutcome(trace_id=str(n), unit=unit, at=n * day / 4, score=score, error=failed)
        for n, (unit, score, failed) in enumerate(
            [
                ("a", 1.0, False),
                ("a", None, False),
                ("b", None, False),
                ("c", 0.0, True),
                ("d", None, False),
            ]
        )
    ]
    rule = FeedbackRule.after(spoken)
    assert (rule.coverage, rule.units_per_day) == (0.25, 4.0)
    assert FeedbackRule.after([]) == FeedbackRule()


def test_a_killed_canary_on_feedback_goes_on_with_the_same_bits() -> None:
    whole, killed = CanaryTest.begin(PLAN), CanaryTest.begin(PLAN)
    for outcome in itertools.islice(people((0.6, 0.8), (0.4, 0.4)), 60):
        whole.add(outcome)
        killed = load_stage(CanaryTest, json.loads(json.dumps(save_stage(killed))))
        killed.add(outcome)
    assert save_stage(killed) == save_stage(whole)
    assert killed.decision() == whole.decision()


@pytest.mark.parametrize("field", ["negative_margin", "coverage_margin", "coverage"])
def test_a_rule_that_cannot_be_is_refused_by_name(field: str) -> None:
    with pytest.raises(InputError, match=f"FeedbackRule: {field}"):
        FeedbackRule(**{field: -0.1})
