"""Patience, with a clock that is given: when requests are sent again, and when no longer."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet.client.call import ApiRequest, Steps, batches, get
from ratchet.client.events import EventStream
from ratchet.client.failures import RequestRefused, ServerUnreachable
from ratchet.types import InputError, StoreError

AWAY = ServerUnreachable(reason="refused", place="http://server")
BUSY = RequestRefused(status=503, detail="busy")
WRONG = RequestRefused(status=422, detail="wrong")


def once() -> Steps[int]:
    answer = yield get("a")
    return answer.read(int)


def test_items_are_sent_in_parts_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ratchet.client.call.MAX_BODY_BYTES", 100)
    monkeypatch.setattr("ratchet.client.call.MAX_ITEMS", 10)
    items = ["x" * 40, "x" * 40, "x" * 40, "x" * 500, *["y"] * 12]
    parts = list(batches(items))
    assert [len(part) for part, _ in parts] == [2, 1, 1, 10, 2]
    assert [item for part, _ in parts for item in part] == items
    assert bytes(parts[0][1]) == b'["' + b"x" * 40 + b'","' + b"x" * 40 + b'"]'


def test_a_path_cannot_be_left_by_what_is_put_into_it() -> None:
    assert get("rollouts", "a/../../keys?x=1#y", "attempts").path == (
        "/v1/rollouts/a%2F..%2F..%2Fkeys%3Fx%3D1%23y/attempts"
    )
    assert get("rollouts", queue="a&b=c", limit=3, cursor=None).path == (
        "/v1/rollouts?queue=a%26b%3Dc&limit=3"
    )


def follow(**options: Any) -> tuple[EventStream, list[float]]:
    now = [0.0]
    return EventStream(None, 10.0, clock=lambda: now[0], jitter=lambda: 1.0, **options), now


def test_a_follower_of_events_goes_on_from_the_last_it_heard() -> None:
    following, _ = follow()
    assert "last-event-id" not in following.request().headers
    event = following.received("rollouts.created", '{"at": 3.5, "created": 2}', "17")
    assert event is not None
    assert (event.id, event.kind, event.at, event.body) == (
        "17",
        "rollouts.created",
        3.5,
        {"created": 2},
    )
    assert following.request().headers["last-event-id"] == "17"
    assert following.received("x", "no JSON", "18") is None
    assert following.received("x", "{}", "\u00e9\n") is not None
    assert following.request().headers["last-event-id"] == "18", "what no header can hold"


def test_a_follower_gives_up_when_nothing_is_heard_for_its_patience() -> None:
    following, now = follow()
    tries = 0

    def try_on() -> None:
        nonlocal tries
        while True:
            now[0] += following.lost(AWAY)
            tries += 1

    with pytest.raises(StoreError, match="cannot be reached"):
        try_on()
    assert now[0] <= 10.0
    assert tries > 4
    following.connected()
    assert following.lost(BUSY) > 0, "what was heard makes it patient again"
    with pytest.raises(InputError):
        following.lost(WRONG)


def test_requests_are_what_the_api_expects() -> None:
    request = next(once())
    assert isinstance(request, ApiRequest)
    assert (request.method, request.path, request.body) == ("GET", "/v1/a", b"")
