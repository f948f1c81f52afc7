"""Spans of rollouts and of live agents: stored once, paid for once, found, paged, pruned."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event
from tests.store.made import asked, at_once, rollout

from ratchet.store import Store
from ratchet.types import InputError, Span, SpanRecord, StoreError

_numbers = itertools.count(1)


def span(**fields: Any) -> Span:
    """A span that is like no other."""
    number = next(_numbers)
    given = {"trace_id": f"{number:032x}", "span_id": f"{number:016x}", "name": "step", **fields}
    return Span(**{"start_ns": number, "end_ns": number + 1, **given})


def live(agent: str = "bot", **fields: Any) -> SpanRecord:
    return SpanRecord(span=span(**fields), agent=agent)


def of_rollout(id: str = "r", fence: int = 1, cost_usd: float = 0.0, **fields: Any) -> SpanRecord:
    if cost_usd:
        fields["attributes"] = {"ratchet.cost_usd": cost_usd}
    return SpanRecord(span=span(**fields), rollout_id=id, fence=fence, agent="bot")


def add_rollouts(store: Store, *ids: str) -> None:
    store.rollouts.create([rollout(id) for id in ids], 1.0)


def cost(store: Store, id: str = "r") -> float | None:
    return store.rollouts.get([id])[id].cost_usd


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200])
def test_a_span_that_is_stored_already_is_left_alone(store: Store, count: int) -> None:
    add_rollouts(store, "r")
    records = [of_rollout() if number % 3 else live() for number in range(count)]
    assert store.spans.put(records) == count
    again = [*records, live(), *records]
    assert store.spans.put(again) == 1
    twice = [live()] * 2
    assert store.spans.put(twice) == 1


def test_the_same_span_of_another_attempt_is_another(store: Store) -> None:
    add_rollouts(store, "r", "s")
    same = span()
    records = [SpanRecord(span=same, rollout_id=id, fence=fence) for id in "rs" for fence in (1, 2)]
    assert store.spans.put([*records, SpanRecord(span=same, agent="bot")]) == 5
    assert store.spans.of_trace(same.trace_id) == [same] * 5


def test_what_is_imported_of_a_rollout_that_has_ended_counts(store: Store) -> None:
    store.rollouts.create([rollout("r", status="succeeded")], 1.0)
    assert store.spans.put([of_rollout(cost_usd=0.5)]) == 1
    assert cost(store) == 0.5


def test_a_span_of_an_unknown_rollout_is_kept_as_live_traffic(store: Store) -> None:
    named = of_rollout("gone", fence=3, attributes={"a": 1})
    nameless = SpanRecord(span=span(), rollout_id="gone", fence=3)
    assert store.spans.put([named, nameless]) == 2
    (kept,), _ = store.spans.live("bot")
    assert kept.attributes == {"a": 1, "ratchet.rollout.id": "gone", "ratchet.attempt": 3}
    assert store.spans.live("unknown")[0][0].span_id == nameless.span.span_id
    assert store.spans.put([named, nameless]) == 0
    assert store.spans.of("gone") == []


@pytest.mark.parametrize(
    "fields",
    [
        {"trace_id": "a" * 201},
        {"span_id": "a" * 201},
        {"start_ns": 2**63},
        {"end_ns": -(2**63) - 1},
    ],
)
def test_a_span_that_no_database_holds_is_refused_with_all_others(
    store: Store, fields: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match="cannot be stored"):
        store.spans.put([live(), live(**fields)])
    with pytest.raises(InputError, match="cannot be stored"):
        store.spans.put([live(), live(agent="a" * 201)])
    assert store.spans.agents() == []


def test_text_that_no_database_holds_is_replaced(store: Store) -> None:
    odd = "a\x00b\ud800"
    store.spans.put([live(odd, trace_id=odd, name=odd, message=odd, attributes={odd: odd})])
    ((kept,), _) = store.spans.live("a\ufffdb\ufffd")
    assert (kept.trace_id, kept.name, kept.message) == ("a\ufffdb\ufffd",) * 3
    assert kept.attributes == {"a\x00b\ufffd": "a\x00b\ufffd"}


def test_nothing_stays_of_spans_that_could_not_be_written(store: Store) -> None:
    add_rollouts(store, "r")

    def fail(connection: Any, cursor: Any, sql: str, *_: Any) -> None:
        if sql.startswith("UPDATE rollouts"):
            raise StoreError("The disk is full.")

    event.listen(store._database.engine, "before_cursor_execute", fail)
    with pytest.raises(StoreError, match="disk is full"):
        store.spans.put([live(), of_rollout(cost_usd=1.0)])
    event.remove(store._database.engine, "before_cursor_execute", fail)
    assert (store.spans.agents(), store.spans.of("r"), cost(store)) == ([], [], 0.0)


def test_pages_of_an_agents_spans_newest_first(store: Store) -> None:
    add_rollouts(store, "r")
    mine = [live() for _ in range(5)]
    store.spans.put([each for one in mine for each in (one, live("other"), of_rollout())])
    newest = [each.span for each in reversed(mine)]
    first, cursor = store.spans.live("bot", 2)
    assert first == newest[:2]
    store.spans.put([live()])
    second, cursor = store.spans.live("bot", 2, cursor)
    assert second == newest[2:4]
    assert store.spans.live("bot", 2, cursor) == (newest[4:], None)
    assert store.spans.live("nobody") == ([], None)
    assert store.spans.live("") == ([], None)
    for cursor in ("x", "-1", "9" * 30, "٣"):
        with pytest.raises(InputError, match="does not belong to a page of spans"):
            store.spans.live("bot", 2, cursor)


def test_old_live_spans_are_pruned_in_steps_and_no_others(store: Store) -> None:
    add_rollouts(store, "r")
    old = [live(agent, end_ns=50) for agent in "abab"]
    new = [live(agent, end_ns=200) for agent in "ab"]
    store.spans.put([*old, *new, of_rollout(end_ns=50)])
    assert store.spans.prune(100, 3) == 3
    assert store.spans.prune(100, 3) == 1
    assert store.spans.prune(100, 3) == 0
    assert [len(store.spans.live(agent)[0]) for agent in "ab"] == [1, 1]
    assert len(store.spans.of("r")) == 1


def test_two_writers_of_the_same_spans_store_and_pay_for_them_once(store: Store) -> None:
    add_rollouts(store, "r")
    records = [of_rollout(cost_usd=0.5) if number % 2 else live() for number in range(200)]
    stored: list[int] = []
    together = threading.Barrier(4)

    def write() -> None:
        together.wait(60)
        stored.append(store.spans.put(records))

    at_once(*[write] * 4)
    assert sorted(stored) == [0, 0, 0, 200]
    assert cost(store) == 50.0


def test_an_index_answers_every_question(disk: Store) -> None:
    store = disk
    add_rollouts(store, "r")
    store.spans.put([live(end_ns=1), of_rollout()])
    with asked(store) as statements:
        store.spans.live("bot", 10, "55")
        store.spans.of_trace("t")
        store.spans.of("r")
        store.spans.agents()
        store.spans.prune(10)
    raw = store._database.engine.raw_connection()
    assert len(statements) == 7
    for sql, values in statements:
        for row in raw.cursor().execute(f"EXPLAIN QUERY PLAN {sql}", values):
            assert not row[3].startswith("SCAN spans"), sql
    raw.close()


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.integers(0, 6), st.sampled_from(["", "r", "gone"]), st.sampled_from([0, 1])
            ),
            max_size=80,
        ),
        max_size=4,
    )
)
def test_whatever_comes_twice_each_span_is_there_and_paid_for_once(
    tmp_path_factory: pytest.TempPathFactory,
    sqlite_template: Path,
    batches: list[list[tuple[int, str, int]]],
) -> None:
    path = tmp_path_factory.mktemp("spans") / "s.db"
    path.write_bytes(sqlite_template.read_bytes())
    with Store.open(f"sqlite:///{path}") as store:
        add_rollouts(store, "r")
        seen: set[tuple[str, int]] = set()
        paid = 0
        for batch in batches:
            records = [
                SpanRecord(
                    span=Span(
                        trace_id="t",
                        span_id=str(id),
                        name="n",
                        start_ns=id,
                        end_ns=id,
                        attributes={"ratchet.cost_usd": dollars} if dollars else {},
                    ),
                    rollout_id=rollout_id,
                    fence=1,
                    agent="bot",
                )
                for id, rollout_id, dollars in batch
            ]
            before = len(seen)
            for id, rollout_id, dollars in batch:
                key = ("r" if rollout_id == "r" else "live", id)
                if key not in seen:
                    seen.add(key)
                    paid += dollars if rollout_id == "r" else 0
            assert store.spans.put(records) == len(seen) - before
        assert len(store.spans.of("r")) == sum(1 for where, _ in seen if where == "r")
        assert len(store.spans.of(None)) == sum(1 for where, _ in seen if where == "live")
        assert cost(store) == paid
