"""The stream of events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ratchet.server.api import events
from ratchet.store import Store
from tests.serving import RunningServer


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "POLL_INTERVAL_S", 0.05)


def follow(http: Any, **options: Any) -> Iterator[dict[str, Any]]:
    """The events of a stream, as they come."""
    with http.stream("GET", "/v1/events", **options) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        event: dict[str, Any] = {}
        for line in answer.iter_lines():
            if line.startswith(":"):
                yield {"comment": line}
            elif line:
                name, _, value = line.partition(": ")
                event[name] = json.loads(value) if name == "data" else value
            elif "data" in event:  # else it only says where the stream stands
                yield event
                event = {}


def test_what_happens_is_told_and_a_client_goes_on_where_it_was(server: RunningServer) -> None:
    with server.client() as http, server.client() as other:
        stream = follow(http)
        assert next(stream) == {"comment": ": connected"}
        other.post("/v1/rollouts", json={"rollouts": [{"id": "a", "input": 1}]})
        created = next(stream)
        assert created["event"] == "rollouts.created"
        assert created["data"]["queues"] == {"default": 1}
        other.post("/v1/rollouts/cancel", json={"ids": ["a"]})
        cancelled = next(stream)
        assert (cancelled["event"], cancelled["data"]["ids"]) == ("rollouts.cancelled", ["a"])
        stream.close()
        again = follow(http, headers={"last-event-id": created["id"]})
        next(again)
        assert next(again)["id"] == cancelled["id"]
        again.close()


def test_events_of_another_server_of_the_store_are_told_too(server: RunningServer) -> None:
    with server.client() as http:
        stream = follow(http)
        next(stream)
        with Store.open(server.store_url) as store:
            store.events.add([("agents.changed", {"name": "x"})], 1.0)
        assert next(stream)["data"] == {"at": 1.0, "name": "x"}
        stream.close()


def test_a_server_that_ends_ends_its_streams(serving: Any, sqlite_url: str) -> None:
    server = serving(sqlite_url)
    with server.client() as http:
        stream = follow(http)
        next(stream)
        server.stop()
        assert [event for event in stream if "comment" not in event] == []
