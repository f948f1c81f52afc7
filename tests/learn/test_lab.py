"""The lab: nothing is run twice, and the budget is kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from ratchet.bind import registry
from ratchet.evaluate import evaluator
from ratchet.learn import Budget, BudgetExhausted, Lab, mean, objective_value
from ratchet.run import Runner
from ratchet.types import (
    Candidate,
    Cost,
    InputError,
    Int,
    Params,
    Resource,
    Rollout,
    Score,
)
from ratchet.worker.agent import AgentSpec, load_agent
from ratchet.worker.inprocess import AsyncExecutor
from tests.learn.conftest import FakeRunner, MakeStore, make_lab

KNOBS = Params({"k": Int(5, 1, 20)})
BASELINE = Candidate.of({"knobs": KNOBS})


def share(resources: Any, given: Any) -> float:
    return float(resources["knobs"].values["k"]) / 20


def other(lab: Lab, k: int) -> Candidate:
    return lab.propose({"knobs": KNOBS.replace(k=k)}, algorithm="test", reason=f"k = {k}")


def test_evaluations_come_in_the_order_of_the_tasks(make_store: MakeStore) -> None:
    store = make_store()
    lab = make_lab(FakeRunner(store, lambda _, given: given["nr"] / 100), store, BASELINE)
    found = asyncio.run(lab.evaluate(BASELINE, lab.train))
    assert [e.task for e in found] == list(lab.train)
    assert [e.value for e in found] == [i / 100 for i in range(40)]
    assert found[3].scores["objective"].value == 0.03
    assert found[3].rollout.purpose == "learn/run0"
    assert store.candidates.get(BASELINE.id) == BASELINE


def test_the_same_candidate_and_task_never_run_twice(make_store: MakeStore) -> None:
    store = make_store()
    runner = FakeRunner(store, share)
    lab = make_lab(runner, store, BASELINE)

    async def work() -> None:
        await lab.evaluate(BASELINE, lab.train[:10])
        await lab.evaluate(BASELINE, lab.train[5:20])
        await lab.evaluate(BASELINE, [lab.train[0], lab.train[0]])
        await lab.evaluate(other(lab, 6), lab.train[:10])

    asyncio.run(work())
    assert lab.spent.rollouts == runner.executed.total() == 30
    assert set(runner.executed.values()) == {1}


def test_a_repetition_is_another_rollout_with_another_seed(make_store: MakeStore) -> None:
    store = make_store()
    lab = make_lab(FakeRunner(store, share), store, BASELINE)
    task = lab.train[:1]

    async def work() -> list[Rollout]:
        calls = [(BASELINE, 0), (BASELINE, 1), (other(lab, 6), 0)]
        return [(await lab.evaluate(c, task, repetition=r))[0].rollout for c, r in calls]

    first, again, paired = asyncio.run(work())
    assert len({first.id, again.id, paired.id}) == 3
    assert first.seed != again.seed
    assert first.seed == paired.seed  # pairs share their luck


def test_the_budget_of_rollouts_is_exact_and_checked_before_running(make_store: MakeStore) -> None:
    store = make_store()
    runner = FakeRunner(store, share)
    lab = make_lab(runner, store, BASELINE, budget=Budget(rollouts=15))

    async def work() -> None:
        await lab.evaluate(BASELINE, lab.train[:10])
        with pytest.raises(BudgetExhausted, match=r"6 more .*: 10 of 15 rollouts are spent"):
            await lab.evaluate(BASELINE, lab.train[10:16])
        assert runner.executed.total() == 10
        await lab.evaluate(BASELINE, lab.train[:15])
        await lab.evaluate(BASELINE, lab.train[:15])  # what is known costs nothing
        assert lab.may_continue("known")
        with pytest.raises(BudgetExhausted):
            await lab.evaluate(BASELINE, lab.train[15:16])

    asyncio.run(work())
    assert lab.spent.rollouts == runner.executed.total() == 15


def test_no_more_dollars_no_more_rollouts(make_store: MakeStore) -> None:
    store = make_store()
    runner = FakeRunner(store, share, cost_usd=0.1)
    lab = make_lab(runner, store, BASELINE, budget=Budget(dollars=1.0))

    async def work() -> None:
        await lab.evaluate(BASELINE, lab.train[:9])
        assert lab.may_continue("one")
        await lab.evaluate(BASELINE, lab.train[:10])
        assert lab.spent.dollars == 1.0  # not 0.9999999999999999
        assert not lab.may_continue("two")
        with pytest.raises(BudgetExhausted, match=r"\$1.00 of \$1 is spent"):
            await lab.evaluate(BASELINE, lab.train[10:11])
        await lab.evaluate(BASELINE, lab.train[:10])

    asyncio.run(work())
    assert runner.executed.total() == 10


def test_dollars_are_the_same_in_whatever_order_rollouts_end(make_store: MakeStore) -> None:
    spent = set()
    for order in range(4):
        store = make_store()
        runner = FakeRunner(store, share, order=order, cost_usd=0.1)
        lab = make_lab(runner, store, BASELINE)

        async def work(lab: Lab = lab) -> None:
            await asyncio.gather(
                *(lab.evaluate(other(lab, k), lab.train[:k]) for k in range(6, 12))
            )

        asyncio.run(work())
        spent.add(lab.spent.dollars)
    assert len(spent) == 1


def test_seconds_end_the_search_but_not_what_has_begun(make_store: MakeStore) -> None:
    store = make_store()
    now = [100.0]
    lab = make_lab(
        FakeRunner(store, share),
        store,
        BASELINE,
        budget=Budget(seconds=10),
        clock=lambda: now[0],
    )
    now[0] += 9
    assert lab.may_continue("one")
    now[0] += 2
    assert not lab.may_continue("two")
    assert lab.spent.seconds == 11
    assert len(asyncio.run(lab.evaluate(BASELINE, lab.val))) == 10


def test_a_resumed_run_decides_about_time_as_it_did_before(make_store: MakeStore) -> None:
    store = make_store()

    def answers(speeds: dict[str, float]) -> list[bool]:
        now = [0.0]
        lab = make_lab(
            FakeRunner(store, share),
            store,
            BASELINE,
            budget=Budget(seconds=10),
            clock=lambda: now[0],
        )
        said = []
        for step, seconds in speeds.items():
            now[0] += seconds
            said.append(lab.may_continue(step))
        assert lab.spent.seconds == expected
        return said

    expected = 8.0
    assert answers({"a": 4, "b": 4}) == [True, True]
    # Replaying is quick or slow; the time counts as it was first spent, and goes on from there.
    expected = 9.0
    assert answers({"a": 0, "b": 0, "c": 1}) == [True, True, True]
    expected = 11.0
    assert answers({"a": 50, "b": 50, "c": 50, "d": 2}) == [True, True, True, False]


def test_proposing_checks_names_and_knows_its_parent(make_store: MakeStore) -> None:
    lab = make_lab(None, make_store(), BASELINE)
    child = other(lab, 6)
    assert child.parents == (BASELINE.id,)
    grandchild = lab.propose({"knobs": KNOBS}, algorithm="test", reason="", parent=child)
    assert grandchild.parents == (child.id,)
    with pytest.raises(InputError, match="No resource is named 'nobs'"):
        lab.propose({"nobs": KNOBS}, algorithm="test", reason="")


def score(value: float | None) -> dict[str, Score]:
    return {"objective": Score(evaluator="objective", version="1", value=value)}


@pytest.mark.parametrize(
    ("status", "scores", "value"),
    [
        ("succeeded", score(0.5), 0.5),
        ("succeeded", score(None), None),
        ("succeeded", {}, None),
        ("failed", {}, 0.0),
        ("timed_out", {}, 0.0),
        ("crashed", score(0.0), 0.0),
        ("failed", score(0.9), 0.0),  # a reward given before it failed
        ("inconclusive", score(0.9), None),
        ("cancelled", {}, None),
    ],
)
def test_the_objective_of_a_rollout(status: Any, scores: Any, value: float | None) -> None:
    rollout = Rollout(id="r", queue="q", candidate_id="c", task_id="t", input=1, status=status)
    assert objective_value(rollout, scores, "objective") == value


AGENT = """
import ratchet

KNOBS = ratchet.params("knobs", k=ratchet.Int(5, 1, 20))

async def answer(given):
    with open(__file__ + ".calls", "a") as file:
        file.write("called\\n")
    return KNOBS.k / 20
"""


def test_a_lab_with_the_real_runner(
    make_store: MakeStore, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"agent_of_the_lab_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(AGENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.forget()
    agent = load_agent(AgentSpec(entry=f"{name}:answer", root=str(tmp_path)))
    store = make_store()
    judged: list[float] = []

    @evaluator(name="objective")
    async def judge(output: float) -> float:
        judged.append(output)
        return output

    async def work() -> Any:
        executor = AsyncExecutor(agent, slots=4, timeout_s=30)
        async with Runner(store, "queue", executor) as runner:
            lab = make_lab(runner, store, BASELINE, evaluator=judge, budget=Budget(rollouts=24))
            batches = await asyncio.gather(
                lab.evaluate(BASELINE, lab.train[:8]),
                lab.evaluate(other(lab, 10), lab.train[:8]),
                lab.evaluate(other(lab, 20), lab.train[:8]),
                lab.evaluate(BASELINE, lab.train[:8]),
            )
            with pytest.raises(BudgetExhausted):
                await lab.evaluate(BASELINE, lab.val)
            return [mean(batch) for batch in batches]

    assert asyncio.run(work()) == [0.25, 0.5, 1.0, 0.25]
    assert asyncio.run(work()) == [0.25, 0.5, 1.0, 0.25]
    calls = (tmp_path / f"{name}.py.calls").read_text()
    assert len(calls.splitlines()) == 24
    assert len(judged) <= 32  # two evaluations of the same at once may judge twice


class UnpricedRunner(FakeRunner):
    """Rollouts that call a model of known price and one whose price nobody knows."""

    def _ended(self, rollout: Rollout, resources: Mapping[str, Resource]) -> Rollout:
        ended = super()._ended(rollout, resources)
        unknown = {"cost_usd": None, "known_usd": 0.25, "unpriced": {"own-model": 2}}
        return msgspec.structs.replace(ended, **unknown)


def test_a_budget_in_dollars_says_once_which_models_it_cannot_count(make_store: MakeStore) -> None:
    store = make_store()
    said: list[str] = []
    runner = UnpricedRunner(store, share)
    lab = make_lab(runner, store, BASELINE, budget=Budget(dollars=1.0), on_note=said.append)

    async def work() -> None:
        part = lab.part("some")
        await part.evaluate(BASELINE, lab.train[:2])
        await lab.evaluate(BASELINE, lab.train[:3])
        assert lab.spent.cost == Cost(known_usd=0.75, unpriced={"own-model": 6})
        assert lab.may_continue("one")
        await lab.evaluate(BASELINE, lab.train[:4])
        assert not lab.may_continue("two")

    asyncio.run(work())
    assert said == [
        "The cost of some calls is not measured: the price of 'own-model' is unknown;"
        " set it under [prices] in ratchet.toml."
        " The budget of $1 cannot count them."
    ]


def test_what_ends_after_the_time_is_up_is_told(make_store: MakeStore) -> None:
    now = [0.0]
    store = make_store()
    runner = FakeRunner(store, share)
    lab = make_lab(runner, store, BASELINE, budget=Budget(seconds=300), clock=lambda: now[0])

    async def work() -> None:
        await lab.evaluate(BASELINE, lab.train[:4])
        assert lab.overtime(time.time()) == ""
        now[0] = 312.0
        # The rollouts of this lab ended twelve seconds after the time was up.
        ended = time.time() - 1.0
        lab._ledger._ended[:] = [("rollout", ended - 60.0), *[("rollout", ended)] * 3]
        assert not lab.may_continue("again")
        assert "Learning took 312 s, with a limit of 300 s" in lab.overtime(time.time())
        assert "are completed, which took 3 rollouts more." in lab.overtime(time.time())

    asyncio.run(work())
