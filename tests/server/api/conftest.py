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


def ok(answer: Any, status: int = 200) -> Any:
    """The body of an answer that has the status."""
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


def report(rollout_id: str, status: str = "succeeded", **more: Any) -> dict[str, Any]:
    """The report of a rollout's first attempt."""
    times = {"started_at": 1.0, "ended_at": 2.0, "duration_s": 1.0}
    return {"rollout_id": rollout_id, "fence": 1, "status": status, **times, **more}
