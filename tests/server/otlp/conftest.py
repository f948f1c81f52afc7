"""Fixtures of the room: a server and how spans are sent to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ratchet._http import httpx2
from ratchet.store import Store
from tests.server.otlp.requests import PROTOBUF
from tests.serving import RunningServer

Send = Callable[..., httpx2.Response]


@pytest.fixture(params=["application/x-protobuf", "application/json"])
def media_type(request: pytest.FixtureRequest) -> str:
    """Each of the encodings."""
    return str(request.param)


@pytest.fixture
def send(server: RunningServer) -> Iterator[Send]:
    """Sends a body: `send(body, media_type, **headers)`."""
    with server.client() as http:

        def post(body: bytes, media_type: str = PROTOBUF, **headers: str) -> httpx2.Response:
            given = {key.replace("_", "-"): value for key, value in headers.items()}
            return http.post(
                "/v1/traces", content=body, headers={"content-type": media_type, **given}
            )

        yield post


@pytest.fixture
def stored(server: RunningServer) -> Iterator[Store]:
    """The server's store, opened a second time."""
    with Store.open(server.store_url) as store:
        yield store
