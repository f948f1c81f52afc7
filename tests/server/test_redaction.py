"""What comes in by any way is redacted before it lies in the database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ratchet.observe.redaction import RedactionRules
from ratchet.server.gateway import Upstream
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from ratchet.types import ConfigError
from tests.observe.redaction import corpus
from tests.server.api.conftest import report
from tests.serving import RunningServer

PLANTED = list(corpus.planted(seed=5, rounds=1))
SECRET = "sk-proj-Ab3dEf7hIj1kLm5nOp9qRsT2"
MAIL = "ann@example.com"


def stored(url: str) -> str:
    """Every text in the database, and every text in JSON there."""
    path = url.removeprefix("sqlite:///")
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        names = [
            name
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        cells = [
            cell
            for name in names
            for row in database.execute(f"SELECT * FROM {name}")
            for cell in row
        ]
    return "\n".join(
        text for cell in cells if isinstance(cell, (str, bytes)) for text in leaves(cell)
    )


def leaves(cell: str | bytes) -> Iterator[str]:
    text = cell if isinstance(cell, str) else cell.decode("utf-8", "replace")
    yield text
    try:
        waiting = [json.loads(text)]
    except ValueError:
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value


def otlp(texts: list[str]) -> dict[str, Any]:
    """A request of one span a text, which stands in an attribute, in an event or in the message."""

    def pair(key: str, text: str) -> dict[str, Any]:
        return {"key": key, "value": {"stringValue": text}}

    def span(number: int, text: str) -> dict[str, Any]:
        deep = {"kvlistValue": {"values": [pair("deep", text)]}}
        failed = {"name": "exception", "attributes": [pair("exception.message", text)]}
        places: list[dict[str, Any]] = [
            {"attributes": [pair("gen_ai.input.messages", text), pair("n", "1")]},
            {"events": [failed]},
            {"status": {"code": 2, "message": text}},
            {"attributes": [{"key": "list", "value": {"arrayValue": {"values": [deep]}}}]},
        ]
        ids = {"traceId": f"{number + 1:032x}", "spanId": f"{number + 1:016x}"}
        times = {"startTimeUnixNano": "1", "endTimeUnixNano": "2"}
        return {**ids, "name": f"step {number}", **times, **places[number % 4]}

    spans = [span(number, text) for number, text in enumerate(texts)]
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


@pytest.mark.parametrize("way", ["OTLP", "the API"])
def test_no_planted_secret_reaches_the_database(server: RunningServer, way: str) -> None:
    records = [
        {"span": {**span(number), "attributes": {"ratchet.input": one.text}}, "agent": "helper"}
        for number, one in enumerate(PLANTED)
    ]
    with server.client() as client:
        if way == "OTLP":
            answer = client.post("/v1/traces", json=otlp([one.text for one in PLANTED]))
            assert answer.json() == {}
        for start in range(0, len(records) if way == "the API" else 0, 500):
            answer = client.post("/v1/spans", json={"records": records[start : start + 500]})
            assert answer.status_code == 200, answer.text
    found = stored(server.store_url)
    assert found.count("step ") >= len(PLANTED)
    assert found.count("[redacted:") >= len(PLANTED)
    assert [one for one in PLANTED if any(needle in found for needle in one.needles)] == []


def span(number: int) -> dict[str, Any]:
    ids = {"trace_id": f"{number + 1:032x}", "span_id": f"{number + 1:016x}"}
    return {**ids, "name": f"step {number}", "start_ns": 1, "end_ns": 2}


def test_a_call_through_the_gateway_is_redacted(
    serving: Callable[..., RunningServer], sqlite_url: str
) -> None:
    away = Upstream(name="openai", dialect="openai", base_url="http://127.0.0.1:9/v1")
    server = serving(sqlite_url, ServeSettings(port=0, upstreams=(away,)))
    with server.client() as client:
        answer = client.post(
            "/gateway/helper/openai/v1/chat/completions",
            json={"model": "m", "messages": [{"role": "user", "content": f"use {SECRET}"}]},
            headers={"authorization": f"Bearer {SECRET}"},
        )
        assert answer.status_code >= 500
    server.stop()
    found = stored(sqlite_url)
    assert "use [redacted:key]" in found
    assert SECRET not in found


def test_feedback_and_spans_of_rollouts_are_redacted_and_their_inputs_are_not(
    server: RunningServer,
) -> None:
    with server.client() as client:
        new = {"id": "r1", "input": {"ask": MAIL}, "queue": "q"}
        assert client.post("/v1/rollouts", json={"rollouts": [new]}).status_code == 200
        client.post("/v1/rollouts/claim", json={"worker": "w", "queue": "q"}).raise_for_status()
        called = {"gen_ai.tool.call.arguments": f'{{"api_key": "{SECRET}"}}'}
        outcome = report(
            "r1",
            output=f"wrote to {MAIL}",
            error=f"could not use {SECRET}",
            spans=[{**span(0), "attributes": called}],
        )
        answer = client.post("/v1/rollouts/finish", json={"outcomes": [outcome]})
        assert answer.json()["results"][0]["status"] == "succeeded"
        given = {"id": "f1", "kind": "comment", "rollout_id": "r1", "comment": f"ask {MAIL}"}
        assert client.post("/v1/feedback", json={"feedback": [given]}).status_code == 200
        assert client.get("/v1/feedback").json()["feedback"][0]["comment"] == "ask [redacted:email]"
        kept: dict[str, Any] = client.get("/v1/rollouts/r1").json()
    assert SECRET not in stored(server.store_url)
    # What the agent is to be scored by stays as it is: it is the user's own data.
    assert kept["input"] == {"ask": MAIL}
    assert kept["output"] == f"wrote to {MAIL}"


def test_content_can_be_left_out_altogether(
    serving: Callable[..., RunningServer], sqlite_url: str
) -> None:
    server = serving(
        sqlite_url, ServeSettings(port=0, redaction=RedactionRules(capture_content=False))
    )
    with server.client() as client:
        client.post("/v1/traces", json=otlp(["Book me a flight"] * 4))
    found = stored(sqlite_url)
    assert "Book me" not in found
    assert "step 3" in found


def test_a_project_s_own_rules_hold_at_the_server(
    serving: Callable[..., RunningServer], sqlite_url: str
) -> None:
    rules = RedactionRules(patterns={"staff": r"EMP-\d{6}"}, rules=("-email",))
    server = serving(sqlite_url, ServeSettings(port=0, redaction=rules))
    with server.client() as client:
        client.post("/v1/traces", json=otlp([f"EMP-123456 is {MAIL}"]))
    found = stored(sqlite_url)
    assert f"[redacted:staff] is {MAIL}" in found


def test_a_server_with_rules_that_cannot_hold_does_not_start(
    serving: Callable[..., RunningServer], sqlite_url: str
) -> None:
    settings = ServeSettings(port=0, redaction=RedactionRules(patterns={"p": "(a+)+b"}))
    with pytest.raises(RuntimeError) as failure:
        serving(sqlite_url, settings)
    assert isinstance(failure.value.__cause__, ConfigError)
    assert "patterns.p" in str(failure.value.__cause__)


def test_a_span_that_was_redacted_by_its_sender_stays_so(server: RunningServer) -> None:
    texts = [
        "write to [redacted:email]",
        '{"password": "[redacted:field]"}',
        "password=[redacted:key]",
    ]
    with server.client() as client:
        client.post("/v1/traces", json=otlp([text for text in texts for _ in range(4)][::4]))
    with Store.open(server.store_url) as store:
        spans, _ = store.spans.live("unknown")
    assert spans[-1].attributes["gen_ai.input.messages"] == texts[0]
