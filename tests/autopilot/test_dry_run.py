"""A rehearsal: what an algorithm refuses is said before anything is spent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ratchet.autopilot.algorithms import ALGORITHMS, make_algorithm
from ratchet.autopilot.dry_run import DryRunLab, NoRunner, dry_run
from ratchet.autopilot.learning_sections import TRAINS_WEIGHTS
from ratchet.evaluate import Scorer
from ratchet.learn import Budget, BudgetExhausted, Finding, Lab, LabSettings
from ratchet.store import Store
from ratchet.types import Candidate, InputError, Int, Params, PromptTemplate, Task

RUN = "a-run"

NAMES = {*ALGORITHMS, "gepa"} - {"migrate", "cheaper"}  # a plug-in; those that others lead


@pytest.fixture
def store(sqlite_template: Any, tmp_path: Any) -> Any:
    path = tmp_path / "store.db"
    path.write_bytes(sqlite_template.read_bytes())
    with Store.open(f"sqlite:///{path}") as opened:
        yield opened


def lab(store: Store, rollouts: int, *, coach: Any = None, val: int = 6) -> DryRunLab:
    return DryRunLab(
        LabSettings(run_id=RUN, stage="learn", queue="q", objective="o", seed=0, max_attempts=1),
        baseline=Candidate.of(
            {"system": PromptTemplate("Be {kind}."), "knobs": Params({"k": Int(2, 1, 9)})}
        ),
        train=[Task(f"train{i}", i) for i in range(12)],
        val=[Task(f"val{i}", i) for i in range(val)],
        runner=NoRunner(),
        scorer=Scorer(store, ()),
        store=store,
        budget=Budget(rollouts=rollouts),
        coach=coach,
    )


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_algorithm_refuses_a_budget_that_is_too_small_and_leaves_no_trace(
    store: Store, name: str
) -> None:
    with pytest.raises(BudgetExhausted, match="does not cover"):
        asyncio.run(dry_run(make_algorithm(name, {}), lab(store, 2, coach=NoRunner())))
    assert store.journal.read(RUN) == []
    assert store.rollouts.counts() == {}


@pytest.mark.parametrize("name", sorted(NAMES - TRAINS_WEIGHTS))
def test_an_algorithm_that_can_work_is_let_through_and_leaves_no_trace(
    store: Store, name: str
) -> None:
    asyncio.run(dry_run(make_algorithm(name, {}), lab(store, 5_000, coach=NoRunner())))
    assert store.journal.read(RUN) == []
    assert store.rollouts.counts() == {}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_an_empty_split_is_refused(store: Store, name: str) -> None:
    with pytest.raises(InputError, match="no val tasks"):
        asyncio.run(dry_run(make_algorithm(name, {}), lab(store, 5_000, coach=NoRunner(), val=0)))


class Asks:
    """Begins to spend, and then says something."""

    name = "asks"

    def __init__(self, then: BaseException) -> None:
        self.then = then

    async def learn(self, lab: Lab) -> Finding:
        try:
            await lab.evaluate(lab.baseline, lab.val)
        except Exception:
            raise self.then from None
        raise AssertionError("nothing runs")


@pytest.mark.parametrize("then", [InputError("No score."), ValueError("A defect.")])
def test_what_is_said_after_something_was_asked_for_is_no_refusal(
    store: Store, then: BaseException
) -> None:
    asyncio.run(dry_run(Asks(then), lab(store, 5_000)))


@pytest.mark.parametrize("name", sorted(TRAINS_WEIGHTS))
def test_an_algorithm_that_trains_weights_needs_a_model(store: Store, name: str) -> None:
    with pytest.raises(InputError, match="none is configured"):
        asyncio.run(dry_run(make_algorithm(name, {}), lab(store, 5_000, coach=NoRunner())))
