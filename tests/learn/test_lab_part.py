"""Parts of a lab: algorithms that share one budget."""

from __future__ import annotations

import asyncio
from typing import Any

from ratchet.learn import Budget, Lab, Proposal
from ratchet.types import Candidate, Int, Params, PromptTemplate
from tests.learn.conftest import FakeRunner, MakeStore, make_lab

KNOBS = Params({"k": Int(5, 1, 20)})
BASELINE = Candidate.of({"knobs": KNOBS, "system": PromptTemplate("You are.")})


def lab_of(make_store: MakeStore, **options: Any) -> tuple[FakeRunner, Lab]:
    store = options.pop("store", None) or make_store()
    runner = FakeRunner(store, lambda *_: 0.5, cost_usd=0.5)
    return runner, make_lab(runner, store, BASELINE, **options)


def other(lab: Lab, k: int) -> Candidate:
    return lab.propose({"knobs": KNOBS.replace(k=k)}, algorithm="test", reason="r")


def test_what_a_part_spends_the_whole_has_spent(make_store: MakeStore) -> None:
    _, lab = lab_of(make_store)
    part = lab.part("one")
    asyncio.run(part.evaluate(other(part, 6), part.train[:4]))
    assert (part.spent.rollouts, part.spent.dollars) == (4, 2.0)
    assert (lab.spent.rollouts, lab.spent.dollars) == (4, 2.0)


def test_what_was_paid_for_costs_a_part_nothing(make_store: MakeStore) -> None:
    runner, lab = lab_of(make_store)
    asyncio.run(lab.evaluate(BASELINE, lab.val))
    part = lab.part("one", budget=Budget(rollouts=1))
    asyncio.run(part.evaluate(BASELINE, part.val))
    asyncio.run(lab.part("two").evaluate(BASELINE, part.val))
    assert part.spent.rollouts == 0
    assert runner.executed.total() == 10


def test_a_part_begins_with_tasks_that_its_baseline_was_tried_on(make_store: MakeStore) -> None:
    store = make_store()
    _, lab = lab_of(make_store, store=store)
    asyncio.run(lab.evaluate(BASELINE, lab.train[3:6]))
    part = lab.part("one")
    order = part.shuffled("train", part.train)
    assert {task.id for task in order[:3]} == {task.id for task in lab.train[3:6]}
    assert sorted(task.id for task in order) == sorted(task.id for task in lab.train)
    # Resumed, when more has ended than was known then, the order is the same.
    _, again = lab_of(make_store, store=store)
    asyncio.run(again.evaluate(BASELINE, again.train[:6]))
    assert again.part("one").shuffled("train", part.train) == order


def test_a_part_that_starts_from_another_candidate_takes_tasks_by_chance(
    make_store: MakeStore,
) -> None:
    _, lab = lab_of(make_store)
    asyncio.run(lab.evaluate(BASELINE, lab.train[:2]))
    part = lab.part("one", baseline=other(lab, 9))
    orders = {tuple(task.id for task in part.shuffled("train", part.train)) for _ in range(5)}
    assert len(orders) > 1


def test_time_within_a_part_is_time_of_the_whole_also_when_resumed(make_store: MakeStore) -> None:
    store, seconds = make_store(), [0.0]

    def work(clock: Any) -> tuple[bool, bool, float, float]:
        _, lab = lab_of(make_store, store=store, budget=Budget(seconds=100), clock=clock)
        part = lab.part("one", budget=Budget(seconds=30))
        seconds[0] += 20
        early = part.may_continue("a")
        seconds[0] += 20
        return early, part.may_continue("b"), part.spent.seconds, lab.spent.seconds

    assert work(lambda: seconds[0]) == (True, False, 40.0, 40.0)
    assert work(lambda: 0.0) == (True, False, 40.0, 40.0)


def test_proposals_and_notes_of_parts_are_counted_on(make_store: MakeStore) -> None:
    store, seen, said = make_store(), [], []
    _, lab = lab_of(make_store, store=store, on_proposal=seen.append, on_note=said.append)

    def judge(part: Lab, number: int) -> None:
        part.judged(
            Proposal(number=number, candidate_id="c", value=0.5, tasks=1, best=0.5, rollouts=0)
        )

    for name in ("one", "two"):
        part = lab.part(name)
        judge(part, 0)
        judge(part, 1)
        part.note(f"{name} is done.")
    assert [p.number for p in seen] == [0, 1, 2, 3]
    assert said == ["one is done.", "two is done."]
    entries = dict(store.journal.read("run0"))
    assert entries["note/000001"] == "two is done."
    assert entries["proposal/000003"]["number"] == 3
