"""What a rollout costs: who may say so, until when, and which claims are none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from ratchet._http import httpx2
from ratchet.store import Store
from ratchet.types import Outcome, Rollout, Span, SpanRecord
from tests.server.api.conftest import report
from tests.server.otlp.requests import JSON, PROTOBUF, encoded, rejected, request, span
from tests.serving import RunningServer

SPAN = {"trace_id": "1" * 32, "span_id": "2" * 16, "name": "chat", "start_ns": 1, "end_ns": 2}
NAMED = {"ratchet.rollout.id": "r", "ratchet.attempt": 1}


class Attempt:
    """The first attempt at a rollout `r`, which runs at a server."""

    def __init__(self, server: RunningServer, store: Store, *, attempts: int = 1) -> None:
        self.server, self.store = server, store
        store.rollouts.create([rollout("r", attempts)], 1.0)
        with server.client() as http:
            answer = http.post("/v1/rollouts/claim", json={"queue": "q", "worker": "w"})
        self.claim: dict[str, Any] = answer.json()["claims"][0]

    @property
    def token(self) -> str:
        return str(self.claim["token"])

    def send(self, *spans: dict[str, Any], key: str = "") -> httpx2.Response:
        """Send spans as OTLP, with the attempt's token or with another key."""
        headers = {"authorization": f"Bearer {key or self.token}", "content-type": PROTOBUF}
        with self.server.client() as http:
            return http.post(
                "/v1/traces", content=encoded(request(*spans), PROTOBUF), headers=headers
            )

    @property
    def cost_usd(self) -> float | None:
        return self.store.rollouts.get(["r"])["r"].cost_usd

    def end(self, how: str) -> None:
        """End it in one of the ways in which an attempt ends."""
        ends: dict[str, Callable[[], object]] = {
            "finished": lambda: self.store.rollouts.finish([outcome()], 2.0),
            "failed, to be repeated": lambda: self.store.rollouts.finish([outcome("failed")], 2.0),
            "released": lambda: self.store.rollouts.release([("r", 1)], 2.0),
            "cancelled": lambda: self.store.rollouts.cancel(["r"], 2.0),
            "expired": lambda: self.store.rollouts.expire(2.0, dead_workers=["w"]),
            "claimed again": lambda: self._again(),
        }
        ends[how]()

    def _again(self) -> None:
        self.store.rollouts.release([("r", 1)], 2.0)
        assert self.store.rollouts.claim("q", "other", 1, 60.0, time.time())[0].fence == 2


def rollout(id: str, attempts: int = 1) -> Rollout:
    return Rollout(
        id=id,
        queue="q",
        candidate_id="",
        task_id="",
        input=1,
        purpose="",
        max_attempts=attempts,
    )


def outcome(status: str = "succeeded") -> Outcome:
    return msgspec.convert(report("r", status), Outcome)


def priced(cost: Any, **fields: Any) -> dict[str, Any]:
    return span({"ratchet.cost_usd": cost}, **fields)


@pytest.fixture
def server(sqlite_url: str, serving: Callable[..., RunningServer]) -> RunningServer:
    return serving(sqlite_url)


@pytest.fixture
def stored(sqlite_url: str) -> Iterator[Store]:
    with Store.open(sqlite_url) as store:
        yield store


@pytest.mark.parametrize("scopes", [(), ("ingest",), ("admin",)], ids=["none", "ingest", "admin"])
def test_a_key_puts_nothing_into_a_rollout(
    server: RunningServer, stored: Store, scopes: tuple[str, ...]
) -> None:
    attempt = Attempt(server, stored, attempts=2)
    key = stored.keys.create("other", scopes, 1.0)[1] if scopes else "sk-none"
    answer = attempt.send(priced(5.0), span({**NAMED, "ratchet.cost_usd": 5.0}), key=key)
    count, why = rejected(answer.content, PROTOBUF)
    assert (answer.status_code, count) == (200, 1)
    assert "belong to an attempt and came without its token" in why
    with server.client(key if scopes else "") as http:
        record = {"span": SPAN, "rollout_id": "r", "fence": 1}
        answer = http.post("/v1/spans", json={"records": [record]})
    assert answer.status_code == 422
    assert attempt.cost_usd == 0.0
    assert stored.spans.of("r") == []


@pytest.mark.parametrize(
    "how",
    ["finished", "failed, to be repeated", "released", "cancelled", "expired", "claimed again"],
)
def test_a_token_sends_while_its_attempt_runs_and_never_after(
    server: RunningServer, stored: Store, how: str
) -> None:
    attempt = Attempt(server, stored, attempts=2)
    assert rejected(attempt.send(priced(0.25)).content, PROTOBUF) == (0, "")
    attempt.end(how)
    answer = attempt.send(priced(5.0), span())
    count, why = rejected(answer.content, PROTOBUF)
    assert (answer.status_code, count) == (200, 2)
    assert "belong to an attempt that is not running" in why
    assert attempt.cost_usd == 0.25
    assert len(stored.spans.of("r")) == 1
    with server.client() as http:
        assert 'ratchet_spans_total{outcome="refused"} 2.0' in http.get("/metrics").text


def test_what_was_refused_of_one_batch_is_told_to_those_who_sent_it(store: Store) -> None:
    store.rollouts.create([rollout("r"), rollout("s")], 1.0)
    store.rollouts.claim("q", "w", 2, 60.0, time.time())
    store.rollouts.finish([outcome()], 2.0)
    sent = [
        SpanRecord(span=Span(**{**SPAN, "span_id": f"{n:016x}"}), rollout_id=id, fence=1, claimed=c)
        for n, (id, c) in enumerate([("s", True), ("r", True), ("r", False), ("t", True)])
    ]
    received = store.spans.receive(sent)
    assert (received.new, received.refused, received.late) == (2, (1, 3), 1)
    (late,) = store.spans.of("r")
    assert late.attributes == {"ratchet.late": True}


@pytest.mark.parametrize("cost", [-0.001, 1e10, float("inf"), float("nan"), True, "0.5", {}])
def test_a_claimed_cost_that_is_no_number_of_dollars_is_refused(
    server: RunningServer, stored: Store, cost: Any
) -> None:
    attempt = Attempt(server, stored)
    for media_type in (PROTOBUF, JSON):
        headers = {"content-type": media_type, "authorization": f"Bearer {attempt.token}"}
        body = encoded(request(priced(cost), span()), media_type)
        with server.client() as http:
            answer = http.post("/v1/traces", content=body, headers=headers)
        count, why = rejected(answer.content, media_type)
        assert count == 1
        assert "have a cost that is not a number of dollars" in why
    if cost == cost and cost != float("inf"):  # JSON has neither
        record = {**SPAN, "attributes": {"ratchet.cost_usd": cost}}
        with server.client() as http:
            alone = http.post("/v1/spans", json={"records": [{"span": record}]})
            reported = http.post(
                "/v1/rollouts/finish", json={"outcomes": [report("r", spans=[record])]}
            )
        assert [alone.status_code, reported.status_code] == [422, 422]
        assert "ratchet.cost_usd" in alone.json()["errors"][0]["field"]
    assert attempt.cost_usd == 0.0


@pytest.mark.parametrize("count", [True, "1000", -5, float("nan"), float("inf")])
def test_a_claimed_number_of_tokens_that_is_none_costs_an_unknown_amount(
    server: RunningServer, stored: Store, count: Any
) -> None:
    attempt = Attempt(server, stored)
    call = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini"}
    used = {"gen_ai.usage.input_tokens": count, "gen_ai.usage.output_tokens": 1}
    attempt.send(span({**call, **used}))
    assert attempt.cost_usd is None


def test_a_claim_that_was_made_is_not_changed_by_another(
    server: RunningServer, stored: Store
) -> None:
    attempt = Attempt(server, stored)
    first = priced(1.0)
    attempt.send(first)
    attempt.send({**first, "attributes": priced(0.0)["attributes"]})
    assert attempt.cost_usd == 1.0
    # A span of another trace has the same id, or names it as its parent: it is another call.
    attempt.send({**priced(2.0), "span_id": first["span_id"]})
    attempt.send(priced(4.0, parent_span_id=first["span_id"]))
    assert attempt.cost_usd == 7.0


@pytest.mark.parametrize(
    "named",
    [
        {**NAMED, "ratchet.attempt": 2},
        {**NAMED, "ratchet.rollout.id": "s"},
        {"ratchet.rollout.id": "s"},
        {"ratchet.rollout.id": 5},
    ],
)
def test_a_token_claims_nothing_for_another_attempt(
    server: RunningServer, stored: Store, named: dict[str, Any]
) -> None:
    attempt = Attempt(server, stored)
    stored.rollouts.create([rollout("s")], 2.0)
    count, why = rejected(attempt.send(span({**named, "ratchet.cost_usd": 1.0})).content, PROTOBUF)
    assert count == 1
    assert "belong to an attempt other than the token's" in why
    assert attempt.cost_usd == stored.rollouts.get(["s"])["s"].cost_usd == 0.0
