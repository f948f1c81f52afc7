"""Whose spans they are, end to end."""

from __future__ import annotations

import time

import pytest

from ratchet.store import Store
from ratchet.types import Rollout
from tests.server.otlp.conftest import Send
from tests.server.otlp.requests import PROTOBUF, encoded, rejected, request, span
from tests.serving import RunningServer

OWNED = {"ratchet.rollout.id": "r", "ratchet.attempt": 1}


@pytest.fixture
def claimed(stored: Store) -> None:
    """A rollout `r` whose first attempt runs."""
    stored.rollouts.create(
        [Rollout(id="r", queue="q", candidate_id="", task_id="", input=1, purpose="")], 1.0
    )
    assert stored.rollouts.claim("q", "test/1/1", 1, 1000.0, time.time())[0].fence == 1


@pytest.mark.usefixtures("claimed")
def test_an_attempts_token_sends_for_that_attempt_alone(
    server: RunningServer, send: Send, stored: Store, media_type: str
) -> None:
    token = server.app.services.gatekeeper.token("r", 1)
    made = request(span(), span(OWNED), span({**OWNED, "ratchet.attempt": 2}))
    answer = send(encoded(made, media_type), media_type, authorization=f"Bearer {token}")
    assert answer.status_code == 200
    count, why = rejected(answer.content, media_type)
    assert count == 1
    assert "belong to an attempt other than the token's" in why
    assert len(stored.spans.of("r", 1)) == 2
    assert stored.spans.agents() == []


def test_a_token_that_is_none_of_ours_is_refused(send: Send, stored: Store) -> None:
    body = encoded(request(span()), PROTOBUF)
    assert send(body, authorization="Bearer ra_" + "x" * 60).status_code == 401
    assert stored.spans.agents() == []
