"""Large bodies: what they may take of the server's memory and time."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from ratchet.server.body import MAX_VALUES, SMALL_BODY, BodyBudget, read_body
from ratchet.server.http_problems import HttpProblem
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from tests.serving import RunningServer

ROUTES = [
    "/v1/rollouts",
    "/v1/traces",
    "/gateway/bot/openai/v1/chat/completions",
    "/gateway/bot/anthropic/v1/messages/count_tokens",
]


def many(value: bytes) -> bytes:
    """A body of 8 MB that is made of one small value."""
    return b'{"rollouts":[' + b",".join([value] * (8_000_000 // (len(value) + 1))) + b"]}"


@pytest.mark.parametrize("value", [b"[]", b'{"a":[0]}'])
@pytest.mark.parametrize("path", [ROUTES[0], ROUTES[2]])
def test_a_body_that_would_fill_the_memory_once_decoded_is_refused_before(
    server: RunningServer, path: str, value: bytes
) -> None:
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    with server.client() as http:
        answer = http.post(path, content=gzip.compress(many(value), 1), headers=headers)
    assert answer.status_code == 413
    assert f"more than {MAX_VALUES} values" in answer.json()["detail"]


@pytest.mark.parametrize("path", ROUTES)
def test_a_key_is_checked_before_the_body_is_read(serving: Any, sqlite_url: str, path: str) -> None:
    with Store.open(sqlite_url) as store:
        _, secret = store.keys.create("someone", ("read",), now=0.0)
    server = serving(sqlite_url, ServeSettings(port=0, require_key=True))
    address = ("127.0.0.1", urlsplit(server.url).port or 0)
    for key, status in ((b"", b"401"), (secret.encode(), b"403")):
        with socket.create_connection(address) as raw:
            raw.settimeout(10)
            raw.sendall(
                b"POST %s HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer %s\r\n"
                b"content-type: application/x-protobuf\r\ncontent-length: 30000000\r\n\r\n"
                % (path.encode(), key)
            )
            assert raw.recv(4096).split()[1] == status


def arriving(pieces: int, size: int) -> Any:
    """A channel on which a body arrives in pieces and never ends."""
    left = pieces

    async def receive() -> Mapping[str, Any]:
        nonlocal left
        if not left:
            await asyncio.Event().wait()
        left -= 1
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"x" * size, "more_body": True}

    return receive


@pytest.mark.parametrize("length", [0, 8 * SMALL_BODY])
def test_many_unfinished_bodies_stay_within_the_budget(length: int) -> None:
    async def main() -> None:
        budget = BodyBudget(10 * SMALL_BODY, room_s=0.1)
        held_at_ends: list[int] = []

        async def upload() -> int:
            with budget.hold() as held:
                receive = arriving(8, SMALL_BODY)
                try:
                    await read_body(receive, 9 * SMALL_BODY, held, length=length, arrive_s=0.5)
                except HttpProblem as problem:
                    held_at_ends.append(budget.held)
                    return problem.status
            raise AssertionError

        statuses = await asyncio.gather(*(upload() for _ in range(40)))
        assert statuses.count(429) >= 39  # one was read as far as its client sent it
        assert 8 * SMALL_BODY <= max(held_at_ends) <= 10 * SMALL_BODY
        assert budget.held == 0

    asyncio.run(main())


def test_a_body_waits_for_room_in_turn_and_gets_what_another_gives_back() -> None:
    async def main() -> None:
        budget = BodyBudget(10 * SMALL_BODY)
        order: list[str] = []

        async def take(name: str, size: int) -> None:
            with budget.hold() as held:
                await held.grow(size)
                order.append(name)

        with budget.hold() as first:
            await first.grow(9 * SMALL_BODY)
            waiting = [
                asyncio.create_task(take("large", 8 * SMALL_BODY)),
                asyncio.create_task(take("larger than all", 20 * SMALL_BODY)),
                asyncio.create_task(take("medium", 2 * SMALL_BODY)),
            ]
            await asyncio.sleep(0)
            async with asyncio.timeout(5):
                await take("small", 100)  # needs no room
            waiting[1].cancel()
        await asyncio.wait(waiting)
        assert order == ["small", "large", "medium"]
        assert budget.held == 0

    asyncio.run(main())
