"""Outcomes of live traces: scored, counted once for each unit, read in order and to the end."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.autopilot.live_traces import START_S, begin, record

from ratchet.autopilot.live_outcomes import PAGE, LiveOutcomes, OutcomePage
from ratchet.evaluate import evaluator
from ratchet.store import Store
from ratchet.types import Feedback, Span, SpanRecord
from ratchet.types.trace import GROUP

NOW = START_S + 100_000.0


@evaluator
def polite(output: str) -> float:
    return float("please" in output)


@evaluator
def right(output: str, expected: str) -> float:
    return float(output == expected)


@evaluator
def steps(spans: list[Span]) -> float:
    return float(len(spans) == 2)


def reader(store: Store, by: Any = polite, wait_s: float = 60.0) -> LiveOutcomes:
    return LiveOutcomes(store, "bot", by, wait_s=wait_s)


def read(
    outcomes: LiveOutcomes, cursor: str | None = None, now: float = NOW, **options: Any
) -> OutcomePage:
    return asyncio.run(outcomes.read(cursor, since=0.0, now=now, **options))


def enrolled(unit: str, arm: str = "candidate", experiment_id: str = "e") -> dict[str, Any]:
    return {
        "ratchet.unit": unit,
        "ratchet.arm": arm,
        "ratchet.experiment_id": experiment_id,
        "ratchet.candidate_id": "c" if arm == "candidate" else "",
    }


def test_a_trace_is_scored_with_what_it_ran_and_cost(store: Store) -> None:
    id = record(store, 1, answer="please", **enrolled("ann"), **{GROUP: "english"})
    page = read(reader(store))
    (one,) = page.outcomes
    assert (one.trace_id, one.unit, one.candidate_id, one.experiment_id) == (id, "ann", "c", "e")
    assert (one.arm, one.score, one.group) == ("candidate", 1.0, "english")
    assert (one.error, one.latency_s, one.cost_usd) == (False, 0.5, 0.0)
    assert one.at == pytest.approx(START_S + 1.5)


def test_a_call_within_a_web_request_counts_by_what_the_call_says(store: Store) -> None:
    record(store, 1, answer="please", around=True, **enrolled("ann"), **{GROUP: "english"})
    record(store, 2, error="boom", around=True, **enrolled("bob", "baseline"))
    good, failed = read(reader(store), experiment_id="e").outcomes
    assert (good.unit, good.arm, good.score, good.group) == ("ann", "candidate", 1.0, "english")
    assert (failed.unit, failed.arm, failed.error, failed.score) == ("bob", "baseline", True, 0.0)


def test_outcomes_come_oldest_first_and_each_once(store: Store) -> None:
    ids = [record(store, n) for n in range(1, PAGE + 50)]
    record(store, 9_999, agent="other")
    outcomes = reader(store)
    first = read(outcomes)
    second = read(outcomes, first.cursor)
    third = read(outcomes, second.cursor)
    assert [one.trace_id for one in (*first.outcomes, *second.outcomes)] == ids
    assert (first.examined, third.examined, third.cursor) == (PAGE, 0, second.cursor)
    record(store, 10_000)
    assert len(read(outcomes, third.cursor).outcomes) == 1


def test_a_trace_is_read_when_there_was_time_for_its_end(store: Store) -> None:
    record(store, 1)
    outcomes = reader(store, wait_s=3_600.0)
    early = read(outcomes, now=START_S + 3_600.0)
    assert early.outcomes == ()
    assert len(read(outcomes, early.cursor, now=START_S + 3_602.0).outcomes) == 1


def test_what_cannot_be_scored_says_why(store: Store) -> None:
    record(store, 1)
    (one,) = read(reader(store, right)).outcomes
    assert (one.score, one.reason) == (None, "The task has no expected answer.")
    (one,) = read(reader(store, None)).outcomes
    assert (one.score, one.reason) == (None, "no feedback was given")


def test_feedback_scores_where_there_is_no_evaluator(store: Store) -> None:
    ids = [record(store, n) for n in range(1, 4)]
    given = [
        Feedback(id="1", kind="thumbs", value=1.0, trace_id=ids[0]),
        Feedback(id="2", kind="rating", value=0.5, trace_id=ids[0]),
        Feedback(id="3", kind="retry", trace_id=ids[1]),
        Feedback(id="4", kind="comment", comment="Hm.", trace_id=ids[2]),
    ]
    store.feedback.add(given, 1.0)
    assert [one.score for one in read(reader(store, None)).outcomes] == [0.75, 0.0, None]


def test_an_evaluator_sees_the_spans_of_the_trace(store: Store) -> None:
    id = record(store, 1)
    root = store.traces.get(id)
    assert root is not None
    child = msgspec.structs.replace(
        root.spans[0], span_id="f" * 16, parent_id=root.spans[0].span_id, name="tool"
    )
    store.spans.put([SpanRecord(span=child, agent="bot")])
    (one,) = read(reader(store, steps)).outcomes
    assert one.score == 1.0


def test_a_trace_without_its_root_is_left_out_and_counted(store: Store) -> None:
    span = Span(
        trace_id="a" * 32,
        span_id="b" * 16,
        parent_id="c" * 16,
        name="tool",
        start_ns=START_S * 10**9,
        end_ns=START_S * 10**9 + 1,
    )
    store.spans.put([SpanRecord(span=span, agent="bot")])
    page = read(reader(store))
    why = "it has not ended, and has no start that says what it ran"
    assert (page.outcomes, page.left_out) == ((), {why: 1})
    record(store, 1)
    waits = read(reader(store), now=START_S + 600.0)
    assert (waits.outcomes, waits.examined) == ((), 0), "its root may still come"
    assert len(read(reader(store), now=START_S + 662.0).outcomes) == 1


def test_a_call_that_never_ends_is_a_failure_of_its_arm_at_the_time_out(store: Store) -> None:
    id = begin(store, 1, **enrolled("ann"))
    record(store, 2, answer="please", **enrolled("ben", "baseline"))
    outcomes = reader(store)
    early = read(outcomes, now=START_S + 660.0, experiment_id="e")
    assert (early.outcomes, early.examined) == ((), 0), "what began later waits for it"
    hung, ended = read(outcomes, early.cursor, now=START_S + 663.0, experiment_id="e").outcomes
    assert (hung.trace_id, hung.unit, hung.arm, hung.candidate_id) == (id, "ann", "candidate", "c")
    assert (hung.score, hung.error, hung.latency_s) == (0.0, True, 600.0)
    assert (hung.at, hung.reason) == (START_S + 601.0, "it did not finish within 600 s")
    assert (ended.arm, ended.score) == ("baseline", 1.0)


@pytest.mark.parametrize("started", [True, False], ids=["with a start", "of an older version"])
def test_an_end_after_the_time_out_changes_nothing(store: Store, started: bool) -> None:
    if started:
        begin(store, 1, **enrolled("ann"))
    else:
        record(store, 1, answer="please", took_s=700.0, **enrolled("ann"))
    (first,) = read(reader(store), now=START_S + 662.0, experiment_id="e").outcomes
    record(store, 1, answer="please", took_s=700.0, **enrolled("ann"))
    (again,) = read(reader(store), experiment_id="e").outcomes
    assert (first.score, first.error, first.latency_s) == (0.0, True, 600.0)
    assert again == first, "also for a stage that was killed and reads the page again"


def test_a_call_in_a_request_keeps_its_place_when_the_request_ends(store: Store) -> None:
    record(store, 1, answer="please", **enrolled("ann"))
    begin(store, 2, **enrolled("ben"))
    outcomes = reader(store)
    first = read(outcomes, now=START_S + 100.0, experiment_id="e")
    assert [one.unit for one in first.outcomes] == ["ann"]
    record(store, 2, answer="please", around=True, took_s=90.0, **enrolled("ben"))
    root = Span(
        trace_id=f"{2:032x}",
        span_id="f" * 16,
        name="middleware",
        start_ns=(START_S - 5) * 10**9,
        end_ns=(START_S + 95) * 10**9,
    )
    store.spans.put([SpanRecord(span=root, agent="bot")])
    second = read(outcomes, first.cursor, now=START_S + 200.0, experiment_id="e")
    assert [(one.unit, one.score) for one in second.outcomes] == [("ben", 1.0)]


def test_a_call_within_another_service_s_trace_ends_with_its_own_span(store: Store) -> None:
    begin(store, 1, **enrolled("ann"))
    span = Span(
        trace_id=f"{1:032x}",
        span_id=f"{1:016x}",
        parent_id="d" * 16,
        name="answer",
        start_ns=(START_S + 1) * 10**9,
        end_ns=(START_S + 2) * 10**9,
        attributes={
            "gen_ai.operation.name": "invoke_agent",
            "ratchet.output": '"please"',
            **enrolled("ann"),
        },
    )
    store.spans.put([SpanRecord(span=span, agent="bot")])
    (one,) = read(reader(store), now=START_S + 100.0, experiment_id="e").outcomes
    assert (one.unit, one.score, one.error) == ("ann", 1.0, False)


def test_a_request_that_ends_without_the_call_in_it_leaves_the_call_a_failure(
    store: Store,
) -> None:
    begin(store, 1, **enrolled("ann"))
    root = Span(
        trace_id=f"{1:032x}",
        span_id="f" * 16,
        name="request",
        start_ns=START_S * 10**9,
        end_ns=(START_S + 30) * 10**9,
    )
    store.spans.put([SpanRecord(span=root, agent="bot")])
    (one,) = read(reader(store), now=START_S + 662.0, experiment_id="e").outcomes
    assert (one.unit, one.arm, one.error, one.latency_s) == ("ann", "candidate", True, 600.0)


def test_of_a_canary_the_first_trace_of_each_unit_counts_also_when_read_again(
    store: Store,
) -> None:
    record(store, 1, answer="please", **enrolled("ann"))
    record(store, 2, answer="no", **enrolled("ann"))
    record(store, 3, answer="no", **enrolled("ben", "baseline"))
    record(store, 4, **enrolled("cem", experiment_id="another"))
    record(store, 5)
    for _ in range(2):
        page = read(reader(store), experiment_id="e")
        assert [(one.unit, one.score) for one in page.outcomes] == [("ann", 1.0), ("ben", 0.0)]
        assert page.left_out == {
            "it is not in the canary": 2,
            "its unit was counted before": 1,
        }


def test_a_judge_is_paid_once_for_a_trace(store: Store) -> None:
    asked: list[str] = []

    @evaluator
    def judge(output: str) -> float:
        asked.append(output)
        return 0.5

    judge.is_judge = True
    record(store, 1)
    for _ in range(3):
        assert read(reader(store, judge)).outcomes[0].score == 0.5
    assert len(asked) == 1
