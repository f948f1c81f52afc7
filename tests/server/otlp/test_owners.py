"""Whose spans they are, end to end: attempts by attribute and by token, unknown rollouts."""

from __future__ import annotations

import time

import pytest

from ratchet.server.gateway.target import LATE_S, state_of
from ratchet.store import Store
from ratchet.types import Attempt, Outcome, Rollout
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
def test_spans_reach_the_attempt_that_they_name(send: Send, stored: Store, media_type: str) -> None:
    made = request(span(OWNED), span(), service__name="bot")
    assert send(encoded(made, media_type), media_type).status_code == 200
    assert len(stored.spans.of("r", 1)) == len(stored.spans.live("bot")[0]) == 1


def test_spans_of_an_unknown_rollout_are_live_traffic_of_their_agent(
    send: Send, stored: Store
) -> None:
    assert send(encoded(request(span(OWNED), service__name="bot"), PROTOBUF)).status_code == 200
    ((kept,), _) = stored.spans.live("bot")
    assert kept.attributes.items() >= OWNED.items()


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
    assert "belong to another attempt than the token" in why
    assert len(stored.spans.of("r", 1)) == 2
    assert stored.spans.agents() == []


@pytest.mark.parametrize(("ago", "status"), [(LATE_S - 60, 200), (LATE_S + 60, 401)])
def test_a_token_sends_late_spans_for_a_while_after_its_attempt_ended(
    server: RunningServer, send: Send, stored: Store, media_type: str, ago: float, status: int
) -> None:
    ended = time.time() - ago
    stored.rollouts.create(
        [Rollout(id="r", queue="q", candidate_id="", task_id="", input=1, purpose="")], ended
    )
    stored.rollouts.claim("q", "test/1/1", 1, 1000.0, ended)
    done = Outcome(
        rollout_id="r", fence=1, status="succeeded", started_at=ended, ended_at=ended, duration_s=0
    )
    stored.rollouts.finish([done], ended)
    token = server.app.services.gatekeeper.token("r", 1)
    body = encoded(request(span()), media_type)
    answer = send(body, media_type, authorization=f"Bearer {token}")
    assert answer.status_code == status
    assert len(stored.spans.of("r", 1)) == (status == 200)
    # A key may still send them: it does not expire with the attempt.
    assert send(encoded(request(span(OWNED)), media_type), media_type).status_code == 200


def test_a_token_of_a_rollout_that_was_deleted_is_refused(
    server: RunningServer, send: Send, stored: Store
) -> None:
    token = server.app.services.gatekeeper.token("deleted", 1)
    answer = send(encoded(request(span()), PROTOBUF), authorization=f"Bearer {token}")
    assert answer.status_code == 401
    assert b"has expired" in answer.content


def test_an_attempt_that_nobody_ended_is_over_for_good_some_time_after_its_lease() -> None:
    held = Attempt(
        rollout_id="r", fence=1, worker="w", status="running", lease_until=100.0, started_at=0.0
    )
    assert state_of(held, 100.0 + LATE_S) == "running"
    assert state_of(held, 101.0 + LATE_S) == "expired"
    assert state_of(None, 0.0) == "unknown"


def test_a_token_that_is_none_of_ours_is_refused(send: Send, stored: Store) -> None:
    body = encoded(request(span()), PROTOBUF)
    assert send(body, authorization="Bearer ra_" + "x" * 60).status_code == 401
    assert stored.spans.agents() == []
