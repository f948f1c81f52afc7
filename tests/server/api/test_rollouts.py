"""Rollouts over HTTP: the same queue, leases and fences as in the store."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ratchet.store import Store
from tests.server.api.conftest import ok, report
from tests.serving import RunningServer


def outcome(claim: dict[str, Any], status: str = "succeeded", **more: Any) -> dict[str, Any]:
    return report(claim["rollout"]["id"], status, fence=claim["fence"], **more)


class Api:
    """The calls of a runner."""

    def __init__(self, server: RunningServer) -> None:
        self.http = server.client()

    def post(self, path: str, body: Any, status: int = 200) -> Any:
        return ok(self.http.post(path, json=body), status)

    def create(self, *ids: str, **more: Any) -> Any:
        rollouts = [{"id": id, "input": f"do {id}", **more} for id in ids]
        return self.post("/v1/rollouts", {"rollouts": rollouts})

    def claim(self, limit: int = 1, **more: Any) -> list[dict[str, Any]]:
        return self.post("/v1/rollouts/claim", {"worker": "w", "limit": limit, **more})["claims"]

    def finish(self, *outcomes: dict[str, Any]) -> list[str | None]:
        answer = self.post("/v1/rollouts/finish", {"outcomes": outcomes})
        return [result["status"] for result in answer["results"]]

    def get(self, path: str, expect: int = 200, /, **query: Any) -> Any:
        return ok(self.http.get(path, params=query), expect)


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
    span = {"trace_id": "1" * 32, "span_id": "2" * 16, "name": "step", "start_ns": 1, "end_ns": 2}
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
