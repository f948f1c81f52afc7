"""Experiments of one stream that begin at once: each has a place and a level of its own."""

from __future__ import annotations

import multiprocessing
from typing import Any

import msgspec
import pytest

from ratchet.prove import level
from ratchet.store import Store
from ratchet.types import Decision, Experiment

ALPHA = 0.05


def experiment(id: str, stream: str = "s") -> Experiment:
    return Experiment(
        id=id, run_id="r", baseline_id="b", candidate_id="c", dataset_version="d", stream=stream,
        history=(), alpha=1.0, created_at=1.0,
    )  # fmt: skip


def level_after(history: tuple[bool, ...]) -> float:
    return level(ALPHA, history)


def decide(store: Store, begun: Experiment, verdict: Any = "promote") -> None:
    decision = Decision(
        verdict=verdict, metric="m", alpha=begun.alpha, pairs=9, baseline=0.1, candidate=0.2,
        e_value=99.0, interval=(0.0, 0.2),
    )  # fmt: skip
    store.experiments.put(msgspec.structs.replace(begun, decision=decision))


def begin_some(url: str, process: int, start: Any, answers: Any) -> None:
    try:
        with Store.open(url) as store:
            start.wait()
            begun = [
                store.experiments.begin(experiment(f"{process}-{number}"), level_after)
                for number in range(4)
            ]
            answers.put([(one.history, one.alpha) for one in begun])
    except BaseException as error:
        answers.put(repr(error))


def test_experiments_that_processes_begin_at_once_have_levels_whose_sum_is_within_alpha(
    store_url: str,
) -> None:
    fork = multiprocessing.get_context("fork")
    start, answers = fork.Barrier(3), fork.Queue()
    processes = [
        fork.Process(target=begin_some, args=(store_url, number, start, answers))
        for number in range(3)
    ]
    for process in processes:
        process.start()
    begun = sorted(
        (one for _ in processes for one in answers.get(timeout=60)), key=lambda one: len(one[0])
    )
    for process in processes:
        process.join()
    assert begun == [((False,) * place, level(ALPHA, [False] * place)) for place in range(12)]
    assert sum(alpha for _, alpha in begun) < ALPHA


@pytest.mark.postgres
def test_an_experiment_whose_place_was_taken_meanwhile_gets_the_next_one(postgres_url: str) -> None:
    with Store.open(postgres_url) as store, Store.open(postgres_url) as other:
        given: list[tuple[bool, ...]] = []

        def slow(history: tuple[bool, ...]) -> float:
            if not given:  # between the history that was read and the place that it leads to
                other.experiments.begin(experiment("other"), level_after)
            given.append(history)
            return level_after(history)

        mine = store.experiments.begin(experiment("mine"), slow)
        assert given == [(), (False,)]
        assert (mine.history, mine.alpha) == ((False,), level(ALPHA, [False]))


def test_an_experiment_keeps_the_history_and_the_level_with_which_it_began(store: Store) -> None:
    first, second = (store.experiments.begin(experiment(id), level_after) for id in "ab")
    decide(store, first)
    assert store.experiments.begin(experiment("b"), level_after) == second
    assert second.history == (False,)
    third = store.experiments.begin(experiment("c"), level_after)
    assert (third.history, third.alpha) == ((True, False), level(ALPHA, [True, False]))


def test_only_what_is_decided_as_a_promotion_counts_as_one(store: Store) -> None:
    for id, verdict in (("a", "promote"), ("b", "harm"), ("c", "guardrail")):
        decide(store, store.experiments.begin(experiment(id), level_after), verdict)
    store.experiments.begin(experiment("d"), level_after)
    assert store.experiments.promotions("s") == (True, False, False, False)
    assert store.experiments.promotions("another") == ()


def test_an_experiment_that_is_refused_takes_no_place(store: Store) -> None:
    def refuse(history: tuple[bool, ...]) -> float:
        raise ArithmeticError(history)

    with pytest.raises(ArithmeticError):
        store.experiments.begin(experiment("a"), refuse)
    assert store.experiments.get("a") is None
    assert store.experiments.promotions("s") == ()
