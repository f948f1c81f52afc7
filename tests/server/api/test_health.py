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

    monkeypatch.setattr(health, "STORE_S", 0.02)
    monkeypatch.setattr(server.app.services.store, "ping", hang)
    with server.client() as http:
        for _ in range(20):  # more than the server has threads for the store
            assert http.get("/readyz").status_code == 503
        assert http.get("/v1/rollouts").status_code == 200
    assert len(asked) == 1
    go_on.set()
