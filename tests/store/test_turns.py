"""Claims of several queues: the queues take turns, whatever waits in each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ratchet.store import Store
from ratchet.types import Rollout


def create(store: Store, queue: str, count: int) -> None:
    store.rollouts.create(
        [
            Rollout(id=f"{queue}#{n}", queue=queue, candidate_id="", task_id=str(n), input=n)
            for n in range(count)
        ],
        now=1.0,
    )


def claimed(store: Store, queues: Sequence[str], limit: int, now: float = 10.0) -> list[str]:
    """Ids of the rollouts that one claim gets."""
    return [claim.rollout.id for claim in store.rollouts.claim(queues, "w", limit, 60.0, now)]


def by_queue(ids: Sequence[str]) -> dict[str, int]:
    return dict(Counter(id.partition("#")[0] for id in ids))


def test_a_small_queue_is_not_behind_a_large_one(store: Store) -> None:
    create(store, "agent/first", 500)
    create(store, "agent/second", 20)
    got = [id for _ in range(10) for id in claimed(store, ["agent/*"], 4)]
    assert by_queue(got) == {"agent/first": 20, "agent/second": 20}
    assert [id for id in got if "second" in id] == [f"agent/second#{n}" for n in range(20)]


def test_what_one_queue_does_not_need_the_others_get(store: Store) -> None:
    create(store, "agent/a", 2)
    create(store, "agent/b", 50)
    create(store, "agent/c", 50)
    got = claimed(store, ["agent/*"], 20)
    assert by_queue(got) == {"agent/a": 2, "agent/b": 9, "agent/c": 9}


def test_named_queues_and_patterns_share_one_claim(store: Store) -> None:
    create(store, "default", 10)
    create(store, "agent@1/a", 10)
    create(store, "agent@2/a", 10)
    got = claimed(store, ["default", "agent@1/*"], 40)
    assert by_queue(got) == {"default": 10, "agent@1/a": 10}


def test_a_pattern_covers_only_what_begins_so(store: Store) -> None:
    for name in ("agent", "agent/", "agent0", "agen", "agent/x/y"):
        create(store, name, 1)
    assert set(claimed(store, ["agent/*"], 10)) == {"agent/#0", "agent/x/y#0"}
    assert store.rollouts.queues("agent") == ["agent", "agent0"]
    assert store.rollouts.queues(limit=2) == ["agen", "agent"]


def test_more_queues_than_one_claim_looks_at_are_all_served(store: Store) -> None:
    for number in range(230):
        create(store, f"agent/{number:03d}", 1)
    got = [id for _ in range(23) for id in claimed(store, ["agent/*"], 10)]
    assert len(set(got)) == 230
    assert claimed(store, ["agent/*"], 10) == []


def test_an_overdue_lease_is_taken_back_by_a_claim_of_several_queues(store: Store) -> None:
    create(store, "agent/a", 1)
    assert claimed(store, ["agent/*"], 1, now=10.0) == ["agent/a#0"]
    assert claimed(store, ["agent/*"], 1, now=11.0) == []
    assert claimed(store, ["agent/*"], 1, now=100.0) == ["agent/a#0"]


def test_statuses_and_newest_attempts_leave_out_what_is_unknown(store: Store) -> None:
    create(store, "q", 2)
    claimed(store, ["q"], 1)
    assert store.rollouts.statuses(["q#0", "q#1", "x"]) == {"q#0": "running", "q#1": "queued"}
    assert store.spans.of_newest_attempts(["q#0", "x"]) == {"q#0": [], "x": []}
