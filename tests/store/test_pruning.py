"""What learning leaves in a store: journals, candidates and datasets, until nothing needs them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.store.made import experiment, release, rollout, rows_of, run

from ratchet.store import Store
from ratchet.store.pruning import PruningStep
from ratchet.types import (
    STAGE_TRANSITIONS,
    Activation,
    Candidate,
    Dataset,
    InputError,
    Params,
    Stage,
    Task,
)

OLD, NOW = 10.0, 1000.0
BEFORE = 100.0
"""What is from before this moment is old."""


def prune(step: Callable[[float, int, int], PruningStep], limit: int = 500) -> int:
    """Take steps until there is nothing left to do; rows that were deleted."""
    deleted, after = 0, 0
    for _ in range(1000):
        done = step(BEFORE, after, limit)
        deleted += done.deleted
        if done.after is None:
            return deleted
        after = done.after
    raise AssertionError("it does not end")


def candidate(name: str, *parents: Candidate) -> Candidate:
    return Candidate.of({name: Params({})}, parents=tuple(parent.id for parent in parents))


@pytest.mark.parametrize("stage", STAGE_TRANSITIONS)
def test_a_journal_goes_once_nothing_can_follow_in_its_run(store: Store, stage: Stage) -> None:
    store.runs.put(run("r", stage))
    for number in range(5):
        store.journal.append("r", f"coach/{number}", "reply", OLD)
    store.journal.append("another", "newest", 1, NOW)
    assert prune(store.pruning.journal, limit=2) == (5 if stage in ("shipped", "no_gain") else 0)


def test_a_journal_of_a_run_that_ended_lately_stays_whole(store: Store) -> None:
    store.runs.put(run("r", "no_gain", updated_at=NOW))
    store.journal.append("r", "early", 1, OLD)
    store.journal.append("another", "newest", 1, NOW)
    assert prune(store.pruning.journal) == 0


def test_a_journal_of_a_run_that_is_not_known_goes_as_a_whole(store: Store) -> None:
    for run_id, last in (("active", NOW), ("left", OLD)):
        store.journal.append(run_id, "first", 1, OLD)
        store.journal.append(run_id, "last", 1, last)
    store.journal.append("another", "newest", 1, NOW)
    assert prune(store.pruning.journal) == 2
    assert [key for key, _ in store.journal.read("active")] == ["first", "last"]
    assert store.journal.read("left") == []


REFERENCES: dict[str, Callable[[Store, str], object]] = {
    "baseline of a run": lambda s, id: s.runs.put(run("r", "no_gain", baseline_id=id)),
    "best of a run": lambda s, id: s.runs.put(run("r", "shipped", best_id=id)),
    "baseline of an experiment": lambda s, id: s.experiments.put(experiment(baseline_id=id)),
    "candidate of an experiment": lambda s, id: s.experiments.put(experiment(candidate_id=id)),
    "baseline of a release": lambda s, id: s.releases.put(release(baseline_id=id)),
    "candidate of a release": lambda s, id: s.releases.put(release(candidate_id=id)),
    "once an agent's active one": lambda s, id: [
        s.agents.activate(Activation(agent="a", candidate_id=one, activated_at=OLD))
        for one in (id, "")
    ],
    "of a rollout": lambda s, id: s.rollouts.create([rollout("x", candidate_id=id)], OLD),
    "checked in a run that may go on": lambda s, id: [
        s.runs.put(run("r", "failed")),
        s.journal.append("r", f"check/{id}", "It has no body.", OLD),
    ],
    "tested in a run that may go on": lambda s, id: [
        s.runs.put(run("r", "learn")),
        s.journal.append("r", f"test/{id}", "", OLD),
    ],
    "proposed again": lambda s, id: s.candidates.put(s.candidates.get(id), NOW),
}


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_candidate_that_something_refers_to_stays(store: Store, reference: str) -> None:
    wanted = candidate("wanted")
    for one in (candidate("unwanted"), wanted, candidate("newest")):
        store.candidates.put(one, OLD)
    REFERENCES[reference](store, wanted.id)
    assert prune(store.pruning.candidates) == 1
    assert store.candidates.get(wanted.id) == wanted
    with pytest.raises(InputError):
        store.candidates.get(candidate("unwanted").id)


def test_what_a_promoted_candidate_was_made_from_stays(store: Store) -> None:
    first = candidate("first")
    second = candidate("second", first)
    third = candidate("third", second)
    for one in (first, second, third, candidate("aside", first), candidate("newest")):
        store.candidates.put(one, OLD)
    store.releases.put(release(candidate_id=third.id))
    assert prune(store.pruning.candidates, limit=2) == 1
    assert store.candidates.known(
        [first.id, second.id, third.id, candidate("aside", first).id]
    ) == {
        first.id,
        second.id,
        third.id,
    }


def dataset(name: str, *ids: str) -> Dataset:
    tasks = tuple(Task(id, id) for id in ids)
    return Dataset(name=name, tasks=tasks, splits={task.id: "train" for task in tasks})


def test_a_dataset_goes_with_the_tasks_that_are_in_no_other(store: Store) -> None:
    store.datasets.put(dataset("d", *(f"t{n}" for n in range(7))), OLD)
    kept = dataset("d", "t0", "new")
    store.datasets.put(kept, OLD + 1)
    store.datasets.put(dataset("newest", "t1"), NOW)
    assert prune(store.pruning.datasets) == 1
    assert prune(store.pruning.tasks, limit=2) == 7 + 5
    assert store.datasets.latest("d") == kept, "the newest of its name"
    assert (rows_of(store, "dataset_tasks"), rows_of(store, "tasks")) == (3, 3)


@pytest.mark.parametrize(
    ("refer", "stays"),
    [
        (lambda s, v: s.experiments.put(experiment(dataset_version=v)), True),
        (lambda s, v: s.runs.put(run("r", "learn", dataset_version=v)), True),
        (lambda s, v: s.runs.put(run("r", "failed", dataset_version=v)), True),
        (lambda s, v: s.runs.put(run("r", "not_proved", dataset_version=v)), True),
        (lambda s, v: s.runs.put(run("r", "prove", earlier_versions=(v,))), True),
        (lambda s, v: s.runs.put(run("r", "no_gain", dataset_version=v)), False),
    ],
    ids=["experiment", "run", "failed run", "not proved", "continued run", "run that is over"],
)
def test_a_dataset_stays_while_an_experiment_or_an_unfinished_run_refers_to_it(
    store: Store, refer: Callable[[Store, str], None], stays: bool
) -> None:
    old = dataset("d", "t0")
    store.datasets.put(old, OLD)
    store.datasets.put(dataset("d", "t1"), NOW)
    refer(store, old.version)
    assert prune(store.pruning.datasets) == (0 if stays else 1)
    assert prune(store.pruning.tasks) == (0 if stays else 2)


def test_a_dataset_that_is_put_again_while_its_list_is_deleted_is_whole(store: Store) -> None:
    old = dataset("d", *(f"t{n}" for n in range(7)))
    store.datasets.put(old, OLD)
    store.datasets.put(dataset("d", "other"), NOW)
    prune(store.pruning.datasets)
    assert store.pruning.tasks(BEFORE, 0, 3).deleted == 6
    store.datasets.put(old, NOW)
    assert prune(store.pruning.tasks) == 0
    assert store.datasets.get(old.version) == old
