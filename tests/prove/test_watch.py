"""The watch after a release: alarms, their reasons, and what the control share tells."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.prove.replaying import replay_watch

from ratchet.prove import (
    WatchedMetric,
    WatchPlan,
    WatchTest,
    expected_mean,
    load_stage,
    save_stage,
)
from ratchet.types import InputError, LiveOutcome

SCORE = WatchedMetric(expected=0.9)
ERRORS = WatchedMetric(metric="errors", expected=0.02)
LATENCY = WatchedMetric(metric="latency", expected=1.1, ceiling=5.0)


def traffic(
    *,
    good: float = 0.92,
    after: float = 0.92,
    control_after: float | None = None,
    control: float = 0.0,
    slow_after: float = 1.0,
    change: int = 300,
) -> Iterator[LiveOutcome]:
    rng = random.Random(7)
    for number in range(20_000):
        held_back = rng.random() < control
        changed = number >= change
        rate = after if changed else good
        if held_back and changed and control_after is not None:
            rate = control_after
        yield LiveOutcome(
            trace_id=f"t{number}",
            unit="",
            at=number,
            arm="baseline" if held_back else None,
            score=float(rng.random() < rate),
            error=rng.random() < 0.01,
            latency_s=rng.uniform(0.5, 1.5) * (slow_after if changed else 1.0),
        )


def test_without_a_change_the_watch_ends_without_an_alarm() -> None:
    test = replay_watch(WatchPlan(metrics=(SCORE, ERRORS, LATENCY), outcomes=3000), traffic())
    assert (test.verdict, test.release.outcomes) == ("pass", 3000)
    assert "ended without an alarm" in test.decision().sentence


def test_a_fall_of_the_score_raises_an_alarm() -> None:
    test = replay_watch(WatchPlan(metrics=(SCORE,)), traffic(after=0.75))
    assert test.verdict == "alarm"
    assert 300 < test.release.outcomes < 600
    decided = test.decision()
    assert decided.metric == "score"
    assert decided.e_value >= decided.needed == 10_000 / 0.05
    assert "The release got worse: mean score" in decided.sentence


def test_the_alarm_names_the_metric_that_got_worse() -> None:
    plan = WatchPlan(metrics=(SCORE, ERRORS, LATENCY))
    test = replay_watch(plan, traffic(slow_after=2.0))
    assert test.verdict == "alarm"
    assert test.decision().metric == "latency"
    assert "at most 1.1 s was expected" in test.decision().sentence


def test_when_only_the_release_got_worse_the_control_share_shows_it() -> None:
    plan = WatchPlan(metrics=(SCORE,))
    test = replay_watch(plan, traffic(after=0.75, control=0.5, control_after=0.92))
    assert test.verdict == "alarm"
    assert "shows no such change" in test.decision().sentence
    assert test.decision().baseline_count > 0


def test_when_the_control_share_got_worse_too_it_is_drift() -> None:
    test = replay_watch(WatchPlan(metrics=(SCORE,)), traffic(after=0.75, control=0.5))
    assert test.verdict == "drift"
    assert "rolling back would not help" in test.decision().sentence


def test_the_control_share_alone_raises_no_alarm() -> None:
    plan = WatchPlan(metrics=(SCORE,), outcomes=2000)
    test = replay_watch(plan, traffic(control=0.5, control_after=0.2))
    assert test.verdict == "pass"
    assert test.control.peak > plan.control_needed


def unscored(every: int, outcomes: int, *, good: float = 0.98) -> Iterator[LiveOutcome]:
    rng = random.Random(3)
    for number in range(outcomes):
        score = None if number % every == 0 else float(rng.random() < good)
        yield LiveOutcome(trace_id=f"t{number}", unit="", at=number, score=score)


def test_scores_that_are_missing_raise_no_alarm_and_prove_no_pass() -> None:
    plan = WatchPlan(metrics=(SCORE,), outcomes=2_000)
    few = replay_watch(plan, unscored(100, 2_000))
    assert few.verdict == "pass"
    assert few.decision().sentence.endswith("20 of 2000 outcomes had no score.")
    many = replay_watch(plan, unscored(3, 2_000))
    assert (many.verdict, many.release.peak < plan.needed) == ("inconclusive", True)
    decided = many.decision()
    assert (decided.missing, decided.candidate_count) == (667, 1_333)
    assert decided.candidate == pytest.approx(0.98, abs=0.02), "the mean of those with a score"
    assert "667 of them had no score, and had all of these been 0" in decided.sentence


def test_an_unknown_value_changes_nothing_and_is_counted() -> None:
    test = WatchTest.begin(WatchPlan(metrics=(SCORE,), missing="skip"))
    test.add(LiveOutcome(trace_id="t", unit="", at=0.0))
    assert (test.release.missing, test.release.value) == (1, 0.0)
    assert test.decision().sentence == "The release has no outcomes yet."


def test_a_watch_that_is_ended_early_has_shown_nothing() -> None:
    test = WatchTest.begin(WatchPlan(metrics=(SCORE,)))
    test.add(LiveOutcome(trace_id="t", unit="", at=0.0, score=1.0))
    assert test.finish() == "inconclusive"
    assert "ended early" in test.decision().sentence


def test_a_killed_watch_goes_on_with_the_same_bits() -> None:
    plan = WatchPlan(metrics=(SCORE, LATENCY))
    whole, killed = WatchTest.begin(plan), WatchTest.begin(plan)
    for outcome in traffic(after=0.6, control=0.2, change=20):
        verdict = whole.add(outcome)
        assert killed.add(outcome) == verdict
        killed = load_stage(WatchTest, json.loads(json.dumps(save_stage(killed))))
        assert killed.e_values == whole.e_values
        if verdict is not None:
            break
    assert killed.decision() == whole.decision()


def test_an_outcome_after_the_alarm_is_refused() -> None:
    test = replay_watch(WatchPlan(metrics=(SCORE,)), traffic(after=0.1))
    with pytest.raises(InputError, match="'late' came after the verdict 'alarm'"):
        test.add(LiveOutcome(trace_id="late", unit="", at=0.0, score=1.0))


def test_the_expected_mean_is_estimated_with_caution() -> None:
    earlier = [
        LiveOutcome(trace_id="", unit="", at=0.0, score=float(n % 10 > 0), latency_s=1.0)
        for n in range(200)
    ]
    assert 0.84 < expected_mean("score", earlier) < 0.9
    assert 1.0 < expected_mean("latency", earlier, ceiling=5.0) < 1.4
    assert 0.0 < expected_mean("errors", earlier) < 0.03


def test_an_expectation_without_outcomes_is_refused() -> None:
    with pytest.raises(InputError, match="No earlier outcome has a value of 'cost'"):
        expected_mean("cost", [LiveOutcome(trace_id="", unit="", at=0.0)])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"expected": 0.0}, "so no value"),
        ({"expected": 0.1, "tolerance": 0.2}, "so no value"),
        ({"metric": "latency", "expected": 6.0, "ceiling": 5.0}, "so no value"),
        ({"metric": "tone", "expected": 0.5}, "no metric 'tone'"),
        ({"expected": float("inf")}, "expected"),
    ],
)
def test_a_metric_that_cannot_be_watched_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        WatchedMetric(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"metrics": ()}, "no metric to watch"),
        ({"metrics": (SCORE, SCORE)}, "given twice"),
        ({"metrics": (SCORE,), "outcomes": 0}, "outcomes"),
        ({"metrics": (SCORE,), "alpha": 1.0}, "alpha"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        WatchPlan(**given)
