"""Partitions of spans are there when a server answers, and are looked after as long as it runs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet.server import partitions
from ratchet.server.partitions import PartitionKeeper
from ratchet.server.retention import Retention
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from ratchet.store.partitions import AHEAD
from ratchet.types import StoreError
from tests.serving import RunningServer


def test_servers_on_one_postgres_have_partitions_when_they_answer(
    serving: Callable[..., RunningServer], postgres_url: str
) -> None:
    settings = ServeSettings(port=0, retention=Retention(spans_days=8))
    with ThreadPoolExecutor(2) as pool:
        servers = list(pool.map(lambda _: serving(postgres_url, settings), range(2)))
    for server in servers:
        with server.client() as client:
            assert client.get("/v1/traces").json()["traces"] == []
    with Store.open(postgres_url) as store:
        found = store.partitions.existing()
    assert len(found) == 2 + AHEAD
    current = found[1]
    assert current.begin_ns is not None
    assert current.end_ns - current.begin_ns == 86_400 * 10**9
    assert current.begin_ns <= time.time_ns() < found[2].end_ns


def test_partitions_are_made_again_and_again_and_a_failure_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(partitions, "EVERY_S", 0.0)
    answers: list[Any] = [StoreError("It is locked."), ["spans_later"], []]
    asked: list[float] = []

    async def main() -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def ahead(period_s: float) -> list[str]:
            asked.append(period_s)
            if len(asked) == len(answers):
                loop.call_soon_threadsafe(done.set)
            answer = answers[min(len(asked), len(answers)) - 1]
            if isinstance(answer, StoreError):
                raise answer
            return list(answer)

        store: Any = SimpleNamespace(partitions=SimpleNamespace(ahead=ahead))
        keeper = PartitionKeeper(store, 60.0)
        with caplog.at_level(logging.INFO):
            await keeper.start()
            async with asyncio.timeout(30):
                await done.wait()
            await keeper.close()

    asyncio.run(main())
    assert asked[:3] == [60.0] * 3
    assert "could not be made, and will be retried: It is locked." in caplog.text
    assert "Made partitions of spans: spans_later." in caplog.text
