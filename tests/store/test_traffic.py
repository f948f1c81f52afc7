"""Live traffic in the store: what an agent runs, how a canary splits it, which traces count."""

from __future__ import annotations

import pytest

from ratchet.store import Store
from ratchet.store.traffic import STANDING, standing
from ratchet.types import Activation, Candidate, InputError, PromptTemplate, TrafficSplit

SOURCE = Candidate.of({"system": PromptTemplate("a"), "other": PromptTemplate("o")})
BETTER = SOURCE.derive({"system": PromptTemplate("b")}, algorithm="apo")
BEST = BETTER.derive({"system": PromptTemplate("c")}, algorithm="apo")


@pytest.fixture
def filled(store: Store) -> Store:
    for candidate in (SOURCE, BETTER, BEST):
        store.candidates.put(candidate)
    return store


def activate(store: Store, *ids: str) -> None:
    for number, id in enumerate(ids):
        store.agents.activate(Activation(agent="bot", candidate_id=id, activated_at=number))


def split(
    enrolled: float = 0.1, candidate_id: str = BEST.id, experiment: str = "e"
) -> TrafficSplit:
    return TrafficSplit(
        agent="bot", experiment_id=experiment, candidate_id=candidate_id, enrolled=enrolled
    )


def test_an_agent_without_releases_runs_its_own_source(store: Store) -> None:
    found = store.traffic.versions("bot")
    assert found is not None
    assert (found.release_id, found.release, found.split, found.standing) == ("", {}, None, ("",))
    assert store.traffic.versions("bot", found.tag) is None


def test_a_release_replaces_what_it_changed_and_nothing_else(filled: Store) -> None:
    activate(filled, BEST.id)
    found = filled.traffic.versions("bot")
    assert found is not None
    assert found.release == {"system": PromptTemplate("c")}


def test_a_candidate_without_parents_replaces_everything(filled: Store) -> None:
    activate(filled, SOURCE.id)
    found = filled.traffic.versions("bot")
    assert found is not None
    assert found.release == SOURCE.resources


def test_a_canary_is_read_with_the_release_and_ends(filled: Store) -> None:
    activate(filled, BETTER.id)
    before = filled.traffic.versions("bot")
    filled.traffic.put(split())
    found = filled.traffic.versions("bot", before.tag if before else "")
    assert found is not None
    assert (found.split, found.candidate) == (split(), {"system": PromptTemplate("c")})
    filled.traffic.put(split(0.5))
    assert filled.traffic.split("bot") == split(0.5)
    filled.traffic.put(TrafficSplit(agent="bot", experiment_id="", reason="It was worse."))
    assert filled.traffic.split("bot") is None
    assert [one.enrolled for one in filled.traffic.history("bot")] == [0.0, 0.5, 0.1]


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_outside_of_its_range_is_refused(filled: Store, share: float) -> None:
    with pytest.raises(InputError, match="is not in"):
        filled.traffic.put(split(share))


def test_a_canary_of_an_unknown_candidate_is_refused(filled: Store) -> None:
    with pytest.raises(InputError, match="no candidate 'unknown' for the canary of 'bot'"):
        filled.traffic.put(split(candidate_id="unknown"))


def test_going_back_withdraws_what_came_after() -> None:
    def after(*ids: str) -> tuple[str, ...]:
        history = [Activation(agent="bot", candidate_id=id, activated_at=0.0) for id in ids]
        return standing(history[::-1])

    assert after("a", "b") == ("", "a", "b")
    assert after("a", "b", "a") == ("", "a")
    assert after("a", "b", "a", "c") == ("", "a", "c")
    assert after("a", "") == ("",)
    assert len(after(*map(str, range(100)))) == STANDING


def test_the_first_trace_of_a_unit_counts_however_often_it_is_asked(store: Store) -> None:
    counts = store.traffic.count_units
    assert counts("e", [("ann", "t1"), ("ben", "t2"), ("ann", "t3")]) == [True, True, False]
    assert counts("e", [("ann", "t1"), ("ann", "t4"), ("cem", "t5")]) == [True, False, True]
    assert counts("f", [("ann", "t4")]) == [True], "another experiment counts anew"
    assert counts("e", []) == []


def test_a_candidate_of_a_canary_is_not_pruned(filled: Store) -> None:
    filled.traffic.put(split())
    filled.traffic.put(TrafficSplit(agent="bot", experiment_id=""))
    filled.pruning.candidates(1e12)
    assert filled.candidates.known([BEST.id, BETTER.id]) == {BEST.id, BETTER.id}
