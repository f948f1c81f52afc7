"""The front of a run, from rollouts in a store: all on the same tasks, and unknown costs said."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from ratchet.autopilot.run_front import CandidatePlace, RunFront, run_front
from ratchet.autopilot.run_report import run_report
from ratchet.store import Store
from ratchet.types import Dataset, Rollout, RolloutStatus, Run, Score, Split, Task

TASKS = tuple(Task(id=f"t{number}", input=number, expected=number) for number in range(20))
SPLITS: dict[str, Split] = {
    task.id: "train" if number < 12 else "val" for number, task in enumerate(TASKS)
}
DATASET = Dataset(name="tasks", tasks=TASKS, splits=SPLITS)
NUMBERS = itertools.count()


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    """A store of this test's own."""
    with Store.open(f"sqlite:///{tmp_path}/ratchet.db") as opened:
        yield opened


def begun(store: Store, id: str = "run", at: float = 2.0, dataset: Dataset = DATASET) -> Run:
    """A run of the source."""
    store.datasets.put(dataset, at)
    run = Run(
        id=id,
        agent="agent:answer",
        seed=0,
        stage="baseline",
        created_at=at,
        updated_at=at,
        dataset_version=dataset.version,
        baseline_id="source",
        conditions="same",
    )
    store.runs.put(run)
    return run


def ran(
    store: Store,
    candidate_id: str,
    quality: Mapping[int, float] | Callable[[int], float],
    *,
    tasks: range = range(20),
    cost: float | Callable[[int], float] | None = 0.01,
    latency: float | Callable[[int], float] = 1.0,
    run_id: str = "run",
    seed: int = 1,
    purpose: str = "learn",
    status: RolloutStatus = "succeeded",
    version: str = "1",
) -> None:
    """Rollouts of a candidate, scored."""
    for number in tasks:
        rollout = Rollout(
            id=f"r{next(NUMBERS)}",
            queue=run_id,
            candidate_id=candidate_id,
            task_id=f"t{number}",
            input=number,
            seed=1_000 * seed + number,
            purpose=f"{purpose}/{run_id}",
            status=status,
            duration_s=latency(number) if callable(latency) else latency,
            cost_usd=cost(number) if callable(cost) else cost,
            unpriced={"house-model": 1} if cost is None else {},
        )
        store.rollouts.create([rollout], 3.0)
        value = quality(number) if callable(quality) else quality[number]
        score = Score(evaluator="match", version=version, value=value)
        store.scores.add([(rollout.id, score)], 3.0)


def half(number: int) -> float:
    return float(number % 2)


def placed(store: Store, run: Run) -> tuple[RunFront, dict[str, CandidatePlace]]:
    front = run_front(store, run, "match")
    assert front is not None
    return front, {place.candidate_id: place for place in front.places}


def test_cheaper_faster_and_better_candidates_are_on_the_front_and_a_worse_one_is_not(
    sqlite_store: Store,
) -> None:
    run = begun(sqlite_store)
    ran(sqlite_store, "source", half)
    ran(sqlite_store, "better", lambda number: 1.0, cost=0.02)
    ran(sqlite_store, "cheaper", half, cost=0.004)
    ran(sqlite_store, "faster", half, latency=0.5)
    ran(sqlite_store, "worse", lambda number: 0.0, cost=0.004)
    front, places = placed(sqlite_store, run)
    assert {id for id, place in places.items() if place.on_front} == {"better", "cheaper", "faster"}
    assert front.places[0].candidate_id == front.source_id == "source"
    assert (places["source"].quality, places["better"].quality) == (0.5, 1.0)
    assert places["cheaper"].cost_usd == pytest.approx(0.004)
    assert places["faster"].latency_s == pytest.approx(0.5)
    assert all(place.tasks == 20 for place in places.values())


def test_a_candidate_that_ran_only_tasks_that_suit_it_does_not_look_better_than_it_is(
    sqlite_store: Store,
) -> None:
    run = begun(sqlite_store)
    ran(sqlite_store, "source", half, cost=lambda number: 0.01 * (1 + number))
    ran(sqlite_store, "whole", lambda number: 1.0 if number < 16 else half(number))
    ran(
        sqlite_store,
        "lucky",
        lambda number: 1.0,
        tasks=range(10),
        cost=lambda number: 0.005 * (1 + number),
    )
    ran(sqlite_store, "few", lambda number: 1.0, tasks=range(3), cost=0.0001)
    _, places = placed(sqlite_store, run)
    assert places["whole"].quality == pytest.approx(0.9)
    assert places["lucky"].quality == pytest.approx(0.75)  # not 1.0: on the rest it is the source
    # Its tasks were the cheap ones; it takes half of what the source does.
    source_usd = places["source"].cost_usd
    assert source_usd is not None
    assert places["lucky"].cost_usd == pytest.approx(source_usd / 2)
    assert (places["few"].is_known, places["few"].on_front) == (False, False)


def test_a_difference_that_chance_explains_takes_nothing_off_the_front(
    sqlite_store: Store,
) -> None:
    run = begun(sqlite_store)
    ran(sqlite_store, "source", half)
    ran(sqlite_store, "jitter", half, latency=lambda number: 0.4 if number % 2 else 1.59)
    ran(sqlite_store, "better", lambda number: 1.0)
    _, places = placed(sqlite_store, run)
    assert places["jitter"].latency_s == pytest.approx(0.995)
    assert {id for id, place in places.items() if place.on_front} == {"better"}


def test_an_unknown_cost_is_said_and_a_failure_is_no_bargain(sqlite_store: Store) -> None:
    run = begun(sqlite_store)
    ran(sqlite_store, "source", half)
    ran(sqlite_store, "unpriced", half, cost=None)
    ran(sqlite_store, "crashes", lambda number: 1.0, cost=0.0, latency=0.1, status="failed")
    _, places = placed(sqlite_store, run)
    assert (places["unpriced"].cost_usd, places["unpriced"].on_front) == (None, True)
    assert places["crashes"].quality == 0.0


def test_candidates_of_earlier_runs_are_on_the_front_where_tasks_and_evaluator_are_the_same(
    sqlite_store: Store,
) -> None:
    changed = (*TASKS[:19], Task(id="t19", input="another", expected=19))
    earlier = msgspec.structs.replace(DATASET, tasks=changed)
    begun(sqlite_store, "before", at=1.0, dataset=earlier)
    run = begun(sqlite_store)
    ran(sqlite_store, "source", half, tasks=range(10))
    ran(sqlite_store, "source", half, tasks=range(10, 20), run_id="before")
    ran(sqlite_store, "old", lambda number: 1.0, run_id="before", cost=0.005)
    ran(sqlite_store, "other-rule", lambda number: 1.0, run_id="before", version="0")
    front, places = placed(sqlite_store, run)
    assert front.tasks == 19  # one task has changed since
    assert (places["old"].tasks, places["old"].on_front) == (19, True)
    assert "other-rule" not in places


def test_only_what_learning_compares_counts_and_the_last_of_what_was_run_anew(
    sqlite_store: Store,
) -> None:
    run = begun(sqlite_store)
    ran(sqlite_store, "source", half, status="failed")  # a service was down
    ran(sqlite_store, "source", half)
    ran(sqlite_store, "source", lambda number: 1.0, seed=2)  # a repetition
    ran(sqlite_store, "source", lambda number: 0.0, purpose="prove")
    ran(sqlite_store, "source", lambda number: 0.0, purpose="train")
    _, places = placed(sqlite_store, run)
    assert places["source"].quality == pytest.approx(0.75)
    assert run_front(sqlite_store, begun(sqlite_store, "empty", at=0.5), "match") is None


def test_the_report_draws_the_front_with_its_table(sqlite_store: Store) -> None:
    run = begun(sqlite_store)
    sqlite_store.journal.append(run.id, "trust", {"evaluator": "match", "sentence": ""}, 3.0)
    ran(sqlite_store, "source", half)
    ran(sqlite_store, "cheaper", half, cost=0.004)
    ran(sqlite_store, "worse", lambda number: 0.0, cost=0.005)
    html = run_report(sqlite_store, run)
    assert 'aria-label="match of 3 candidates over dollars of a rollout"' in html
    assert html.count("<circle") == 3
    assert ">$0.0040<" in html
    assert html.count("<td>on the front") == 1
