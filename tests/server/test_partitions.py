"""Partitions of spans are there when a server answers, and are looked after as long as it runs."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet.server import partitions
from ratchet.server.partitions import PartitionKeeper
from ratchet.types import StoreError


def test_partitions_are_made_again_and_again_and_a_failure_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(partitions, "CHECK_INTERVAL_S", 0.0)
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
    assert "could not be created; the server will try again: It is locked." in caplog.text
    assert "Created span partitions: spans_later." in caplog.text
