"""Transitions: what was stored comes back token by token, and calls find what they continue."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import msgspec
import pytest

from ratchet.store import Store
from ratchet.store.tables import transitions as table
from ratchet.types import (
    InputError,
    KeptTokens,
    Rollout,
    SamplingSettings,
    Span,
    SpanRecord,
    Transition,
    pack_floats,
    pack_ids,
)


def call(
    id: str,
    prompt: Sequence[int],
    response: Sequence[int],
    *,
    at: int,
    rollout: str = "r1",
    fence: int = 1,
    role: str = "",
    tokenizer: str = "t",
    **more: object,
) -> Transition:
    return Transition(
        id=id,
        rollout_id=rollout,
        fence=fence,
        role=role,
        model="m",
        tokenizer=tokenizer,
        prompt_ids=pack_ids(prompt),
        response_ids=pack_ids(response),
        logprobs=pack_floats([-0.5] * len(response)),
        started_ns=at,
        ended_ns=at + 5,
        **more,  # type: ignore[arg-type]
    )


def claimed(store: Store, *ids: str) -> None:
    now = time.time()
    store.rollouts.create(
        [Rollout(id=id, queue="q", candidate_id="", task_id="t", input="?") for id in ids], now
    )
    store.rollouts.claim("q", "w/1/1", len(ids), 60.0, now)


def tree(store: Store, rollout: str = "r1") -> dict[str, tuple[int, str | None]]:
    """Place and parent of each call."""
    return {
        one.id: (one.call_index, one.parent) for one in store.transitions.of([rollout])[rollout]
    }


def test_a_transition_comes_back_as_it_was(store: Store) -> None:
    claimed(store, "r1")
    given = call(
        "a",
        [1, 2, 151_936],
        [7, 8],
        at=10,
        role="planner",
        response_id="chatcmpl-1",
        version_first="v1",
        version_last="v2",
        template="tpl",
        sampling=SamplingSettings(temperature=1.0, top_p=1.0, top_k=-1, seed=7),
        finish_reason="stop",
    )
    store.transitions.add([given])
    store.transitions.add([given])
    assert store.transitions.of(["r1"]) == {"r1": [given]}
    same = msgspec.structs.replace(given, id="b", started_ns=20, version_last="v1")
    store.transitions.add([given, same])
    assert store.transitions.of(["r1"])["r1"][1] == msgspec.structs.replace(same, call_index=1)


def test_a_call_that_extends_an_earlier_one_continues_it_and_others_begin_branches(
    store: Store,
) -> None:
    claimed(store, "r1")
    store.transitions.add(
        [
            call("a", [1, 2], [3], at=1),
            call("b", [1, 2, 3, 4], [5], at=2),
            # The past is written anew, as by a template that strips a model's thoughts.
            call("c", [1, 2, 9, 4, 5, 6], [7], at=3),
            call("d", [1, 2, 3, 4, 5, 6], [8], at=4),
            call("e", [1, 2, 3, 40], [8], at=5),
        ]
    )
    assert tree(store) == {
        "a": (0, None),
        "b": (1, "a"),
        "c": (2, None),
        "d": (3, "b"),
        "e": (4, "a"),
    }


@pytest.mark.parametrize("other", [{"role": "critic"}, {"tokenizer": "u"}])
def test_another_role_or_tokenizer_begins_a_branch(store: Store, other: dict[str, str]) -> None:
    claimed(store, "r1")
    store.transitions.add([call("a", [1], [2], at=1), call("b", [1, 2, 3], [4], at=2, **other)])
    assert tree(store)["b"] == (1, None)


def test_the_longest_beginning_is_continued_and_of_equal_ones_the_latest(store: Store) -> None:
    claimed(store, "r1")
    store.transitions.add(
        [
            call("long", [1, 2, 3, 4], [5], at=1),
            call("first", [1], [2], at=2),
            call("again", [1], [2], at=3),
            call("x", [1, 2, 3, 4, 5, 6], [7], at=4),
            call("y", [1, 2, 8], [7], at=5),
        ]
    )
    found = tree(store)
    assert found["x"] == (3, "long")
    assert found["y"] == (4, "again")


def test_calls_find_what_they_continue_in_whatever_order_they_are_stored(store: Store) -> None:
    """Several servers store the calls of one attempt, and a refused batch comes later."""
    claimed(store, "r1", "r2")
    chance = random.Random(5)
    made: list[Transition] = []
    prompt = [chance.randrange(50_000) for _ in range(30)]
    for at in range(12):
        response = [chance.randrange(50_000) for _ in range(9)]
        made.append(call(f"c{at}", prompt, response, at=at))
        prompt = [*prompt, *response, *(chance.randrange(50_000) for _ in range(7))]
    for one in chance.sample(made, len(made)):
        store.transitions.add([one])
    found = store.transitions.of(["r1"])["r1"]
    assert [one.parent for one in found] == [None, *(f"c{at}" for at in range(11))]
    assert [(one.prompt_ids, one.response_ids) for one in found] == [
        (one.prompt_ids, one.response_ids) for one in made
    ]
    # In their order, each token of a conversation is stored once.
    store.transitions.add([msgspec.structs.replace(one, rollout_id="r2") for one in made])
    with store._database.engine.connect() as connection:
        rows = connection.execute(table.select().where(table.c.base != "")).all()
        second = [row for row in rows if row.rollout_seq == max(r.rollout_seq for r in rows)]
    assert [len(row.prompt) // 4 for row in second] == [7] * 11
    assert store.transitions.of(["r2"])["r2"][11].prompt_ids == made[11].prompt_ids


def test_dropped_calls_are_counted_by_reason_and_left_out(store: Store) -> None:
    claimed(store, "r1", "r2")
    dropped = Transition(
        id="b", rollout_id="r1", fence=1, started_ns=2, ended_ns=3, drop="no_logprobs"
    )
    store.transitions.add([call("a", [1, 2], [3], at=1), dropped, call("c", [4], [5], at=3)])
    assert tree(store) == {"a": (0, None), "c": (2, None)}
    kept = KeptTokens(transitions=2, prompt_tokens=3, response_tokens=2, dropped={"no_logprobs": 1})
    assert store.transitions.kept(["r1", "r2", "none"]) == {
        "r1": kept,
        "r2": KeptTokens(),
        "none": KeptTokens(),
    }


def test_what_does_not_fit_is_refused(store: Store) -> None:
    claimed(store, "r1")
    uneven = msgspec.structs.replace(call("a", [1], [2, 3], at=1), logprobs=pack_floats([-1.0]))
    with pytest.raises(InputError, match="2 response ids and 1 log-probabilities"):
        store.transitions.add([uneven])
    with pytest.raises(InputError, match="dropped"):
        store.transitions.add([msgspec.structs.replace(call("a", [1], [2], at=1), drop="x")])
    with pytest.raises(InputError, match="no rollout 'r9'"):
        store.transitions.add([call("a", [1], [2], at=1, rollout="r9")])
    assert store.transitions.of(["r1"]) == {"r1": []}


def test_many_rollouts_are_read_in_batches_that_fit(store: Store) -> None:
    ids = [f"r{n}" for n in range(9)]
    claimed(store, *ids)
    store.transitions.add(
        [call("a", range(90), range(10), at=1, rollout=id) for id in ids if id != "r4"]
    )
    batches = list(store.transitions.batches(["r8", *ids], size=3 * 100 * 8))
    assert [list(batch) for batch in batches] == [
        ["r8", "r0", "r1"],
        ["r2", "r3", "r4", "r5"],
        ["r6", "r7"],
    ]
    assert [len(batch[id]) for batch in batches for id in batch].count(1) == 8
    assert [list(batch) for batch in store.transitions.batches(ids[:2], size=1)] == [["r0"], ["r1"]]
    assert list(store.transitions.batches([])) == []


def reward(value: float, at: int, *, rollout: str = "r1", response_id: str = "") -> SpanRecord:
    attributes = {"ratchet.reward.value": value}
    if response_id:
        attributes["ratchet.reward.response_id"] = response_id  # type: ignore[assignment]
    span = Span(
        trace_id="a" * 32,
        span_id=f"{at:016x}",
        name="reward",
        start_ns=at,
        end_ns=at,
        attributes=attributes,
    )
    return SpanRecord(span=span, rollout_id=rollout, fence=1)


def test_rewards_belong_to_the_call_before_them_or_to_the_one_that_they_name(store: Store) -> None:
    claimed(store, "r1", "r2")
    store.transitions.add(
        [
            call("a", [1], [2], at=100, response_id="one"),
            call("b", [1], [2], at=200, response_id="two"),
            call("b.1", [1], [3], at=200, response_id="two"),
        ]
    )
    store.spans.put(
        [
            reward(9.0, at=50),  # before any call
            reward(0.25, at=103),
            reward(0.5, at=110),
            reward(-1.0, at=300),
            reward(4.0, at=400, response_id="one"),
            reward(8.0, at=400, response_id="none"),
        ]
    )
    assert store.transitions.call_rewards(["r1", "r2"]) == {"r1": {"a": 4.75, "b": -1.0}, "r2": {}}


def test_transitions_are_stored_with_the_span_of_their_call_or_not_at_all(store: Store) -> None:
    claimed(store, "r1")
    span = Span(trace_id="a" * 32, span_id="b" * 16, name="chat", start_ns=1, end_ns=2)
    good = call("b" * 16, [1], [2], at=1)
    bad = msgspec.structs.replace(good, logprobs=b"")
    with pytest.raises(InputError):
        store.spans.put([SpanRecord(span=span, rollout_id="r1", fence=1, transitions=(bad,))])
    assert (store.spans.of("r1"), store.transitions.of(["r1"])["r1"]) == ([], [])
    record = SpanRecord(span=span, rollout_id="r1", fence=1, transitions=(good,))
    elsewhere = SpanRecord(span=span, rollout_id="gone", fence=1, transitions=(good,))
    assert store.spans.put([record, record, elsewhere]) == 2
    assert store.spans.put([record]) == 0
    assert store.transitions.of(["r1"])["r1"] == [good]


def test_transitions_are_pruned_with_their_rollouts(store: Store) -> None:
    claimed(store, "r1", "r2")
    for id in ("r1", "r2"):
        store.transitions.add([call(f"{n}", [n], [n], at=n, rollout=id) for n in range(7)])
    store.rollouts.cancel(["r1"], time.time())
    before = time.time() + 1000.0
    after: int | None = 0
    deleted = []
    while after is not None:
        step = store.pruning.rollouts(before, after, limit=3)
        deleted.append(step.deleted)
        after = step.after
    assert sum(deleted) == 7 + 2  # with the rollout and its attempt
    with store._database.engine.connect() as connection:
        assert len(connection.execute(table.select()).all()) == 7
