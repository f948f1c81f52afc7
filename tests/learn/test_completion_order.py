"""What an algorithm decides does not depend on the order in which rollouts end.

On a loaded machine they end in another order than on an idle one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from ratchet.learn import Budget, Proposal
from ratchet.learn.algorithm import Algorithm
from ratchet.learn.auto import Auto
from ratchet.learn.few_shot import FewShot
from ratchet.learn.tune import Tune
from ratchet.types import (
    Candidate,
    Choice,
    Int,
    Params,
    PromptTemplate,
    Resource,
    Rollout,
    content_hash,
)
from tests.learn.conftest import FakeRunner, MakeStore, make_lab

SEED = 6
"""One with which the estimates of two sets of examples differ in their last bits alone."""

Order = Callable[[int], int]
"""How many turns of the event loop a call takes, by the number of calls in progress."""

ORDERS: dict[str, Order] = {
    "one by one": lambda number: 0,
    "the last first": lambda number: 400 - 20 * number,
    "shuffled": lambda number: random.Random(number).randrange(400),
}

BASELINE = Candidate.of(
    {
        "knobs": Params({"k": Int(2, 1, 40), "stop": Choice("model", ("model", "line"))}),
        "system": PromptTemplate("You book rooms."),
    }
)


class OrderedRunner(FakeRunner):
    """Ends the calls that are in progress together in a given order, and records all calls."""

    def __init__(self, *given: Any, ends: Order) -> None:
        super().__init__(*given)
        self.ends = ends
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.ended: list[int] = []
        self._in_progress = 0

    async def run(
        self,
        rollouts: Sequence[Rollout],
        candidates: Sequence[Candidate],
        on_finish: Callable[[Rollout], None] | None = None,
    ) -> dict[str, Rollout]:
        number = len(self.asked)
        self.asked.append((candidates[0].id, tuple(one.task_id for one in rollouts)))
        turns = self.ends(self._in_progress)
        self._in_progress += 1
        for _ in range(turns):
            await asyncio.sleep(0)
        self.order.seed(turns)  # that of the rollouts of a call
        done = await super().run(rollouts, candidates, on_finish)
        self._in_progress -= 1
        self.ended.append(number)
        return done


def noisy(resources: Mapping[str, Resource], given: Any) -> float:
    """A little of everything, with noise that is the same whenever it is asked again."""
    knobs = resources["knobs"]
    assert isinstance(knobs, Params)
    shown = str(resources["system"]).count("Output:")
    seen = content_hash([str(resources["system"]), dict(knobs.values), given])
    luck = int(seen[:4], 16) / 0xFFFF
    return min(1.0, 0.5 * luck + 0.01 * float(knobs.values["k"]) + 0.04 * shown)


def right_or_wrong(resources: Mapping[str, Resource], given: Any) -> float:
    """As `noisy`, but 0 or 1: many candidates are even."""
    return float(noisy(resources, given) > 0.4)


def only_together(resources: Mapping[str, Resource], given: Any) -> float:
    """Nothing, unless the prompt shows examples and the answer ends with the line."""
    knobs = resources["knobs"]
    assert isinstance(knobs, Params)
    shown = "Output:" in str(resources["system"])
    return noisy(resources, given) if shown and knobs.values["stop"] == "line" else 0.0


def decided(
    make_store: MakeStore, algorithm: Algorithm, answer: Callable[..., float], ends: Order
) -> tuple[OrderedRunner, list[Any]]:
    """All that an algorithm asked for, reported and found."""
    store = make_store()
    runner = OrderedRunner(store, answer, ends=ends)
    reported: list[Proposal] = []
    notes: list[str] = []
    lab = make_lab(
        runner,
        store,
        BASELINE,
        budget=Budget(rollouts=500),
        seed=SEED,
        on_proposal=reported.append,
        on_note=notes.append,
    )
    # What the examples show; a number as the answer is its own score.
    lab.train = tuple(msgspec.structs.replace(task, expected=1.0) for task in lab.train)
    finding = asyncio.run(algorithm.learn(lab))
    # Calls of one round may begin in another order: what they ask for is the same.
    return runner, [sorted(runner.asked), reported, notes, finding]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "answer",
    [only_together, *(pytest.param(a, marks=pytest.mark.long) for a in (noisy, right_or_wrong))],
)
@pytest.mark.parametrize("make", [FewShot, Tune, Auto])
def test_the_candidates_are_the_same_in_whatever_order_rollouts_end(
    make_store: MakeStore, make: Callable[[], Algorithm], answer: Callable[..., float]
) -> None:
    first, expected = decided(make_store, make(), answer, ORDERS["one by one"])
    assert len({candidate for candidate, _ in first.asked}) > 5
    for name, ends in ORDERS.items():
        runner, found = decided(make_store, make(), answer, ends)
        assert found == expected, name
        if name != "one by one":
            assert runner.ended != first.ended, "the order was another one"


@pytest.mark.usefixtures("one_thread")
def test_changes_that_help_only_together_are_found(make_store: MakeStore) -> None:
    runner, (_, _, notes, finding) = decided(
        make_store, Auto(), only_together, ORDERS["one by one"]
    )
    assert {*finding.best.changed_from(BASELINE)} == {"knobs", "system"}
    assert finding.best_val > 0.3
    assert any("cannot lose anything" in note for note in notes)
    assert sum(runner.executed.values()) <= 500


def better_without_examples(resources: Mapping[str, Resource], given: Any) -> float:
    """Nothing unless the answer ends with the line; then less with examples than without."""
    knobs = resources["knobs"]
    assert isinstance(knobs, Params)
    shown = "Output:" in str(resources["system"])
    return (0.2 if shown else 0.8) if knobs.values["stop"] == "line" else 0.0


@pytest.mark.usefixtures("one_thread")
def test_examples_handed_on_without_a_gain_are_dropped_once_there_is_a_score(
    make_store: MakeStore,
) -> None:
    _, (_, _, notes, finding) = decided(
        make_store, Auto(), better_without_examples, ORDERS["one by one"]
    )
    assert {*finding.best.changed_from(BASELINE)} == {"knobs"}
    assert finding.best_val == pytest.approx(0.8)
    assert any("without what was added" in note for note in notes)
