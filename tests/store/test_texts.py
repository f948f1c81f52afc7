"""Long texts of spans: each stored once, read back exactly, deleted when no span refers to them."""

from __future__ import annotations

import functools
import itertools
import json
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event, text
from tests.store.made import at_once, rollout, rows_of

from ratchet.store import Store
from ratchet.store.long_texts import MIN_TEXT
from ratchet.types import Span, SpanRecord

INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
OLD_NS, NEW_NS = 10 * 10**9, 1_000 * 10**9
BEFORE = 100.0
"""Spans that ended before this moment are pruned."""

_numbers = itertools.count(1)


def message(words: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": words}]}


SYSTEM = message("You are an agent. " * 100, "system")


def record(
    trace: str, messages: list[Any], *, end_ns: int = NEW_NS, rollout: str = "", **attributes: Any
) -> SpanRecord:
    """A model call with messages."""
    span = Span(
        trace_id=trace,
        span_id=f"{next(_numbers):016x}",
        name="chat",
        start_ns=end_ns - 1,
        end_ns=end_ns,
        attributes={INPUT: json.dumps(messages), **attributes},
    )
    return SpanRecord(span=span, agent="bot", rollout_id=rollout, fence=1 if rollout else 0)


def conversation(trace: str, calls: int, end_ns: int = NEW_NS) -> list[SpanRecord]:
    """Model calls that each carry the history."""
    history = [SYSTEM]
    records = []
    for number in range(calls):
        history = [*history, message(f"{trace} asks {number}. " * 20)]
        records.append(record(trace, history, end_ns=end_ns + number))
    return records


def prune(store: Store, before: float = BEFORE, limit: int = 500) -> int:
    """Prune live spans, and then texts, to the end; number of texts."""
    while store.spans.prune(int(before * 1e9), limit):
        pass
    deleted, after = 0, 0
    for _ in range(1_000):
        step = store.pruning.texts(before, after, limit)
        deleted += step.deleted
        if step.after is None:
            return deleted
        after = step.after
    raise AssertionError("it does not end")


def check_whole(store: Store) -> None:
    """No use lacks its text, no text lacks a use, and no trace of texts lacks a span."""
    for query in (
        "SELECT count(*) FROM text_uses u WHERE NOT EXISTS"
        " (SELECT 1 FROM texts t WHERE t.seq = u.text_seq)",
        "SELECT count(*) FROM texts t WHERE NOT EXISTS"
        " (SELECT 1 FROM text_uses u WHERE u.text_seq = t.seq)",
        "SELECT count(*) FROM text_uses u WHERE NOT EXISTS"
        " (SELECT 1 FROM text_traces t WHERE t.seq = u.trace_seq)",
        "SELECT count(*) FROM text_traces t WHERE NOT EXISTS (SELECT 1 FROM spans s WHERE"
        " s.rollout_seq = t.rollout_seq AND s.fence = t.fence AND s.trace_id = t.trace_id)",
    ):
        found = store._database.read(lambda c, query=query: c.scalar(text(query)))
        assert found == 0, query


def test_messages_that_each_call_resends_are_stored_once(store: Store) -> None:
    first, second = conversation("a" * 32, 8), conversation("b" * 32, 8)
    for one in (*first, *second):  # each in a transaction of its own
        store.spans.put([one])
    assert rows_of(store, "texts") == 1 + 8 + 8
    assert store.spans.of_trace("a" * 32) == [one.span for one in first]
    assert store.spans.of_trace("b" * 32) == [one.span for one in second]
    check_whole(store)


def test_what_all_spans_of_a_sender_share_is_stored_once_and_comes_back_first(
    store: Store,
) -> None:
    sender = {"service.name": "bot", "service.version": "1", "otel.scope.name": "x"}
    records = []
    for one in conversation("a" * 32, 3):
        attributes = {**sender, "n": 1, **one.span.attributes, "service.late": "l"}
        records.append(
            msgspec.structs.replace(
                one, span=msgspec.structs.replace(one.span, attributes=attributes)
            )
        )
    store.spans.put(records)
    found = store.spans.of_trace("a" * 32)
    assert [list(span.attributes.items()) for span in found] == [
        list(one.span.attributes.items()) for one in records
    ]
    assert rows_of(store, "texts") == 1 + 1 + 3


def test_every_way_to_read_spans_reads_their_long_texts(store: Store) -> None:
    store.rollouts.create([rollout("r")], 1.0)
    mine = record("a" * 32, [SYSTEM], rollout="r", **{"gen_ai.conversation.id": "c"})
    live = record("b" * 32, [SYSTEM, message("hello " * 300)])
    store.spans.put([mine, live])
    assert store.spans.of("r") == [mine.span]
    assert store.spans.of("r", 1) == [mine.span]
    assert store.spans.of_trace("a" * 32) == [mine.span]
    assert store.spans.live("bot")[0] == [live.span]
    detail = store.traces.get("b" * 32)
    assert detail is not None
    assert detail.spans == [live.span]
    log = store.conversations.log("c")
    assert log is not None
    assert [one.text for one in log.instructions] == ["You are an agent. " * 100]


_words = st.text(max_size=30) | st.sampled_from(
    ["x" * 3_000, "é\u2028\x00 ", "\\u0041 \\", "🦀" * 200]
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_words, inner, max_size=4),
    max_leaves=12,
)
_part = (
    st.builds(lambda c: {"type": "text", "content": c}, _words)
    | st.builds(lambda a: {"type": "tool_call", "id": "c", "name": "find", "arguments": a}, _json)
    | st.builds(
        lambda a: {"type": "tool_call_response", "id": "c", "response": json.dumps(a)}, _json
    )
)
_messages = st.lists(
    st.builds(
        lambda role, parts: {"role": role, "parts": parts},
        st.sampled_from(["system", "user", "assistant", "tool"]),
        st.lists(_part, max_size=3),
    ),
    max_size=6,
)
_written: tuple[Callable[[Any], str], ...] = (
    json.dumps,
    lambda value: json.dumps(value, ensure_ascii=False),
    lambda value: json.dumps(value, separators=(",", ":")),
    lambda value: json.dumps(value, indent=1),
    lambda value: f" {json.dumps(value)}\n",
    lambda value: json.dumps(value)[:-3],
    lambda value: json.dumps(json.dumps(value)),
)


@given(
    st.dictionaries(
        st.sampled_from(["", INPUT, OUTPUT, "gen_ai.tool.definitions", "service.name", "a.b"]),
        st.tuples(_messages | _json, st.sampled_from(_written)),
        max_size=4,
    )
)
def test_whatever_the_texts_are_they_come_back_exactly(
    store: Store, values: dict[str, tuple[Any, Callable[[Any], str]]]
) -> None:
    trace = f"{next(_numbers):032x}"
    attributes = {key: write(value) for key, (value, write) in values.items()}
    filler = {"ratchet.input": "long " * MIN_TEXT, "n": None, "listed": [1, "two"]}
    one = record(trace, [SYSTEM], **attributes, **filler)
    store.spans.put([one])
    (found,) = store.spans.of_trace(trace)
    assert list(found.attributes.items()) == list(one.span.attributes.items())


@pytest.mark.parametrize("messages", [[], [SYSTEM]])
def test_a_lone_surrogate_in_a_long_text_is_replaced_as_elsewhere(
    store: Store, messages: list[Any]
) -> None:
    said = "x" * MIN_TEXT + "\ud800"
    store.spans.put([record("a" * 32, messages, **{"ratchet.output": said})])
    (found,) = store.spans.of_trace("a" * 32)
    assert found.attributes["ratchet.output"] == "x" * MIN_TEXT + "\ufffd"


def test_pruning_deletes_the_texts_of_deleted_traces_and_keeps_shared_ones(store: Store) -> None:
    old, new = conversation("a" * 32, 5, OLD_NS), conversation("b" * 32, 5)
    store.spans.put([*old, *new])
    assert prune(store) == 5
    assert rows_of(store, "texts") == 1 + 5
    assert store.spans.of_trace("b" * 32) == [one.span for one in new]
    check_whole(store)
    assert prune(store, before=10_000.0) == 1 + 5
    assert [rows_of(store, table) for table in ("texts", "text_uses", "text_traces")] == [0, 0, 0]


def test_of_a_trace_pruned_in_part_only_the_texts_of_what_is_left_stay(store: Store) -> None:
    old = record("a" * 32, [SYSTEM, message("early " * 300)], end_ns=OLD_NS)
    new = record("a" * 32, [SYSTEM, message("late " * 300)])
    store.spans.put([old, new])
    assert prune(store) == 1
    assert store.spans.of_trace("a" * 32) == [new.span]
    assert rows_of(store, "texts") == 2
    check_whole(store)
    assert prune(store) == 0


def test_texts_of_rollouts_go_with_the_rollout(store: Store) -> None:
    for id in ("old", "kept"):
        over = {"status": "succeeded", "created_at": 1.0, "ended_at": 1.0}
        store.rollouts.create([rollout(id, **(over if id == "old" else {}))], 1.0)
    store.spans.put(
        [
            record("a" * 32, [SYSTEM, message(f"{id} " * 300)], end_ns=OLD_NS, rollout=id)
            for id in ("old", "kept")
        ]
    )
    assert prune(store) == 0
    assert store.pruning.rollouts(BEFORE).deleted == 2
    assert prune(store) == 1
    assert rows_of(store, "texts") == 2
    assert len(store.spans.of("kept")) == 1
    check_whole(store)


def test_a_span_that_is_deleted_while_it_is_read_is_read_wholly_or_not_at_all(
    store_url: str,
) -> None:
    one = record("a" * 32, [SYSTEM], end_ns=OLD_NS, **{"gen_ai.conversation.id": "c"})
    with Store.open(store_url) as reader, Store.open(store_url) as pruner:
        for read in (
            lambda: reader.spans.of_trace("a" * 32),
            lambda: getattr(reader.traces.get("a" * 32), "spans", []),
            lambda: [m.text for m in getattr(reader.conversations.log("c"), "instructions", [])],
        ):
            pruner.spans.put([one])
            whole = read()
            assert whole

            def prune_between(*arguments: Any) -> None:
                if "FROM texts" in arguments[2]:
                    prune(pruner)

            event.listen(reader._database.engine, "before_cursor_execute", prune_between)
            assert read() in ([], whole)
            event.remove(reader._database.engine, "before_cursor_execute", prune_between)
            assert rows_of(pruner, "spans") == rows_of(pruner, "texts") == 0


def test_texts_are_pruned_in_steps_of_so_many_traces(store: Store) -> None:
    for number in range(7):
        store.spans.put(conversation(f"{number:032x}", 2, OLD_NS))
    while store.spans.prune(int(BEFORE * 1e9)):
        pass
    step = store.pruning.texts(BEFORE, 0, 3)
    assert step.deleted == 3 * 2
    assert step.after is not None
    assert prune(store, limit=3) == 4 * 2 + 1
    check_whole(store)


def test_nothing_dangles_and_nothing_is_left_when_spans_come_while_others_are_pruned(
    store_url: str,
) -> None:
    shared = [SYSTEM, *(message(f"shared {number} " * 60) for number in range(4))]
    kept: list[SpanRecord] = []
    started = threading.Barrier(4)
    writers = threading.Semaphore(0)

    def write(store: Store, name: int) -> None:
        started.wait(60)
        try:
            for number in range(25):
                trace = f"{name:016x}{number:016x}"
                old = record(trace, [*shared, message(f"{trace} old " * 60)], end_ns=OLD_NS)
                new = record(trace, [*shared, message(f"{trace} new " * 60)])
                # In every order: the shared texts lose their last use and are used again.
                store.spans.put([old] if number % 3 else [new, old])
                if not number % 3:
                    kept.append(new)
        finally:
            writers.release()

    def sweep(store: Store) -> None:
        started.wait(60)
        ended = 0
        while ended < 3:
            ended += writers.acquire(blocking=False)
            prune(store, limit=5)

    stores = [Store.open(store_url) for _ in range(4)]
    writing = [functools.partial(write, stores[n], n) for n in range(3)]
    at_once(*writing, functools.partial(sweep, stores[3]))
    prune(stores[0])
    check_whole(stores[0])
    for one in kept:
        assert stores[0].spans.of_trace(one.span.trace_id) == [one.span]
    assert rows_of(stores[0], "texts") == len(shared) + len(kept)
    for store in stores:
        store.close()


@pytest.mark.postgres
def test_a_text_stays_that_a_running_transaction_is_about_to_refer_to(postgres_url: str) -> None:
    old = conversation("a" * 32, 2, OLD_NS)
    new = record("b" * 32, json.loads(old[1].span.attributes[INPUT]))
    written, pruned = threading.Event(), threading.Event()
    with Store.open(postgres_url) as store, Store.open(postgres_url) as writer:
        store.spans.put(old)
        while store.spans.prune(int(BEFORE * 1e9)):
            pass

        @event.listens_for(writer._database.engine, "commit")
        def wait(_: Any) -> None:
            written.set()
            pruned.wait(60)

        thread = threading.Thread(target=lambda: writer.spans.put([new]))
        thread.start()
        assert written.wait(60)
        assert store.pruning.texts(BEFORE) == (0, None)
        pruned.set()
        thread.join()
        assert store.spans.of_trace("b" * 32) == [new.span]
        assert prune(store) == 0
        check_whole(store)


@pytest.mark.postgres
def test_stores_that_meet_with_the_same_new_texts_store_them_once(postgres_url: str) -> None:
    messages = [message(f"same {number} " * 40) for number in range(60)]
    started = threading.Barrier(4)

    def write(number: int) -> None:
        ordered = messages[:: 1 if number % 2 else -1]
        with Store.open(postgres_url) as store:
            started.wait(60)
            store.spans.put([record(f"{number:032x}", ordered)])

    at_once(*(functools.partial(write, number) for number in range(4)))
    with Store.open(postgres_url) as store:
        assert rows_of(store, "texts") == len(messages)
        check_whole(store)


@pytest.mark.postgres
def test_transactions_lock_new_texts_in_one_order_and_so_never_each_other(
    postgres_url: str,
) -> None:
    with Store.open(postgres_url) as store:
        store.spans.put([record("a" * 32, [message(f"{number} " * 80) for number in range(60)])])
        query = text("SELECT hash FROM texts ORDER BY seq")
        stored = store._database.read(lambda c: [bytes(each) for each in c.scalars(query)])
        assert stored == sorted(stored)
