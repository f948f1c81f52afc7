"""The repository's own tests in a search: after the first tasks, before more, and beside others."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ratchet.learn.evolve import Evolve
from ratchet.learn.search.numbers import TESTS_AT_ONCE as AT_ONCE
from ratchet.store import Store
from ratchet.types import Candidate, Code
from tests.learn.conftest import Killed, MakeStore
from tests.learn.evolve.conftest import FUNCTION, SOURCE, Learned, by_code, learn

LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))

FIRST = 6
"""Tasks of a first part at most: `first_tasks` of Evolve."""

SAID = "The code of guess fails test_turned_round."


def turned_round(candidate: Candidate) -> str:
    """A test of the repository: between 5 and 1 lies 1. Better guesses exist that break it."""
    code = candidate.resources["guess"]
    assert isinstance(code, Code)
    names: dict[str, Any] = {}
    exec(code.source, names)
    try:
        return "" if names["guess"](5, 1) == 1 else SAID
    except Exception as error:
        return f"{SAID} {error}"


class OwnTests:
    """Runs that test, and keeps of whom it was asked, and how often at once."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.most = 0
        self._now = 0

    async def __call__(self, candidate: Candidate) -> str:
        """What it finds."""
        self.asked[candidate.id] += 1
        self._now += 1
        self.most = max(self.most, self._now)
        for _ in range(20):
            await asyncio.sleep(0)  # it takes longer than a rollout
        self._now -= 1
        return turned_round(candidate)


def search(store: Store, tests: Callable[[Candidate], Any] | None, **options: Any) -> Learned:
    """A search for a better guess."""
    given: dict[str, Any] = {
        "baseline": Candidate.of({"guess": FUNCTION}),
        "answer": by_code,
        "train": 12,
        "rollouts": 240,
        **options,
    }
    return learn(store, Evolve(proposers=["ast"]), tests=tests, **given)


def ran(learned: Learned) -> Counter[str]:
    """Rollouts by candidate."""
    rollouts = learned.runner.store.rollouts.get(list(learned.runner.executed))
    return Counter(rollout.candidate_id for rollout in rollouts.values())


def shown(learned: Learned) -> list[tuple[Any, ...]]:
    return [(p.candidate_id, p.value, p.tasks, p.accepted, p.refused) for p in learned.proposals]


@pytest.mark.parametrize(
    ("slots", "train"), [(8, 12), pytest.param(1, 12, marks=pytest.mark.long), (2, 2)]
)
def test_tests_run_after_the_first_tasks_and_before_more(
    make_store: MakeStore, slots: int, train: int
) -> None:
    # With two train tasks the first part is all there is: who gains there is kept but for tests.
    for seed in range(10):  # in some searches no mutant gains by breaking the test
        store, tests = make_store(), OwnTests()
        found = search(store, tests, slots=slots, train=train, seed=seed)
        refused = [p for p in found.proposals if p.refused]
        if refused:
            break
    by_candidate = ran(found)
    source = found.lab.baseline.id
    assert refused
    for proposal in refused:
        # It cost its first tasks and no more, and stands in the record with its reason.
        assert by_candidate[proposal.candidate_id] <= FIRST
        assert proposal.refused.startswith(SAID)
        assert not proposal.accepted
        assert proposal.pruned
        assert store.candidates.get(proposal.candidate_id).resources["guess"]
    for candidate_id, rollouts in by_candidate.items():
        if candidate_id != source and rollouts > FIRST:
            assert tests.asked[candidate_id] == 1
    for proposal in found.proposals:
        if proposal.accepted:
            assert tests.asked[proposal.candidate_id] == 1
    # Many candidates gain nothing on their first tasks: no test is run of them.
    assert tests.asked.total() < 0.8 * len(by_candidate)
    assert max(tests.asked.values()) == 1
    assert tests.most <= AT_ONCE
    assert found.finding.best.id != source
    assert turned_round(found.finding.best) == ""
    assert f"{len(refused)} refused by checks" in found.finding.sentence


def test_prompts_wait_for_no_tests(make_store: MakeStore) -> None:
    tests = OwnTests()
    found = learn(make_store(), tests=tests, rollouts=120)
    assert found.finding.best.id != SOURCE.id
    assert not tests.asked


@pytest.mark.parametrize(
    ("share", "slots"),
    [*itertools.product([0.1, 0.4, 0.8], [1, 8])] if LONG else [(0.1, 8), (0.4, 1)],
)
@pytest.mark.long
def test_a_killed_search_repeats_no_tests_and_decides_the_same(
    make_store: MakeStore, share: float, slots: int
) -> None:
    options: dict[str, Any] = {"slots": slots, "oldest_first": True}
    whole = search(make_store(), OwnTests(), **options)
    store, before, after = make_store(), OwnTests(), OwnTests()
    dies_after = int(share * whole.runner.executed.total())
    with pytest.raises(Killed):
        search(store, before, order=1, dies_after=dies_after, **options)
    kept = {key.partition("/")[2] for key, _ in store.journal.read("run0") if "test/" in key}
    resumed = search(store, after, order=2, **options)
    assert resumed.finding == whole.finding
    assert shown(resumed) == shown(whole)
    # What was not journaled before the kill is run again, and nothing else.
    assert kept <= set(before.asked)
    assert not kept & set(after.asked)


def test_what_tests_said_once_holds_for_the_run(make_store: MakeStore) -> None:
    """A test that fails now and then decides nothing anew when a run is resumed."""

    async def other(candidate: Candidate) -> str:
        raise AssertionError("asked again")

    store = make_store()
    first = search(store, OwnTests(), slots=8)
    again = search(store, other, slots=8, order=9)
    assert shown(again) == shown(first)
    assert again.finding == first.finding


def test_at_the_end_who_lacks_only_its_tests_gets_them(make_store: MakeStore) -> None:
    """With a budget for one round, a better candidate is found though its tests end last."""
    for seed in range(100, 106):
        tests = OwnTests()
        found = search(make_store(), tests, rollouts=40, seed=seed)
        kept = [p for p in found.proposals if p.accepted]
        assert all(tests.asked[p.candidate_id] for p in kept)
        if kept and found.finding.best.id != found.lab.baseline.id:
            return
    raise AssertionError("no seed found anything")
