"""Problems found in live traces: what is one kind of failure, how it lives on, what it costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from ratchet.autopilot.problem_reports import reports
from ratchet.autopilot.problem_scan import LEASE, scan
from ratchet.autopilot.problem_states import settle
from ratchet.store import Store
from ratchet.store.recordings import CHANGED_SPANS
from ratchet.types import (
    Conflict,
    Feedback,
    Problem,
    ProblemReport,
    Release,
    Run,
    Score,
    Span,
    SpanRecord,
)
from ratchet.types.cycle import DAY_S
from ratchet.types.trace import TraceRecording

from .live_traces import record

NOW = time.time()


def look(store: Store, now: float = NOW, **options: Any) -> list[Problem]:
    asyncio.run(scan(store, now=now, **options))
    return [report.problem for report in reports(store, now=now)[0]]


def fail(store: Store, numbers: Sequence[int], error: str, at: float = NOW - 3_600) -> None:
    for number in numbers:
        record(store, number, f"order {number}", error=error.format(number), at=at + number)


def tool_calls(store: Store, number: int, arguments: Sequence[str], tool: str = "search") -> None:
    """The trace of an agent that calls a tool with each of these arguments."""
    trace_id = f"{number:032x}"
    start = int((NOW - 3_600 + number) * 1e9)
    root = Span(
        trace_id=trace_id,
        span_id="a" * 16,
        name="answer",
        start_ns=start,
        end_ns=start + 10**9,
        attributes={
            "gen_ai.operation.name": "invoke_agent",
            "ratchet.input": "q",
            "ratchet.output": "a",
        },
    )
    calls = [
        Span(
            trace_id=trace_id,
            span_id=f"{place:016x}",
            parent_id="a" * 16,
            name=f"execute_tool {tool}",
            start_ns=start + 1 + place,
            end_ns=start + 2 + place,
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "gen_ai.tool.call.arguments": text,
            },
        )
        for place, text in enumerate(arguments)
    ]
    store.spans.put([SpanRecord(span=span, agent="bot") for span in (root, *calls)])


def test_the_same_error_with_other_numbers_is_one_problem_and_single_errors_are_none(
    store: Store,
) -> None:
    fail(store, range(1, 6), "OrderNotFound: no order {} in the archive")
    fail(store, [10], "the socket was closed by its peer")
    fail(store, [11], "a date cannot be parsed")
    (problem,) = look(store)
    assert problem.kind == "error"
    assert "no order" in problem.title
    assert {o.trace_id for o in store.problems.occurrences(problem.id)} == {
        f"{number:032x}" for number in range(1, 6)
    }


def test_two_errors_of_one_place_are_two_problems(store: Store) -> None:
    fail(store, range(1, 5), "OrderNotFound: no order {} in the archive")
    fail(store, range(5, 9), "Timeout: the archive did not answer within {} seconds")
    assert len(look(store)) == 2


def test_a_problem_keeps_its_id_over_days_and_counts_them(store: Store) -> None:
    fail(store, range(1, 5), "no order {}", at=NOW - 2 * DAY_S)
    (first,) = look(store, NOW - 1.5 * DAY_S)
    fail(store, range(5, 8), "no order {}", at=NOW - 3_600)
    (second,) = look(store)
    assert second.id == first.id
    (report,), traces = reports(store, now=NOW)
    assert (report.traces, traces) == (7, 7)
    assert report.share == 1.0
    assert (report.days[-2], report.days[-1]) == (4, 3)
    assert second.last_seen > first.last_seen


def test_a_second_look_finds_nothing_new_and_counts_nothing_twice(store: Store) -> None:
    fail(store, range(1, 5), "no order {}")
    look(store)
    looked = asyncio.run(scan(store, now=NOW))
    assert (looked.traces, looked.occurrences) == (0, 0)
    fail(store, [5], "no order {}")
    look(store)
    assert reports(store, now=NOW)[0][0].traces == 5


def test_a_trace_that_reaches_over_pages_is_looked_at_once(store: Store) -> None:
    for number in range(1, 61):
        tool_calls(store, number, "abcdef")
    assert CHANGED_SPANS % len(" abcdef")
    assert 60 * len(" abcdef") > 2 * CHANGED_SPANS
    assert asyncio.run(scan(store, now=NOW)).traces == 60
    assert asyncio.run(scan(store, now=NOW)).traces == 0


def test_an_error_that_the_agent_recovered_from_weighs_less_than_a_failure(store: Store) -> None:
    for number in range(1, 4):
        tool_calls(store, number, ["x"])
        broken = Span(
            trace_id=f"{number:032x}",
            span_id="b" * 16,
            parent_id="a" * 16,
            name="execute_tool lookup",
            start_ns=int((NOW - 3_600 + number) * 1e9) + 9,
            end_ns=int((NOW - 3_600 + number) * 1e9) + 10,
            status="error",
            message="lookup is down",
            attributes={"gen_ai.tool.name": "lookup"},
        )
        store.spans.put([SpanRecord(span=broken, agent="bot")])
    fail(store, range(10, 13), "no order {}")
    look(store)
    losses = {r.problem.place: r.loss for r in reports(store, now=NOW)[0]}
    assert losses == {"lookup": 0.25, "answer": 1.0}


def test_a_tool_that_answers_with_an_error_is_a_problem_though_no_span_failed(
    store: Store,
) -> None:
    results = ("Error: no seat left", '{"error": "no seat left"}', "Error: no seat left", "1 seat")
    for number, result in enumerate(results, 1):
        tool_calls(store, number, ["x"], tool=f"other{number}")
        told = Span(
            trace_id=f"{number:032x}",
            span_id="b" * 16,
            parent_id="a" * 16,
            name="execute_tool seats",
            start_ns=int((NOW - 3_600 + number) * 1e9) + 9,
            end_ns=int((NOW - 3_600 + number) * 1e9) + 10,
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "seats",
                "gen_ai.tool.call.result": result,
            },
        )
        store.spans.put([SpanRecord(span=told, agent="bot")])
    (problem,) = look(store)
    assert (problem.kind, problem.place) == ("error", "seats")
    assert len(store.problems.occurrences(problem.id)) == 3


def test_low_scores_without_a_rationale_are_grouped_by_the_tools_that_were_called(
    store: Store,
) -> None:
    for number in range(1, 41):
        tool_calls(store, number, ["x"], tool="refund" if number <= 12 else "lookup")

    async def score(recording: TraceRecording) -> Sequence[Score]:
        number = int(recording.trace.trace_id, 16)
        return [Score(evaluator="reward", version="1", value=0.0 if number <= 12 else 1.0)]

    (problem,) = look(store, score=score)
    assert problem.title == "reward is low when it calls refund"


def test_equal_calls_of_a_tool_are_a_loop_and_different_ones_are_not(store: Store) -> None:
    for number in range(1, 4):
        tool_calls(store, number, ["same"] * 4)
    for number in range(4, 8):
        tool_calls(store, number, ["1", "2", "3", "4"], tool="read")
    (problem,) = look(store)
    assert (problem.kind, problem.place) == ("loop", "search")


def test_feedback_that_comes_later_makes_a_problem_of_traces_that_were_looked_at(
    store: Store,
) -> None:
    for number in range(1, 30):
        topic = "refund for a broken lamp" if number % 3 == 0 else f"opening hours in town{number}"
        record(store, number, f"I ask about {topic}", at=NOW - 3_600 + number)
    assert look(store) == []
    store.feedback.add(
        [
            Feedback(id=f"f{n}", kind="thumbs", value=0.0, trace_id=f"{n:032x}")
            for n in range(3, 30, 3)
        ],
        NOW,
    )
    (problem,) = look(store)
    assert problem.kind == "negative_feedback"
    assert "refund" in problem.title


def test_a_few_complaints_about_everything_are_no_problem(store: Store) -> None:
    topics = ("lamps", "desks", "chairs", "beds", "shelves", "sofas", "rugs", "tables")
    for number in range(1, 121):
        topic = topics[number % len(topics)]
        record(store, number, f"I ask about {topic}", at=NOW - 3_600 + number)
    store.feedback.add(
        [Feedback(id=f"f{n}", kind="thumbs", value=0.0, trace_id=f"{n:032x}") for n in range(1, 6)],
        NOW,
    )
    assert look(store) == []


def test_complaints_in_a_good_share_of_all_traffic_are_one_problem_whatever_they_are_about(
    store: Store,
) -> None:
    topics = ("lamps", "desks", "chairs", "beds", "shelves", "sofas", "rugs", "tables")
    for number in range(1, 41):
        topic = topics[number % len(topics)]
        record(store, number, f"I ask about {topic}", at=NOW - 3_600 + number)
    give = [
        Feedback(id=f"f{n}", kind="thumbs", value=0.0, trace_id=f"{n:032x}") for n in range(1, 10)
    ]
    store.feedback.add(give[:8], NOW)
    (problem,) = look(store)
    assert problem.title == "Users dislike answers"
    store.feedback.add(give[8:], NOW)
    assert [again.id for again in look(store)] == [problem.id]
    assert len(store.problems.occurrences(problem.id)) == 9


def test_a_correction_that_is_the_answer_is_no_failure(store: Store) -> None:
    for number in range(1, 5):
        record(store, number, "q", "It costs 25 euros.", at=NOW - 3_600 + number)
    right = [
        Feedback(id=f"f{n}", kind="correction", content=text, trace_id=f"{n:032x}")
        for n in range(1, 5)
        for text in ("It costs 25 euros.",)
    ]
    store.feedback.add(right, NOW)
    assert look(store) == []


def test_corrections_of_one_field_are_one_problem(store: Store) -> None:
    for number in range(1, 5):
        answer = {"team": "returns", "urgency": "low"}
        record(store, number, f"ticket {number}", answer, at=NOW - 3_600 + number)
        store.feedback.add(
            [
                Feedback(
                    id=f"f{number}",
                    kind="correction",
                    content={"team": "returns", "urgency": "high"},
                    trace_id=f"{number:032x}",
                )
            ],
            NOW,
        )
    (problem,) = look(store)
    assert (problem.place, problem.title) == ("urgency", "Users correct urgency")


@pytest.mark.parametrize("spans_a_page", [CHANGED_SPANS, 1])
def test_a_question_asked_again_in_the_next_turn_is_a_retry(
    store: Store, monkeypatch: pytest.MonkeyPatch, spans_a_page: int
) -> None:
    monkeypatch.setattr("ratchet.store.recordings.CHANGED_SPANS", spans_a_page)
    for talk in range(1, 5):
        for turn in range(2):
            record(
                store,
                10 * talk + turn,
                f"when does my parcel arrive, please tell me {turn}",
                at=NOW - 3_600 + 10 * talk + turn,
                **{"gen_ai.conversation.id": f"talk-{talk}"},
            )
    for talk in range(5, 9):
        for turn, text in enumerate(("when are you open", "and do you have blue chairs")):
            record(
                store,
                10 * talk + turn,
                text,
                at=NOW - 3_600 + 10 * talk + turn,
                **{"gen_ai.conversation.id": f"talk-{talk}"},
            )
    (problem,) = look(store)
    assert problem.kind == "retry"
    assert len(store.problems.occurrences(problem.id)) == 4


def test_low_scores_are_grouped_by_what_their_rationale_says(store: Store) -> None:
    for number in range(1, 9):
        record(store, number, f"ticket {number}", at=NOW - 3_600 + number)

    async def score(recording: TraceRecording) -> Sequence[Score]:
        number = int(recording.trace.trace_id, 16)
        place = "team" if number % 2 else "urgency"
        note = f"{place}: expected 'a{number}', got 'b'"
        return [
            Score(evaluator="json_match", version="1", value=0.25, rationale=note),
            Score(evaluator="length", version="1", value=1.0),
        ]

    found = look(store, score=score)
    assert sorted(problem.title.split(":")[1].strip() for problem in found) == ["team", "urgency"]
    assert {problem.evaluator for problem in found} == {"json_match"}


def test_scores_are_still_looked_at_after_a_reader_that_cannot_score(store: Store) -> None:
    for number in range(1, 5):
        record(store, number, "q", at=NOW - 3_600 + number)
    assert look(store) == []

    async def score(recording: TraceRecording) -> Sequence[Score]:
        return [Score(evaluator="judge", version="1", value=0.0, rationale="it is rude")]

    (problem,) = look(store, score=score)
    assert problem.kind == "low_score"


def test_only_one_process_looks_at_a_time(store: Store) -> None:
    fail(store, range(1, 5), "no order {}")
    lease = store.leases.acquire(LEASE, "another", now=time.time(), ttl_s=60)
    assert lease is not None
    assert asyncio.run(scan(store, now=NOW)).elsewhere
    store.leases.release(lease)
    assert len(look(store)) == 1


def test_what_a_killed_look_had_found_is_grouped_by_the_next_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    fail(store, range(1, 5), "no order {}")
    with monkeypatch.context() as patched:
        patched.setattr("ratchet.autopilot.problem_scan._group", killed)
        with pytest.raises(KeyboardInterrupt):
            look(store)
    assert len(look(store)) == 1


def test_a_problem_that_occurs_again_after_its_fix_has_returned(store: Store) -> None:
    fail(store, range(1, 5), "no order {}", at=NOW - 2 * DAY_S)
    (problem,) = look(store, NOW - 2 * DAY_S + 60)
    fixed = NOW - DAY_S
    store.problems.change(problem.id, "fixed", reason="", now=fixed, by="ann", fixed_at=fixed)
    fail(store, range(5, 7), "no order {}")
    assert look(store)[0].state == "fixed"  # two may be chance
    fail(store, [7], "no order {}")
    (again,) = look(store)
    assert (again.id, again.state) == (problem.id, "returned")
    assert [t.target for t in store.problems.transitions(problem.id)] == ["fixed", "returned"]


def test_a_state_that_cannot_follow_is_refused_and_says_what_can(store: Store) -> None:
    fail(store, range(1, 4), "no order {}")
    (problem,) = look(store)
    store.problems.change(problem.id, "ignored", reason="known", now=NOW, by="ann")
    with pytest.raises(Conflict, match="can become open"):
        store.problems.change(problem.id, "fixed", reason="", now=NOW)


@pytest.mark.parametrize(
    ("stage", "release", "state"),
    [
        ("prove", None, "learning"),
        ("no_gain", None, "open"),
        ("shipped", "branched", "proposed"),
        ("shipped", "merged", "fixed"),
        ("shipped", "active", "fixed"),
        ("shipped", "closed", "open"),
        ("shipped", "rolled_back", "open"),
    ],
)
def test_the_state_follows_from_the_run_and_its_release(
    store: Store, stage: Any, release: Any, state: str
) -> None:
    fail(store, range(1, 4), "no order {}")
    (problem,) = look(store)
    run = Run(
        id="run",
        agent="a:b",
        seed=0,
        stage=stage,
        created_at=NOW,
        updated_at=NOW,
        experiment_id="e",
    )
    store.runs.put(run)
    if release is not None:
        store.releases.put(
            Release(
                id="release",
                experiment_id="e",
                candidate_id="best",
                baseline_id="b",
                state=release,
                repo="/r",
                branch="ratchet/x",
                base="",
                commit="",
                pull_request="",
                evidence="",
                created_at=NOW,
            )
        )
    store.problems.change(problem.id, "learning", reason="", now=NOW, run_ids=("run",))
    settle(store, NOW)
    settled = store.problems.get(problem.id)
    assert settled is not None
    assert settled.state == state
    assert bool(settled.fixed_at) is (state == "fixed")
    assert settle(store, NOW) == []


PRODUCTS = ("lamp", "chair", "table", "stool", "shelf", "mirror", "carpet", "vase")


def test_short_errors_that_differ_in_one_word_are_one_problem_tomorrow_too(store: Store) -> None:
    for number, product in enumerate(PRODUCTS * 2, 1):
        record(store, number, "q", error=f"no product {product}", at=NOW - 7_200 + number)
    for number in range(31, 35):
        record(store, number, "q", error="the archive is locked", at=NOW - 7_200 + number)
    counts = {report.problem.title: report.traces for report in report_after_look(store)}
    assert sorted(counts.values()) == [4, 16], counts
    for number, product in enumerate(("sofa", "sofa", "sofa", "desk"), 41):
        record(store, number, "q", error=f"no product {product}", at=NOW - 3_600 + number)
    assert sorted(report.traces for report in report_after_look(store)) == [4, 20]


def test_two_or_three_words_at_one_place_may_be_different_errors(store: Store) -> None:
    for number, word in enumerate(("declined", "expired", "stolen") * 4, 1):
        record(store, number, "q", error=f"the card was {word}", at=NOW - 7_200 + number)
    assert [report.traces for report in report_after_look(store)] == [4, 4, 4]


def report_after_look(store: Store) -> list[ProblemReport]:
    look(store)
    return reports(store, now=NOW)[0]
