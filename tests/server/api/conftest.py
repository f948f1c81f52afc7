"""A client of a server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving import RunningServer


@pytest.fixture
def http(server: RunningServer) -> Any:
    """An HTTP client of a server that needs no key."""
    with server.client() as client:
        yield client
