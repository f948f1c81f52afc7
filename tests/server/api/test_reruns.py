"""Running a rollout or a live trace again over HTTP: who serves it, cancel, and the comparison."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ratchet._http import httpx2
from ratchet.observe.redaction import MARK_START
from ratchet.store import Store
from ratchet.types import Span, SpanRecord
from tests.server.api.conftest import ok, report
from tests.serving import RunningServer

TRACE = "ab" * 16


def span(number: int, parent: int | None, name: str, took: int, **more: Any) -> Span:
    """A span of the trace."""
    begun = 10**18 + number
    return Span(
        trace_id=TRACE,
        span_id=f"{number:016x}",
        parent_id=None if parent is None else f"{parent:016x}",
        name=name,
        start_ns=begun,
        end_ns=begun + took,
        **more,
    )


def put_trace(server: RunningServer, asked: str = "Where is my parcel?", **more: Any) -> None:
    """A live trace of the agent `support` with one model call."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.input.messages": json.dumps(
            [{"role": "user", "parts": [{"type": "text", "content": asked}]}]
        ),
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": "On its way."}]}]
        ),
        **more,
    }
    spans = [
        span(1, None, "invoke_agent support", 10**9),
        span(2, 1, "chat", 10**8, attributes=attributes),
    ]
    with Store.open(server.store_url) as store:
        store.spans.put([SpanRecord(span=each, agent="support") for each in spans])


def claim(http: httpx2.Client, queue: str) -> list[Any]:
    body = {"worker": "host/1/1", "queue": queue}
    found: list[Any] = ok(http.post("/v1/rollouts/claim", json=body))["claims"]
    return found


def finish(http: httpx2.Client, claimed: Any, output: str) -> None:
    id, times = claimed["rollout"]["id"], {"ended_at": 3.0, "duration_s": 2.0}
    ended = report(id, fence=claimed["fence"], output=output, **times)
    ok(http.post("/v1/rollouts/finish", json={"outcomes": [ended]}))


def test_a_live_trace_waits_in_its_agents_queue_and_is_compared_when_a_runner_has_run_it(
    server: RunningServer, http: httpx2.Client
) -> None:
    put_trace(server)
    place = ok(http.get("/v1/reruns/place", params={"trace": TRACE}))
    assert place == {"queue": "support", "runners": [], "others": [], "problem": ""}
    made = ok(http.post("/v1/reruns", json={"trace": TRACE, "id": "again"}))
    assert made == {"rollout_id": "again", "queue": "support", "runners": []}
    assert ok(http.post("/v1/reruns", json={"trace": TRACE, "id": "again"})) == made  # once
    (claimed,) = claim(http, "support")
    assert claimed["rollout"]["input"] == "Where is my parcel?"
    assert ok(http.get("/v1/reruns/place", params={"trace": TRACE}))["runners"] == ["host/1/1"]
    finish(http, claimed, "Delivered.")
    found = ok(http.get("/v1/reruns/again"))
    assert (found["original"]["output"], found["rerun"]["output"]) == ("On its way.", "Delivered.")
    assert (found["original"]["duration_s"], found["rerun"]["duration_s"]) == (1.0, 2.0)
    assert found["original"]["trace_id"] == TRACE
    assert claim(http, "support") == []


def test_a_rollout_runs_again_as_it_was_and_is_taken_back_while_it_waits(
    http: httpx2.Client,
) -> None:
    old = {
        "id": "old",
        "input": 7,
        "expected": 49,
        "task_id": "t",
        "seed": 5,
        "metadata": {"k": 1},
        "queue": "squares",
        "purpose": "eval",
    }
    ok(http.post("/v1/rollouts", json={"rollouts": [old]}))
    made = ok(http.post("/v1/reruns", json={"rollout": "old"}))
    new = ok(http.get(f"/v1/rollouts/{made['rollout_id']}"))
    kept = ("input", "expected", "task_id", "seed", "metadata", "queue")
    assert {name: new[name] for name in kept} == {name: old[name] for name in kept}
    assert new["purpose"] == "rerun/rollout/old"
    ok(http.post("/v1/rollouts/cancel", json={"ids": [new["id"]]}))
    found = ok(http.get(f"/v1/reruns/{new['id']}"))
    assert (found["original"]["status"], found["rerun"]["status"]) == ("queued", "cancelled")
    ok(http.get("/v1/reruns/old"), 404)  # runs nothing again


def test_the_rerun_of_a_proofs_rollout_stays_hidden_from_learning(http: httpx2.Client) -> None:
    body = {"id": "p", "input": 1, "purpose": "prove/e1/test"}
    ok(http.post("/v1/rollouts", json={"rollouts": [body]}))
    made = ok(http.post("/v1/reruns", json={"rollout": "p", "queue": "elsewhere"}))
    new = ok(http.get(f"/v1/rollouts/{made['rollout_id']}"))
    assert (new["purpose"], new["queue"]) == ("prove/rerun/rollout/p", "elsewhere")


def test_runners_of_queues_that_begin_alike_serve_a_rerun_and_others_are_named(
    http: httpx2.Client,
) -> None:
    body = {"id": "r", "input": 1, "queue": "a:b@1/py3.12/plain/run"}
    ok(http.post("/v1/rollouts", json={"rollouts": [body]}))
    asked = {"worker": "host/2/2", "queues": ["default", "a:b@1/py3.12/plain/*"]}
    (claimed,) = ok(http.post("/v1/rollouts/claim", json=asked))["claims"]
    finish(http, claimed, "x")
    place = ok(http.get("/v1/reruns/place", params={"rollout": "r"}))
    assert (place["runners"], place["others"]) == (["host/2/2"], ["default"])


@pytest.mark.parametrize(
    ("asked", "more", "why"),
    [
        (f"My card is {MARK_START}card]", {}, "its input was redacted"),
        ("Where … [99 more characters]", {}, "its input was recorded in part only"),
        ("x", {"gen_ai.input.messages": "[]"}, "its input was not recorded"),
    ],
)
def test_a_trace_whose_input_is_not_as_it_was_says_so_and_is_not_queued(
    server: RunningServer, http: httpx2.Client, asked: str, more: dict[str, Any], why: str
) -> None:
    put_trace(server, asked, **more)
    assert why in ok(http.get("/v1/reruns/place", params={"trace": TRACE}))["problem"]
    assert why in ok(http.post("/v1/reruns", json={"trace": TRACE}), 422)["detail"]
