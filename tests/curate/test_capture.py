"""Tasks are captured from traces: what is selected, what is taken, what is left out."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from ratchet.curate import Capture, CaptureFilter, capture
from ratchet.store import Store, traces
from ratchet.types import (
    Dataset,
    Feedback,
    Label,
    Origin,
    Rollout,
    Score,
    Span,
    SpanRecord,
    Split,
    Task,
)
from ratchet.types.trace import TraceFilter

SECOND = 1_000_000_000
FRACTIONS: dict[Split, float] = {"train": 0.4, "val": 0.2, "test": 0.4}
EMPTY = Dataset("d", (), {})
QUESTIONS = (
    "Where is my parcel from Lisbon",
    "How long does a refund take",
    "Can I change the name on an invoice",
    "Which batteries fit the blue lamp",
    "Do you ship furniture to islands",
    "My password link has expired already",
)
_numbers = itertools.count(1)


def agent_call(
    trace: str, given: Any, output: Any = "an answer", *, at: float = 0.0, **more: Any
) -> Span:
    """The root span of a decorated agent."""
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "ratchet.input": json.dumps({"question": given}),
        "ratchet.output": json.dumps(output),
        **more.pop("attributes", {}),
    }
    return span(trace, at=at, attributes=attributes, **more)


def model_call(
    trace: str, messages: list[tuple[str, str]], answer: str = "an answer", **more: Any
) -> Span:
    """A call that the gateway recorded, of an agent that was never wired."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.input.messages": json.dumps(
            [{"role": r, "parts": [{"type": "text", "content": c}]} for r, c in messages]
        ),
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": answer}]}]
        ),
    }
    return span(trace, attributes=attributes, **more)


def span(trace: str, *, at: float = 0.0, **more: Any) -> Span:
    number = next(_numbers)
    begun = int(at * SECOND)
    fields = {
        "trace_id": trace,
        "span_id": f"{number:016x}",
        "name": "answer",
        "start_ns": begun,
        "end_ns": begun + SECOND,
        **more,
    }
    return Span(**fields)


def put(store: Store, *spans: Span, agent: str = "bot") -> None:
    store.spans.put([SpanRecord(span=each, agent=agent) for each in spans])


def captured(
    store: Store, dataset: Dataset = EMPTY, *, limit: int = 100, **criteria: Any
) -> Capture:
    wanted = CaptureFilter(**criteria)
    return capture(store, dataset, wanted, limit=limit, fractions=FRACTIONS, now=9.0)


def inputs(found: Capture) -> set[Any]:
    return {json.dumps(one.task.input) for one in found.tasks}


def test_the_input_is_the_agents_argument(store: Store) -> None:
    put(store, agent_call("t1", QUESTIONS[0]))
    (one,) = captured(store).tasks
    assert one.task.input == QUESTIONS[0]
    assert one.task.expected is None
    assert one.task.origin == Origin("captured", "trace", ("t1",), 9.0)


def test_several_arguments_are_one_object(store: Store) -> None:
    given = {"ratchet.input": json.dumps({"question": "q", "city": "Oslo"})}
    put(store, span("t1", attributes=given))
    (one,) = captured(store).tasks
    assert one.task.input == {"question": "q", "city": "Oslo"}


def test_a_step_around_several_calls_of_agents_has_no_single_input(store: Store) -> None:
    around = span("t1", at=0, end_ns=5 * SECOND)
    calls = [
        agent_call("t1", text, at=at, parent_id=around.span_id) for at, text in enumerate("ab")
    ]
    put(store, around, *calls)
    assert captured(store).left_out == {"no input was recorded": 1}


def test_a_call_through_the_gateway_gives_what_the_user_said(store: Store) -> None:
    put(store, model_call("t1", [("system", "Be kind."), ("user", QUESTIONS[1])]))
    (one,) = captured(store).tasks
    assert one.task.input == QUESTIONS[1]


def test_a_later_turn_gives_the_messages_so_far(store: Store) -> None:
    turns = [("user", "Hi there"), ("assistant", "Hello"), ("user", QUESTIONS[1])]
    put(store, model_call("t1", [("system", "Be kind."), *turns]))
    (one,) = captured(store).tasks
    assert [(each["role"], each["parts"][0]["content"]) for each in one.task.input] == turns


def test_a_correction_is_the_expected_answer(store: Store) -> None:
    put(store, agent_call("t1", QUESTIONS[0], "wrong"))
    given = Feedback(id="f1", kind="correction", trace_id="t1", content="right")
    store.feedback.add([given], 1.0)
    (one,) = captured(store).tasks
    assert one.task.expected == "right"
    assert one.task.origin.by == "correction"
    assert one.task.origin.sources == ("t1", "f1")


def test_a_correction_of_a_whole_conversation_answers_no_single_turn(store: Store) -> None:
    talk = {"session.id": "talk"}
    put(store, agent_call("t1", QUESTIONS[0], attributes=talk))
    put(store, agent_call("t2", QUESTIONS[1], attributes=talk))
    given = Feedback(id="f1", kind="correction", conversation_id="talk", content="right")
    store.feedback.add([given], 1.0)
    assert [one.task.expected for one in captured(store).tasks] == [None, None]


def test_a_later_attempt_that_passed_answers_a_failed_one(store: Store) -> None:
    put(store, agent_call("failed", QUESTIONS[0], "wrong", at=1, status="error"))
    put(store, agent_call("passed", f"{QUESTIONS[0].upper()}?", "right", at=2))
    store.feedback.add([Feedback(id="f", kind="thumbs", value=1.0, trace_id="passed")], 1.0)
    (one,) = captured(store, traces=TraceFilter(errors=True)).tasks
    assert (one.trace.trace_id, one.task.expected) == ("failed", "right")
    assert one.task.origin.by == "passing retry"
    assert one.task.origin.sources == ("failed", "passed")


def test_a_later_attempt_that_nobody_called_right_answers_nothing(store: Store) -> None:
    put(store, agent_call("failed", QUESTIONS[0], "wrong", at=1, status="error"))
    put(store, agent_call("again", QUESTIONS[0], "perhaps", at=2))
    (one,) = captured(store, traces=TraceFilter(errors=True)).tasks
    assert one.task.expected is None


def test_an_answer_that_a_person_labelled_right_is_expected(store: Store) -> None:
    put(store, agent_call("t1", QUESTIONS[0], "right"), agent_call("t2", QUESTIONS[1], "bad"))
    store.labels.add([Label(id="a", value=1.0, trace_id="t1")], 1.0)
    store.labels.add([Label(id="b", value=0.0, trace_id="t2")], 1.0)
    found = {one.task.input: one.task.expected for one in captured(store).tasks}
    assert found == {QUESTIONS[0]: "right", QUESTIONS[1]: None}


def test_traces_are_selected_by_feedback(store: Store) -> None:
    put(store, *(agent_call(f"t{n}", QUESTIONS[n], at=n) for n in range(3)))
    items = [
        Feedback(id="up", kind="thumbs", value=1.0, trace_id="t0"),
        Feedback(id="down", kind="thumbs", value=0.0, trace_id="t1"),
    ]
    store.feedback.add(items, 1.0)
    for kind, wanted in (("good", {0}), ("bad", {1}), ("any", {0, 1})):
        found = captured(store, feedback=kind, traces=TraceFilter(feedback=True))
        assert {one.task.input for one in found.tasks} == {QUESTIONS[n] for n in wanted}


def test_rollouts_are_selected_by_their_score(store: Store) -> None:
    rollouts = [
        Rollout(
            id=f"r{n}",
            queue="q",
            candidate_id="",
            task_id=f"x{n}",
            input=QUESTIONS[n],
            expected=f"answer {n}",
            status="succeeded",
            fence=1,
        )
        for n in range(3)
    ]
    store.rollouts.create(rollouts, 1.0)
    for n in range(3):
        store.spans.add(f"r{n}", 1, [agent_call(f"t{n}", "not this", at=n)])
    scores = [(f"r{n}", Score(evaluator="e", version="1", value=n / 2)) for n in range(2)]
    store.scores.add(scores, 1.0)
    (one,) = captured(store, evaluator="e", score_below=0.4).tasks
    assert (one.task.input, one.task.expected) == (QUESTIONS[0], "answer 0")
    assert len(captured(store, evaluator="e").tasks) == 2
    assert not captured(store).tasks, "rollouts are not live traffic"


def test_tasks_of_an_experiment_do_not_come_back_as_tasks_to_learn_from(store: Store) -> None:
    rollout = Rollout(
        id="r",
        queue="q",
        candidate_id="",
        task_id="x",
        input=QUESTIONS[0],
        status="succeeded",
        fence=1,
        purpose="prove/run",
    )
    store.rollouts.create([rollout], 1.0)
    store.spans.add("r", 1, [agent_call("t", "not this", at=1)])
    store.scores.add([("r", Score(evaluator="e", version="1", value=0.0))], 1.0)
    found = captured(store, evaluator="e")
    assert not found.tasks
    assert found.left_out == {"it ran in an experiment, whose tasks learning must not see": 1}


def test_what_the_dataset_has_is_left_out(store: Store) -> None:
    put(store, agent_call("t1", f"  {QUESTIONS[0]}?! "), agent_call("t2", QUESTIONS[1]))
    put(store, agent_call("t3", f"Hi, {QUESTIONS[1]}? Thanks a lot!"))
    known = Dataset("d", (Task("own", QUESTIONS[0], "x"),), {"own": "test"})
    found = captured(store, known)
    assert len(found.tasks) == 1
    assert found.left_out == {
        "its input is a task already": 1,
        "it says nearly the same as another task": 1,
    }
    assert found.dataset.splits["own"] == "test"
    assert found.dataset.tasks[0] == known.tasks[0]
    assert found.dataset.parent == known.version
    assert found.dataset.reason == "1 task captured from traces"


def test_of_new_copies_the_one_with_an_answer_is_kept(store: Store) -> None:
    put(store, agent_call("t1", f"Hi, {QUESTIONS[1]}? Thanks a lot!", at=1))
    put(store, agent_call("t2", QUESTIONS[1], at=2))
    store.feedback.add([Feedback(id="f", kind="correction", trace_id="t1", content="right")], 1.0)
    (one,) = captured(store).tasks
    assert (one.trace.trace_id, one.task.expected) == ("t1", "right")


def test_an_answer_is_added_to_a_task_that_was_open(store: Store) -> None:
    put(store, agent_call("t1", QUESTIONS[0]))
    first = captured(store).dataset
    store.feedback.add([Feedback(id="f", kind="correction", trace_id="t1", content="right")], 1.0)
    found = captured(store, first)
    (one,) = found.tasks
    assert one.change == "answered"
    assert one.task.id == first.tasks[0].id
    assert found.dataset.tasks[0].expected == "right"
    assert found.dataset.tasks[0].origin.sources == ("t1", "f")
    again = captured(store, found.dataset)
    assert not again.tasks
    assert again.dataset == found.dataset


def test_an_answer_that_contradicts_the_datasets_is_reported(store: Store) -> None:
    put(store, agent_call("t1", QUESTIONS[0]))
    store.feedback.add([Feedback(id="f", kind="correction", trace_id="t1", content="other")], 1.0)
    known = Dataset("d", (Task("own", QUESTIONS[0], "this"),), {"own": "test"})
    found = captured(store, known)
    assert found.dataset == known
    assert found.left_out == {"its input is a task already, with another expected answer": 1}


def test_tasks_of_one_conversation_share_a_split(store: Store) -> None:
    for n, question in enumerate(QUESTIONS):
        put(store, agent_call(f"t{n}", question, attributes={"session.id": "talk", "user.id": "u"}))
    found = captured(store)
    assert len(found.tasks) == len(QUESTIONS)
    assert len(set(found.dataset.splits.values())) == 1
    assert {json.dumps(t.metadata) for t in found.dataset.tasks} == {
        '{"conversation": "talk", "user": "u"}'
    }


def test_an_input_that_was_cut_is_left_out(store: Store) -> None:
    put(store, agent_call("t1", "x" * 100 + "… [900 more characters]"))
    found = captured(store)
    assert not found.tasks
    assert found.left_out == {"its input was recorded in part only": 1}


def test_a_trace_without_an_input_is_left_out(store: Store) -> None:
    put(store, span("t1"))
    assert captured(store).left_out == {"no input was recorded": 1}


def test_a_cluster_gives_no_more_tasks_than_asked_for(store: Store) -> None:
    for n, town in enumerate(("Paris", "Oslo", "Lisbon", "Prague")):
        put(store, agent_call(f"t{n}", f"Which trains go to {town} on Sunday morning", at=n))
    put(store, agent_call("other", QUESTIONS[3], at=9))
    found = captured(store, per_cluster=2)
    assert len(found.tasks) == 3
    assert found.left_out == {"its cluster has enough tasks": 2}


def test_only_novel_inputs_are_taken(store: Store) -> None:
    put(store, agent_call("t1", "Which trains go to Paris on Sunday morning"))
    put(store, agent_call("t2", QUESTIONS[3]))
    known = Task("own", "Which trains go to Oslo on Sunday morning")
    found = captured(store, Dataset("d", (known,), {"own": "train"}), novelty=0.8)
    assert [one.task.input for one in found.tasks] == [QUESTIONS[3]]


def test_the_newest_are_taken_up_to_the_limit_over_all_pages(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet.store.recordings.PAGE", 2)
    monkeypatch.setattr(traces, "MAX_TRACES_EXAMINED", 2)
    put(store, *(agent_call(f"t{n}", QUESTIONS[n], at=n) for n in range(6)))
    assert inputs(captured(store)) == {json.dumps(question) for question in QUESTIONS}
    newest = captured(store, limit=3)
    assert inputs(newest) == {json.dumps(question) for question in QUESTIONS[3:]}


def test_a_long_input_that_is_stored_apart_is_read_whole(store: Store) -> None:
    long = "word " * 2_000 + "end"
    put(store, agent_call("t1", long), model_call("t2", [("user", f"{long} 2")]))
    assert inputs(captured(store)) == {json.dumps(long), json.dumps(f"{long} 2")}
