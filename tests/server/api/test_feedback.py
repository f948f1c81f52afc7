"""Feedback over HTTP: what each kind needs, and a page that gives it with a key it may show."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ratchet._http import httpx2
from ratchet.server.limits import ServerLimits
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from tests.serving import RunningServer

PAGE = "https://app.example"


def give(http: httpx2.Client, **fields: Any) -> httpx2.Response:
    item = {"id": uuid.uuid4().hex, "trace_id": "t", **fields}
    return http.post("/v1/feedback", json={"feedback": [item]})


@pytest.fixture
def public(serving: Callable[..., RunningServer], sqlite_url: str) -> tuple[RunningServer, str]:
    """A server that pages of an origin may use, and a key that may stand in them."""
    with Store.open(sqlite_url) as store:
        _, secret = store.keys.create("page", ("feedback",), 1.0)
    limits = ServerLimits(public_per_s=0.001, public_burst=5)
    return serving(sqlite_url, ServeSettings(port=0, cors=(PAGE,), limits=limits)), secret


def test_a_page_gives_feedback_as_browsers_do_and_can_do_nothing_else(
    public: tuple[RunningServer, str],
) -> None:
    server, secret = public
    origin = {"origin": PAGE, "sec-fetch-site": "cross-site"}
    with server.client() as browser:
        asked = browser.options(
            "/v1/feedback",
            headers={
                **origin,
                "access-control-request-method": "POST",
                "access-control-request-headers": "authorization,content-type",
            },
        )
        assert asked.status_code == 204
        assert asked.headers["access-control-allow-origin"] == PAGE
        assert "POST" in asked.headers["access-control-allow-methods"]
        allowed = asked.headers["access-control-allow-headers"].replace(" ", "").split(",")
        assert {"authorization", "content-type"} <= set(allowed)
        key = {**origin, "authorization": f"Bearer {secret}"}
        item = {"id": "f", "kind": "thumbs", "value": 0, "conversation_id": "c"}
        given = browser.post("/v1/feedback", json={"feedback": [item]}, headers=key)
        assert (given.status_code, given.json()) == (200, {"stored": 1})
        assert given.headers["access-control-allow-origin"] == PAGE
        for method, path in (("GET", "/v1/feedback"), ("GET", "/v1/traces"), ("POST", "/v1/spans")):
            refused = browser.request(method, path, headers=key)
            assert refused.status_code == 403
            # The page can read why.
            assert refused.headers["access-control-allow-origin"] == PAGE
    with Store.open(server.store_url) as store:
        ((kept,), _) = store.feedback.list(conversation_id="c")
    assert (kept.id, kept.value) == ("f", 0.0)


def test_a_key_in_a_page_writes_slowly_and_in_small_pieces(
    public: tuple[RunningServer, str],
) -> None:
    server, secret = public
    with Store.open(server.store_url) as store:
        _, other = store.keys.create("backend", ("feedback", "read"), 1.0)
    with server.client(secret) as http:
        large = give(http, kind="correction", content="x" * 70_000)
        assert large.status_code == 413
        answers = [give(http, id=str(n), kind="copy") for n in range(8)]
        assert [answer.status_code for answer in answers] == [200] * 4 + [429] * 4
        assert int(answers[-1].headers["retry-after"]) > 1
    with server.client(other) as http:
        # One that stands in no page is held back by neither.
        assert give(http, id="x", kind="correction", content="x" * 70_000).status_code == 200
        assert all(give(http, id=str(n), kind="copy").status_code == 200 for n in range(20))
