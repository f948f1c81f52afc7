"""The queue, behaviour by behaviour. Time is an argument; nothing sleeps."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tests.store.made import asked, pages, rollout

from ratchet.store import Store, queue, rollouts
from ratchet.store.clock import LeaseClock
from ratchet.types import (
    MAX_DELIVERIES,
    Claim,
    InputError,
    Outcome,
    Rollout,
    Score,
    Span,
)


def outcome(claim: Claim, status: str = "succeeded", **fields: Any) -> Outcome:
    given = {"started_at": 10.0, "ended_at": 11.0, "duration_s": 1.0}
    return Outcome(
        **{
            "rollout_id": claim.rollout.id,
            "fence": claim.fence,
            "status": status,
            **given,
            **fields,
        }
    )


def span(id: str = "a") -> Span:
    return Span(trace_id="t", span_id=id, name="agent", start_ns=1, end_ns=2)


def take(store: Store, limit: int = 1, now: float = 10.0, queue: str = "q") -> list[Claim]:
    return store.rollouts.claim(queue, "worker", limit, 30.0, now)


def one(store: Store, id: str = "r") -> Rollout:
    return store.rollouts.get([id])[id]


def ids(rollouts: Sequence[Rollout]) -> list[str]:
    return [r.id for r in rollouts]


def test_a_rollout_comes_back_as_it_was_created(store: Store) -> None:
    made = rollout(
        "r", expected=[1], metadata={"a": None}, seed=2**62, purpose="eval", created_at=5
    )
    assert store.rollouts.create([made], 9.0) == 1
    assert one(store) == made
    store.rollouts.create([rollout("s")], 9.0)
    assert one(store, "s").created_at == 9.0


def test_creating_the_same_id_again_changes_nothing(store: Store) -> None:
    assert store.rollouts.create([rollout("a"), rollout("b"), rollout("a", seed=9)], 1.0) == 2
    assert store.rollouts.create([rollout("b", seed=9), rollout("c")], 2.0) == 1
    assert store.rollouts.create([], 2.0) == 0
    assert one(store, "a").seed == one(store, "b").seed == 0


def test_only_a_claim_makes_a_rollout_run(store: Store) -> None:
    with pytest.raises(InputError, match="Rollout r cannot be created as 'running'"):
        store.rollouts.create([rollout("r", status="running")], 1.0)
    ended = rollout("e", status="succeeded", output=3, created_at=1.0)
    store.rollouts.create([ended], 1.0)
    assert one(store, "e") == ended
    assert take(store) == []


def test_the_oldest_are_claimed_first_and_each_once(store: Store) -> None:
    store.rollouts.create([rollout(f"r{n}") for n in (3, 1, 2)], 1.0)
    store.rollouts.create([rollout("x", queue="other"), rollout("r0")], 0.5)
    first, second = take(store, 2), take(store, 5)
    assert ids([c.rollout for c in first]) == ["r3", "r1"]
    assert ids([c.rollout for c in second]) == ["r2", "r0"]
    assert take(store) == []
    assert take(store, 0) == []
    assert first[0].fence == 1
    assert first[0].lease_until == 40.0
    assert first[0].rollout.status == "running"
    assert first[0].rollout.input == 1
    assert one(store, "r3") == first[0].rollout


def test_a_finished_rollout_holds_what_its_attempt_reported(store: Store) -> None:
    store.rollouts.create([rollout("r")], 1.0)
    (claim,) = take(store)
    score = Score(evaluator="reward", version="1", value=0.5)
    done = outcome(claim, output=[1], cost_usd=0.25, spans=(span(),), scores=(score,))
    assert store.rollouts.finish([done], 12.0) == {("r", 1): "succeeded"}
    ended = one(store)
    assert (ended.status, ended.output, ended.cost_usd) == ("succeeded", [1], 0.25)
    assert (ended.started_at, ended.ended_at, ended.duration_s) == (10.0, 11.0, 1.0)
    assert store.spans.of("r") == [span()]
    assert store.scores.of(["r"]) == {"r": [score]}
    (attempt,) = store.rollouts.attempts("r")
    assert (attempt.status, attempt.worker, attempt.ended_at) == ("succeeded", "worker", 11.0)
    assert store.rollouts.running() == []


def test_an_unknown_rollout_and_a_wrong_fence_are_refused(store: Store) -> None:
    store.rollouts.create([rollout("r")], 1.0)
    (claim,) = take(store)
    wrong = Outcome(
        rollout_id="r", fence=7, status="succeeded", started_at=1, ended_at=2, duration_s=1
    )
    unknown = Outcome(
        rollout_id="x", fence=1, status="succeeded", started_at=1, ended_at=2, duration_s=1
    )
    answers = store.rollouts.finish([wrong, unknown, outcome(claim)], 12.0)
    assert answers == {("r", 7): None, ("x", 1): None, ("r", 1): "succeeded"}
    assert store.rollouts.heartbeat([("r", 7), ("x", 1)], 30.0, 12.0) == set()
    assert store.rollouts.release([("r", 7), ("x", 1)], 12.0) == set()
    assert store.rollouts.cancel(["x"], 12.0) == 0
    assert store.rollouts.attempts("x") == []


@pytest.mark.parametrize("status", ["running", "released", "expired"])
def test_an_attempt_cannot_be_reported_as_what_only_the_queue_decides(
    store: Store, status: str
) -> None:
    store.rollouts.create([rollout("r")], 1.0)
    (claim,) = take(store)
    with pytest.raises(InputError, match=f"reported as '{status}'"):
        store.rollouts.finish([outcome(claim, status)], 12.0)


@pytest.mark.parametrize("status", ["failed", "timed_out", "crashed"])
def test_a_spoiled_attempt_is_repeated_until_none_are_left(store: Store, status: str) -> None:
    store.rollouts.create([rollout("r", max_attempts=2)], 1.0)
    score = Score(evaluator="e", version="1", value=1.0)
    for fence, after in ((1, "queued"), (2, status)):
        (claim,) = take(store)
        spoiled = outcome(
            claim, status, error=f"e{fence}", cost_usd=0.5, spans=(span(),), scores=(score,)
        )
        assert store.rollouts.finish([spoiled], 12.0) == {("r", fence): after}
        assert len(store.scores.of(["r"])["r"]) == (after != "queued")
    ended = one(store)
    assert (ended.status, ended.failures, ended.error, ended.cost_usd) == (status, 2, "e2", 1.0)
    assert [a.error for a in store.rollouts.attempts("r")] == ["e1", "e2"]
    assert store.spans.of("r", fence=1) == store.spans.of("r", fence=2) == [span()]
    assert take(store) == []


def test_a_heartbeat_keeps_a_lease_until_somebody_expires_it(store: Store) -> None:
    store.rollouts.create([rollout("r"), rollout("s")], 1.0)
    take(store, 2)
    assert store.rollouts.heartbeat([("r", 1)], 30.0, 39.9) == {("r", 1)}
    assert store.rollouts.heartbeat([], 30.0, 40.0) == set()
    assert [(a.rollout_id, a.lease_until) for a in store.rollouts.running("q")] == [
        ("r", 69.9),
        ("s", 40.0),
    ]
    assert store.rollouts.expire(50.0) == ["s"]
    # The lease of r is over too, and nobody has expired it.
    assert store.rollouts.heartbeat([("r", 1), ("s", 1)], 30.0, 80.0) == {("r", 1)}
    assert store.rollouts.expire(109.9) == []
    assert [a.lease_until for a in store.rollouts.running("q")] == [110.0]
    assert store.rollouts.expire(110.0) == ["r"]
    assert store.rollouts.running() == store.rollouts.running("nobody") == []


def test_what_is_given_back_is_queued_again_in_its_old_place_without_a_failure(
    store: Store,
) -> None:
    store.rollouts.create([rollout("r"), rollout("s")], 1.0)
    take(store)
    assert store.rollouts.release([("r", 1), ("s", 1)], 11.0) == {("r", 1)}
    assert store.rollouts.release([("r", 1)], 11.0) == set()
    assert store.rollouts.release([], 11.0) == set()
    assert ids([c.rollout for c in take(store, 2)]) == ["r", "s"]
    assert one(store).failures == 0
    assert [a.status for a in store.rollouts.attempts("r")] == ["released", "running"]


def test_rollouts_of_a_dead_worker_are_taken_back_before_their_lease_is_over(
    store: Store,
) -> None:
    store.rollouts.create([rollout("r"), rollout("s"), rollout("t")], 1.0)
    store.rollouts.claim("q", "dead", 1, 30.0, 10.0)
    store.rollouts.claim("q", "alive", 1, 30.0, 10.0)
    assert store.rollouts.expire(11.0, queue="x", dead_workers=["dead"]) == []
    assert store.rollouts.expire(11.0, dead_workers={"dead", "unknown"}) == ["r"]
    assert [one(store, id).status for id in "rst"] == ["queued", "running", "queued"]
    (attempt,) = store.rollouts.attempts("r")
    assert (attempt.status, attempt.error) == ("expired", "Its worker disappeared.")


def test_a_cancelled_rollout_is_over_whatever_its_runner_says(store: Store) -> None:
    store.rollouts.create([rollout("r"), rollout("s"), rollout("t")], 1.0)
    claims = take(store, 2)
    store.rollouts.finish([outcome(claims[1])], 12.0)
    assert store.rollouts.cancel(["r", "s", "t", "t"], 13.0) == 2
    assert store.rollouts.cancel([], 13.0) == 0
    assert store.rollouts.heartbeat([("r", 1)], 30.0, 14.0) == set()
    assert store.rollouts.finish([outcome(claims[0])], 14.0) == {("r", 1): None}
    assert [one(store, id).status for id in "rst"] == ["cancelled", "succeeded", "cancelled"]
    assert one(store).ended_at == 13.0
    assert store.rollouts.attempts("r")[0].status == "cancelled"
    assert take(store) == []


@pytest.mark.parametrize("how", ["expired", "released", "failed"])
def test_a_rollout_is_handed_out_only_so_often(store: Store, how: str) -> None:
    store.rollouts.create([rollout("r", max_attempts=10**6)], 1.0)
    now = 10.0
    for _ in range(MAX_DELIVERIES):
        (claim,) = take(store, now=now)
        if how == "released":
            store.rollouts.release([("r", claim.fence)], now)
        elif how == "failed":
            store.rollouts.finish([outcome(claim, "failed", error="no luck")], now)
        else:
            now += 100.0
            store.rollouts.expire(now)
    assert take(store, now=now) == []
    ended = one(store)
    assert ended.status == "crashed"
    assert ended.error.startswith(f"Claimed {MAX_DELIVERIES} times without a result.")
    assert ("no luck" in ended.error) == (how == "failed")


def test_pages_are_newest_first_and_do_not_move_while_others_create(store: Store) -> None:
    store.rollouts.create([rollout(f"{n:02}") for n in range(10)], 1.0)
    first, cursor = store.rollouts.list(limit=4)
    store.rollouts.create([rollout("new")], 2.0)
    second, cursor = store.rollouts.list(limit=4, cursor=cursor)
    third, end = store.rollouts.list(limit=4, cursor=cursor)
    assert ids(first) == ["09", "08", "07", "06"]
    assert ids(second) == ["05", "04", "03", "02"]
    assert ids(third) == ["01", "00"]
    assert end is None
    assert store.rollouts.list(limit=11)[1] is None
    for cursor in ("x", "", "-1", "9" * 40):
        with pytest.raises(InputError, match="cursor"):
            store.rollouts.list(cursor=cursor)


def test_lists_and_counts_are_narrowed_by_each_filter(store: Store) -> None:
    store.rollouts.create(
        [
            rollout("a", purpose="improve/1/learn"),
            rollout("b", purpose="improve/1/prove", candidate_id="d"),
            rollout("c", purpose="improve/2/learn", queue="other"),
            rollout("d", purpose="eval", task_id="u"),
        ],
        1.0,
    )
    take(store)

    def listed(**filters: Any) -> list[str]:
        return ids(store.rollouts.list(**filters)[0])

    assert listed() == ["d", "c", "b", "a"]
    assert listed(queue="other") == ["c"]
    assert listed(status="queued") == ["d", "c", "b"]
    assert listed(purpose="improve/1/") == ["b", "a"]
    assert listed(purpose="") == ["d", "c", "b", "a"]
    assert listed(purpose="improve", candidate_id="c", status="queued") == ["c"]
    assert listed(task_id="t", candidate_id="c", queue="q") == ["a"]
    first, more = store.rollouts.list(task_id="t", purpose="improve/", limit=1)
    assert ids(first) == ["c"]
    assert ids(store.rollouts.list(task_id="t", purpose="improve/", cursor=more)[0]) == ["b", "a"]
    assert store.rollouts.counts() == {"queued": 3, "running": 1}
    assert store.rollouts.counts(queue="other") == {"queued": 1}
    assert store.rollouts.counts(purpose="improve/1/") == {"queued": 1, "running": 1}
    assert store.rollouts.counts(queue="nobody") == store.rollouts.counts(task_id="z") == {}
    assert store.rollouts.counts(candidate_id="c", task_id="u", purpose="ev") == {"queued": 1}


@pytest.mark.parametrize("few", [1, 50])
def test_pages_of_purposes_with_a_prefix_hold_each_rollout_once(
    store: Store, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(rollouts, "_FEW", few)
    made = [
        rollout(f"{n}", purpose=("learn/a", "learn/b", "learn", "lear", "prove")[n % 5])
        for n in range(40)
    ]
    store.rollouts.create(made, 1.0)
    for prefix in ("learn", "learn/", "learn/b", "l", "x"):
        wanted = [one.id for one in reversed(made) if one.purpose.startswith(prefix)]
        found = list(
            pages(lambda at, of=prefix: store.rollouts.list(purpose=of, limit=3, cursor=at))  # type: ignore[misc]
        )
        assert {len(page) for page in found[:-1]} <= {3}
        assert [one.id for page in found for one in page] == wanted


def test_the_newest_rollouts_of_a_purpose_are_found_by_its_index(sqlite_url: str) -> None:
    with Store.open(sqlite_url) as store:
        store.rollouts.create([rollout("r", purpose="learn/1")], 1.0)
        with asked(store) as statements:
            assert len(store.rollouts.list(purpose="learn")[0]) == 1
        raw = store._database.engine.raw_connection()
        plans = [
            str(row[3])
            for sql, values in statements
            for row in raw.cursor().execute(f"EXPLAIN QUERY PLAN {sql}", values)
        ]
        raw.close()
    assert any("ix_rollouts_purpose (purpose=?)" in step for step in plans)
    assert not any(step.startswith(("SCAN rollouts", "SCAN r ")) for step in plans)


class _Wrong:
    """A clock that is so many seconds ahead."""

    def __init__(self, ahead_s: float) -> None:
        self.ahead_s = ahead_s

    def __call__(self) -> float:
        return time.time() + self.ahead_s


@pytest.fixture
def two_machines(postgres_url: str) -> Iterator[tuple[Store, Store, _Wrong]]:
    """Two stores of one database, and the clock of the second one's machine."""
    wrong = _Wrong(120.0)
    with Store.open(postgres_url) as right, Store.open(postgres_url) as other:
        other._database.lease_clock = LeaseClock(other._database, own=wrong)
        yield right, other, wrong


@pytest.mark.postgres
@pytest.mark.parametrize("ahead_s", [120.0, -120.0])
def test_a_machine_whose_clock_is_wrong_takes_no_live_lease_and_gives_none_away(
    two_machines: tuple[Store, Store, _Wrong], ahead_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    right, other, wrong = two_machines
    wrong.ahead_s = ahead_s
    right.rollouts.create([rollout("r"), rollout("s")], time.time())
    (first,) = right.rollouts.claim("q", "w", 1, 60.0, time.time())
    (second,) = other.rollouts.claim("q", "v", 1, 60.0, wrong())
    assert abs(first.lease_until - second.lease_until) < 10
    assert other.rollouts.expire(wrong()) == right.rollouts.expire(time.time()) == []
    assert right.rollouts.heartbeat([("r", 1)], 30.0, time.time()) == {("r", 1)}
    assert other.rollouts.claim("q", "v", 1, 60.0, wrong()) == []
    assert right.leases.acquire("lead", "a", now=time.time(), ttl_s=60.0) is not None
    assert other.leases.acquire("lead", "b", now=wrong(), ttl_s=60.0) is None
    side = "ahead of" if ahead_s > 0 else "behind"
    assert f"is 120 s {side} the database's" in caplog.text
    assert len(caplog.records) == 1


@pytest.mark.postgres
@pytest.mark.parametrize("how", ["heartbeat", "finish"])
def test_a_lease_that_is_renewed_or_ended_while_it_expires_is_left_alone(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    with Store.open(postgres_url) as store, Store.open(postgres_url) as runner:
        store.rollouts.create([rollout("r")], 1.0)
        (claim,) = take(store, now=10.0)
        hold = queue.hold
        between = [
            lambda: (
                runner.rollouts.heartbeat([("r", 1)], 60.0, 100.0)
                if how == "heartbeat"
                else runner.rollouts.finish([outcome(claim)], 100.0)
            )
        ]

        def late_hold(connection: Any, ids: Any) -> Any:
            if between:  # it has read which leases are over, and not locked them yet
                between.pop()()
            return hold(connection, ids)

        monkeypatch.setattr(queue, "hold", late_hold)
        assert store.rollouts.expire(100.0) == []
        assert one(store).status == ("running" if how == "heartbeat" else "succeeded")
