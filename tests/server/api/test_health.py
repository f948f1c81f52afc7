"""Health: what it says to whom, and how soon."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from ratchet.server.api import health
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from ratchet.types import StoreError
from tests.serving import RunningServer

Serving = Callable[..., RunningServer]


@pytest.fixture
def guarded(serving: Serving, sqlite_url: str) -> tuple[RunningServer, str]:
    """A server that requires keys, and one."""
    with Store.open(sqlite_url) as store:
        secret = store.keys.create("ops", ("read",), time.time())[1]
    return serving(sqlite_url, ServeSettings(port=0, require_key=True)), secret


def test_where_the_store_is_is_said_to_callers_with_a_key_only(
    guarded: tuple[RunningServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, secret = guarded

    def away(*_: Any, **__: Any) -> None:
        raise StoreError("db.internal:5432 does not answer.")

    with server.client(secret) as ours:
        assert ours.get("/readyz").status_code == 200  # which looks the key up
        monkeypatch.setattr(server.app.services.store, "ping", away)
        monkeypatch.setattr(server.app.services.store.keys, "by_secret", away)
        assert "db.internal" in ours.get("/readyz").text
    for key in ("", "rk_" + "a" * 40, "nonsense"):
        with server.client(key) as theirs:
            for path in ("/readyz", "/v1/rollouts", "/healthz"):
                answer = theirs.get(path)
                assert "db.internal" not in answer.text + str(answer.headers)
            assert theirs.get("/readyz").status_code == 503


def test_a_store_that_hangs_is_reported_in_time_and_asked_once(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    asked: list[int] = []

    def hang() -> None:
        asked.append(1)
        go_on.wait(60)

    monkeypatch.setattr(health, "STORE_S", 0.05)
    monkeypatch.setattr(server.app.services.store, "ping", hang)
    with server.client() as http:
        for _ in range(20):  # more than the server has threads for the store
            assert http.get("/readyz").status_code == 503
        assert http.get("/v1/rollouts").status_code == 200
    assert len(asked) == 1
    go_on.set()


def test_the_root_is_a_page_whatever_the_client_accepts(server: RunningServer) -> None:
    with server.client() as http:
        for accept in ("*/*", "", "application/json"):
            answer = http.get("/", headers={"accept": accept})
            assert answer.status_code == 200
            assert "Ratchet" in answer.text


@pytest.mark.parametrize("hours", ["1e-320", "5e-324", "1e-300", "1e-9", "0.001"])
def test_a_time_without_length_is_refused(server: RunningServer, hours: str) -> None:
    with server.client() as http:
        answer = http.get(f"/v1/overview?hours={hours}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "hours"
