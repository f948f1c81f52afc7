"""Evidence: each kind of failure is shown, nothing twice, and steps in short."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from ratchet.learn.evidence import (
    EvidenceSelector,
    changes_text,
    example_of,
    examples_text,
    history_text,
    kinds_of_failure,
    tried_change,
)
from ratchet.learn.race import RaceEntry
from ratchet.learn.work import Evaluation
from ratchet.types import Candidate, PromptTemplate, Rollout, Score, Span, Task


def ran(name: str, value: float, said: str = "", output: str = "an answer") -> Evaluation:
    """An evaluation of a task with this id."""
    task = Task(name, f"the question {name}")
    rollout = Rollout.of(
        task, "candidate", scope=[], seed_parts=[], queue="q", purpose="p", max_attempts=1
    )
    score = Score(evaluator="judge", version="1", value=value, rationale=said)
    ended = {"status": "succeeded", "output": output}

    rollout = msgspec.structs.replace(rollout, **ended)
    return Evaluation(task=task, rollout=rollout, value=value, scores={"judge": score})


def entry(evaluations: Sequence[Evaluation], text: str = "Be brief.") -> RaceEntry:
    """An entry that has run these."""
    made = RaceEntry(1, Candidate.of({"system": PromptTemplate(text)}))
    made.add(evaluations)
    return made


SMALL = [ran(f"small{n}", 0.0, f"Room {n} is too small: it seats {n} of 9.") for n in range(6)]
BOOKED = [ran("booked", 0.0, "It is booked at that time already.")]
NEAR = [ran("near", 0.75, "Right room, though a nearer one is free.")]
GOOD = [ran("good", 1.0), ran("better", 1.0)]


def test_failures_are_of_one_kind_when_the_evaluators_say_the_same() -> None:
    kinds = kinds_of_failure([*SMALL, *BOOKED, *NEAR])
    assert [len(kind) for kind in kinds] == [6, 1, 1]
    silent = kinds_of_failure([ran("a", 0.0), ran("b", 0.0), ran("c", 0.5)])
    assert [len(kind) for kind in silent] == [2, 1]


def test_each_kind_a_near_miss_and_a_success_are_shown() -> None:
    chosen = EvidenceSelector().choose(
        entry([*SMALL, *BOOKED, *NEAR, *GOOD]), failures=3, successes=1
    )
    names = {evaluation.task.id for evaluation in chosen}
    assert {"booked", "near"} <= names
    assert len(names & {e.task.id for e in SMALL}) == 1
    assert len(names & {"good", "better"}) == 1


def test_what_was_shown_least_comes_first_and_no_choice_is_made_twice() -> None:
    selector, one = EvidenceSelector(), entry([*SMALL, *GOOD])
    first = selector.choose(one, failures=3, successes=1)
    second = selector.choose(one, failures=3, successes=1)
    assert not {e.task.id for e in first} & {e.task.id for e in second}
    assert {e.task.id for e in (*first, *second)} >= {e.task.id for e in SMALL}
    chosen = [first, second]
    while more := selector.choose(one, failures=3, successes=1):
        chosen.append(more)
    assert len({frozenset(e.task.id for e in group) for group in chosen}) == len(chosen) > 6
    one.add([ran("new", 0.0, "It is closed.")])
    assert "new" in {e.task.id for e in selector.choose(one, failures=3, successes=1)}


def test_the_overview_counts_what_is_not_shown() -> None:
    text = EvidenceSelector().overview(entry([*SMALL, *BOOKED, *GOOD]))
    assert "it ran 9 tasks, with a mean score of 0.22; 7 of them scored low" in text
    assert "- 6 times (mean score 0.00, such as: Room" in text
    assert "- 1 time (mean score 0.00, such as: It is booked" in text


def call(number: int, *texts: tuple[str, str]) -> Span:
    """A model call with messages."""
    messages = [{"role": role, "parts": [{"type": "text", "content": t}]} for role, t in texts]
    return Span(
        trace_id="t", span_id=f"{number:016x}", parent_id="f" * 16, name="chat",
        start_ns=number, end_ns=number + 1,
        attributes={"gen_ai.input.messages": json.dumps(messages)},
    )  # fmt: skip


def test_steps_leave_out_the_instructions_the_task_and_what_is_repeated() -> None:
    asked = ("user", "the question near")
    spans = [
        call(1, ("system", "Be brief."), asked, ("assistant", "I look it up.")),
        call(2, ("system", "Be brief."), asked, ("assistant", "I look it up."), ("user", "Go on.")),
    ]
    text = examples_text([example_of(NEAR[0], spans, remark="the version before scored 0 here")])
    assert text.count("I look it up.") == 1
    assert text.count("the question near") == 1
    assert "Be brief." not in text
    assert "- user: Go on." in text
    assert "### Rollout 1 (score 0.75; the version before scored 0 here)" in text


def test_the_more_rollouts_are_shown_the_shorter_are_the_steps_of_each() -> None:
    long = [call(n, ("assistant", f"{n} {'word ' * 700}")) for n in range(4)]
    alone = examples_text([example_of(NEAR[0], long)])
    many = examples_text([example_of(NEAR[0], long)] * 16)
    assert len(alone) > 11_000
    assert len(many) < 16 * 3_000


def test_an_edit_is_told_with_its_lines_its_score_and_its_tasks() -> None:
    before = entry([ran("a", 0.0), ran("b", 1.0)])
    changed = Candidate.of({"system": PromptTemplate("Be brief.\nBook a free room.")}, reason="")
    after = RaceEntry(2, changed, before)
    after.add([ran("a", 1.0), ran("b", 1.0), ran("c", 0.0)])
    text = history_text([tried_change(after, reason="Rooms were booked.", kept=True)])
    assert text.startswith("- In the current text: Rooms were booked. (It scored 1.00 on 2 tasks:")
    assert "0.50 better on average" in text
    assert "      + Book a free room." in text
    assert changes_text(PromptTemplate("One.\nTwo."), PromptTemplate("One.\nThree.")) == (
        "- Two.\n+ Three."
    )
