"""What model calls cost: each counts once, whoever recorded it, and an unknown price stays so."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from tests.store import made

from ratchet.llm import price, with_price
from ratchet.store import Store
from ratchet.store.usage import total, used_in
from ratchet.types import Claim, Cost, Outcome, Rollout, Span, SpanRecord

COST = "ratchet.cost_usd"


def call(
    id: str,
    parent: str | None = None,
    *,
    usd: float | None = None,
    model: str = "gpt-4o",
    tokens: tuple[int, int] | None = (100, 20),
    gateway: bool = False,
    operation: str = "chat",
    **fields: Any,
) -> Span:
    """A span of a model call."""
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": operation,
        "gen_ai.request.model": model,
    }
    if tokens is not None:
        attributes["gen_ai.usage.input_tokens"], attributes["gen_ai.usage.output_tokens"] = tokens
    if usd is not None:
        attributes[COST] = usd
    if gateway:
        attributes["ratchet.upstream"] = "openai"
    return step(id, parent, attributes=attributes, **fields)


def step(id: str, parent: str | None = None, **fields: Any) -> Span:
    """A span of something else."""
    given = {"trace_id": "t", "span_id": id, "parent_id": parent, "name": id, **fields}
    return Span(**{"start_ns": 1, "end_ns": 2, **given})


def cost(*spans: Span) -> Cost:
    """What the model calls in these spans cost, in whatever order they come."""
    mixed = random.Random(len(spans)).sample(spans, len(spans))
    found = []
    for some in (spans, mixed):
        used = [one for span in some if (one := used_in(span)) is not None]
        found.append(total(used, {span.span_id: span.parent_id for span in some}).cost)
    assert found[0] == found[1]
    return found[0]


def test_a_span_of_the_users_own_around_several_calls_counts_them_once() -> None:
    mine = call("mine", usd=0.3, operation="step")
    between = [step("http", "mine"), step("retry", "http")]
    calls = [call("one", "retry", usd=0.1), call("two", "http", usd=0.2)]
    assert cost(mine, *between, *calls).usd == pytest.approx(0.3)


def test_the_gateways_record_of_a_call_counts_and_the_clients_does_not() -> None:
    client = call("client", "agent", usd=0.25)
    below = call("gate", "client", usd=0.26, gateway=True)
    assert cost(step("agent"), client, below).usd == 0.26
    beside = call("gate", "attempt", usd=0.26, model="gpt-4o-2024-08-06", gateway=True)
    assert cost(step("agent"), client, beside).usd == 0.26


def test_a_framework_a_client_library_and_the_gateway_tell_of_one_call() -> None:
    chain, client = call("chain", usd=0.26), call("client", "chain", usd=0.26)
    assert cost(chain, client, call("g", usd=0.26, gateway=True)).usd == 0.26


def test_a_stream_whose_tokens_only_one_side_saw_is_one_call() -> None:
    blind = call("c", tokens=None)
    assert cost(blind, call("g", usd=0.26, gateway=True)).usd == 0.26
    assert cost(call("c", usd=0.26), call("g", tokens=None, gateway=True)).usd == 0.26


def test_a_call_whose_price_is_unknown_makes_the_cost_unknown() -> None:
    found = cost(call("a", usd=0.5), call("b", model="own"), call("c", model="own"))
    assert (found.usd, found.known_usd, found.unpriced) == (None, 0.5, {"own": 2})


def test_a_call_that_failed_before_it_used_tokens_costs_nothing() -> None:
    assert cost(call("a", tokens=None, status="error")) == Cost()


@pytest.mark.parametrize(
    "begun",
    [
        {"gen_ai.output.messages": '[{"role":"assistant","parts":[]}]'},
        {"gen_ai.response.time_to_first_chunk": 0.2},
        {"ratchet.broken_off": True},
    ],
)
@pytest.mark.parametrize("tokens", [{}, {"gen_ai.usage.input_tokens": 9}])
def test_a_call_that_failed_after_its_answer_began_has_an_unknown_cost(
    begun: dict[str, Any], tokens: dict[str, int]
) -> None:
    failed = call("a", tokens=None, status="error")
    failed = msgspec.structs.replace(failed, attributes={**failed.attributes, **begun, **tokens})
    assert cost(failed).unpriced == {"gpt-4o": 1}
    used = used_in(failed)
    assert used is not None
    assert price(used.call) is None


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            {"gen_ai.request.stream": True},
            'the stream reports no usage; it does with stream_options={"include_usage": true}',
        ),
        ({}, "the call reports no tokens"),
        ({"ratchet.broken_off": True}, "the call broke off before its usage was reported"),
        (
            {"gen_ai.usage.input_tokens": 9},
            "the price of the model is unknown; set it under [prices] in ratchet.toml",
        ),
    ],
)
def test_a_call_without_a_cost_says_what_would_give_it_one(
    store: Store, more: dict[str, Any], why: str
) -> None:
    unmeasured = call("c", tokens=None, model="own")
    unmeasured = msgspec.structs.replace(unmeasured, attributes={**unmeasured.attributes, **more})
    store.spans.put([SpanRecord(span=unmeasured, agent="bot")])
    found = store.traces.skeleton("t", price=price)
    assert found is not None
    assert [span.unmeasured for span in found.spans] == [why]


def test_of_two_records_the_one_that_knows_its_price_counts() -> None:
    assert cost(call("a", usd=0.5), call("b", "a", model="alias")).usd == 0.5
    assert cost(call("a", model="alias"), call("b", "a", usd=0.5)).usd == 0.5
    assert cost(call("a", model="x"), call("b", "a", model="x")).unpriced == {"x": 1}


def test_an_agents_sum_counts_only_where_no_call_is_recorded() -> None:
    whole = call("agent", usd=0.7, operation="invoke_agent")
    assert cost(whole, call("a", "agent", usd=0.3), call("b", usd=0.4)).usd == pytest.approx(0.7)
    assert cost(whole).usd == 0.7


def test_spans_that_are_their_own_ancestors_are_counted_once_each() -> None:
    ring = [call("a", "b", usd=0.1), call("b", "c", usd=0.2), step("c", "a")]
    assert cost(*ring).usd in (pytest.approx(0.1), pytest.approx(0.2))
    assert cost(call("a", "a", usd=0.1)).usd == 0.1


def rollout(store: Store, id: str = "r") -> Rollout:
    return store.rollouts.get([id])[id]


def begin(store: Store, *, attempts: int = 2) -> Claim:
    """A rollout that runs."""
    store.rollouts.create([made.rollout("r", max_attempts=attempts)], 1.0)
    return claim(store)


def claim(store: Store) -> Claim:
    (claimed,) = store.rollouts.claim("q", "w", 1, 60.0, 1.0)
    return claimed


def finish(store: Store, claimed: Claim, *spans: Span, **fields: Any) -> None:
    given = {"status": "succeeded", "started_at": 1.0, "ended_at": 2.0, "duration_s": 1.0}
    outcome = Outcome(rollout_id="r", fence=claimed.fence, spans=spans, **{**given, **fields})
    assert store.rollouts.finish([outcome], 2.0)["r", claimed.fence] is not None


def through_gateway(store: Store, claimed: Claim, *spans: Span) -> None:
    store.spans.put([SpanRecord(span=s, rollout_id="r", fence=claimed.fence) for s in spans])


@pytest.mark.parametrize("gateway_first", [True, False])
def test_a_call_through_the_gateway_from_an_instrumented_worker_is_billed_once(
    store: Store, gateway_first: bool
) -> None:
    claimed = begin(store)
    seen = call("g", usd=0.26, gateway=True, trace_id="of the attempt")
    if gateway_first:
        through_gateway(store, claimed, seen)
    finish(store, claimed, step("agent"), call("client", "agent", usd=0.26))
    if not gateway_first:
        through_gateway(store, claimed, seen)
    assert rollout(store).cost_usd == 0.26


def test_a_rollout_with_an_unpriced_call_has_no_cost_but_what_is_known(store: Store) -> None:
    broken = call("b", status="error")
    broken = msgspec.structs.replace(
        broken, attributes={**broken.attributes, "ratchet.broken_off": True}
    )
    finish(store, begin(store), call("a", usd=0.25), call("c", model="own"), with_price(broken))
    found = rollout(store)
    unpriced = {"own": 1, "gpt-4o": 1}
    assert (found.cost_usd, found.known_usd, found.unpriced) == (None, 0.25, unpriced)
    assert store.rollouts.cost() == Cost(known_usd=0.25, unpriced=unpriced)


def test_a_cost_that_a_runner_reports_as_unknown_stays_unknown(store: Store) -> None:
    finish(store, begin(store), status="failed", cost_usd=None)
    finish(store, claim(store), call("a", usd=0.25), cost_usd=0.5)
    found = rollout(store)
    assert (found.cost_usd, found.unpriced) == (None, {"": 1})
    assert store.rollouts.cost().usd is None


def test_costs_of_several_rollouts_add_up_to_at_least_what_is_known(store: Store) -> None:
    known = {"cost_usd": None, "known_usd": 0.25, "unpriced": {"own": 3}}
    ended = [made.rollout("a", cost_usd=0.5), made.rollout("b", **known)]
    store.rollouts.create(ended, 1.0)
    assert rollout(store, "b") == msgspec.structs.replace(ended[1], created_at=1.0)
    found = store.rollouts.cost(queue="q")
    assert (found.usd, found.known_usd, found.unpriced) == (None, 0.75, {"own": 3})
    assert str(found) == "at least $0.7500, 3 calls unpriced"
    assert store.rollouts.cost(queue="none") == Cost()
