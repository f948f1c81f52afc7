"""Rollouts over HTTP: the same queue, leases and fences as in the store."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from ratchet.store import Store
from tests.serving import RunningServer


def outcome(claim: dict[str, Any], status: str = "succeeded", **more: Any) -> dict[str, Any]:
    return {
        "rollout_id": claim["rollout"]["id"],
        "fence": claim["fence"],
        "status": status,
        "started_at": 1.0,
        "ended_at": 2.0,
        "duration_s": 1.0,
        **more,
    }


class Api:
    """The calls of a runner."""

    def __init__(self, server: RunningServer) -> None:
        self.http = server.client()

    def post(self, path: str, body: Any, status: int = 200) -> Any:
        answer = self.http.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def create(self, *ids: str, **more: Any) -> Any:
        rollouts = [{"id": id, "input": f"do {id}", **more} for id in ids]
        return self.post("/v1/rollouts", {"rollouts": rollouts})

    def claim(self, limit: int = 1, **more: Any) -> list[dict[str, Any]]:
        return self.post("/v1/rollouts/claim", {"worker": "w", "limit": limit, **more})["claims"]

    def finish(self, *outcomes: dict[str, Any]) -> list[str | None]:
        answer = self.post("/v1/rollouts/finish", {"outcomes": outcomes})
        return [result["status"] for result in answer["results"]]

    def get(self, path: str, expect: int = 200, /, **query: Any) -> Any:
        answer = self.http.get(path, params=query)
        assert answer.status_code == expect, answer.text
        return answer.json()


@pytest.fixture
def api(server: RunningServer) -> Api:
    return Api(server)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def either(request: pytest.FixtureRequest) -> RunningServer:
    # The database first: it outlives the server then.
    url = request.getfixturevalue(f"{request.param}_url")
    started: RunningServer = request.getfixturevalue("serving")(url)
    return started


def test_a_rollout_goes_from_creation_over_claim_to_its_end(either: RunningServer) -> None:
    api = Api(either)
    assert api.create("a", "b") == {"created": 2, "ids": ["a", "b"]}
    (claim,) = api.claim()
    assert (claim["rollout"]["id"], claim["rollout"]["status"], claim["fence"]) == (
        "a",
        "running",
        1,
    )
    assert claim["token"].startswith("ra_")
    span = {
        "trace_id": "1" * 32,
        "span_id": "2" * 16,
        "name": "step",
        "start_ns": 1,
        "end_ns": 2,
    }
    score = {"evaluator": "reward", "version": "1", "value": 0.5}
    done = outcome(claim, output={"x": 1}, cost_usd=0.25, spans=[span], scores=[score])
    assert api.finish(done) == ["succeeded"]
    rollout = api.get("/v1/rollouts/a")
    assert (rollout["status"], rollout["output"], rollout["cost_usd"]) == (
        "succeeded",
        {"x": 1},
        0.25,
    )
    assert [s["name"] for s in api.get("/v1/rollouts/a/spans")["spans"]] == ["step"]
    assert [s["value"] for s in api.get("/v1/rollouts/a/scores")["scores"]] == [0.5]
    assert [a["status"] for a in api.get("/v1/rollouts/a/attempts")["attempts"]] == ["succeeded"]
    assert api.get("/v1/rollouts/counts")["counts"] == {"queued": 1, "succeeded": 1}


def test_a_wrong_fence_is_refused_and_the_right_one_counts(api: Api) -> None:
    api.create("a")
    (claim,) = api.claim()
    assert api.finish(outcome({**claim, "fence": 7})) == [None]
    assert api.finish(outcome(claim)) == ["succeeded"]


def test_a_server_that_ends_lets_go_who_waits(serving: Any, sqlite_url: str) -> None:
    server = serving(sqlite_url)
    api = Api(server)
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.append(api.claim(wait_s=60)))
    waiting.start()
    with Store.open(sqlite_url) as store:
        assert store.rollouts.counts() == {}
    server.stop()
    waiting.join(30)
    assert not waiting.is_alive(), "it waits on"
    assert got in ([[]], [])


def test_a_waiting_runner_that_hangs_up_takes_nothing(api: Api, server: RunningServer) -> None:
    import socket
    from urllib.parse import urlsplit

    body = b'{"worker":"w","wait_s":60}'
    with socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0)) as raw:
        raw.sendall(
            b"POST /v1/rollouts/claim HTTP/1.1\r\nhost: localhost\r\ncontent-type:"
            b" application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
        )
        dispatcher = server.app.services.dispatcher
        deadline = time.monotonic() + 10
        while not dispatcher.waiting("default") and time.monotonic() < deadline:
            time.sleep(0.005)
        assert dispatcher.waiting("default") == 1
    while dispatcher.waiting("default") and time.monotonic() < deadline:
        time.sleep(0.005)
    api.create("a")
    assert [claim["fence"] for claim in api.claim()] == [1]


def test_runners_share_a_queue_and_no_rollout_runs_twice(either: RunningServer) -> None:
    api = Api(either)
    api.create(*(f"r{number}" for number in range(60)))
    taken: list[str] = []

    def run() -> None:
        mine = Api(either)
        while claims := mine.claim(limit=3):
            taken.extend(claim["rollout"]["id"] for claim in claims)
            assert set(mine.finish(*(outcome(claim) for claim in claims))) == {"succeeded"}

    runners = [threading.Thread(target=run) for _ in range(6)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join(60)
    assert sorted(taken) == sorted(f"r{number}" for number in range(60))
    assert api.get("/v1/rollouts/counts")["counts"] == {"succeeded": 60}


def test_a_rollout_of_an_unknown_candidate_is_refused_before_any_is_queued(api: Api) -> None:
    bad = {"rollouts": [{"id": "a", "input": 1}, {"id": "b", "input": 1, "candidate_id": "no"}]}
    problem = api.post("/v1/rollouts", bad, 422)
    assert problem["errors"][0]["field"] == "rollouts[1].candidate_id"
    assert api.get("/v1/rollouts")["rollouts"] == []


def test_an_attempt_is_not_reported_as_expired(api: Api) -> None:
    api.create("a")
    (claim,) = api.claim()
    problem = api.post("/v1/rollouts/finish", {"outcomes": [outcome(claim, "expired")]}, 422)
    assert problem["errors"][0]["field"] == "outcomes[0].status"
