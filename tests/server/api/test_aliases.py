"""The first contract of Agent Lightning: /task, /resources, /rollout."""

from __future__ import annotations

from typing import Any

from tests.serving import RunningServer

PROMPT = {"type": "prompt", "text": "Be {tone}.", "engine": "f-string"}


def test_a_client_polls_a_task_fetches_its_resources_and_posts_the_rollout(
    server: RunningServer,
) -> None:
    with server.client() as http:
        assert http.get("/task").json() == {"is_available": False, "task": None}
        id = http.post("/v1/candidates", json={"resources": {"prompt_template": PROMPT}}).json()[
            "id"
        ]
        rollout = {"id": "r", "input": {"q": 1}, "candidate_id": id, "metadata": {"mode": "val"}}
        http.post("/v1/rollouts", json={"rollouts": [rollout]})
        task = http.get("/task").json()["task"]
        assert (task["rollout_id"], task["input"], task["mode"]) == ("r", {"q": 1}, "val")
        resources = http.get(f"/resources/{task['resources_id']}").json()["resources"]
        assert resources == {"prompt_template": PROMPT}
        done = {
            "rollout_id": "r",
            "attempt": task["attempt"],
            "final_reward": 0.5,
            "triplets": [{"state": 1, "action": 2, "reward": 3}],
        }
        assert http.post("/rollout", json=done).json() == {"rollout_id": "r", "status": "succeeded"}
        scores = http.get("/v1/rollouts/r/scores").json()["scores"]
        assert [(score["evaluator"], score["value"]) for score in scores] == [("reward", 0.5)]
        (span,) = http.get("/v1/rollouts/r/spans").json()["spans"]
        assert span["attributes"]["ratchet.triplets"] == '[{"state":1,"action":2,"reward":3}]'


def test_resources_latest_is_what_the_agent_runs_with(server: RunningServer) -> None:
    with server.client() as http:
        assert http.get("/resources/latest").json() == {"resources_id": "source", "resources": {}}
        assert http.get("/resources/source").json() == {"resources_id": "source", "resources": {}}
        id = http.post("/v1/candidates", json={"resources": {"p": PROMPT}}).json()["id"]
        http.put("/v1/agents/default/active", json={"candidate_id": id})
        assert http.get("/resources/latest").json() == {
            "resources_id": id,
            "resources": {"p": PROMPT},
        }
        assert http.get("/resources/nothing").status_code == 404


def test_a_rollout_that_ended_is_not_ended_again(server: RunningServer) -> None:
    with server.client() as http:
        http.post("/v1/rollouts", json={"rollouts": [{"id": "r", "input": 1}]})
        http.get("/task")
        failed: dict[str, Any] = {"rollout_id": "r", "error": "It broke."}
        assert http.post("/rollout", json=failed).json()["status"] == "queued"
        http.get("/task")
        assert http.post("/rollout", json={**failed, "attempt": 1}).status_code == 409
        assert http.post("/rollout", json={**failed, "attempt": 2}).json()["status"] == "failed"
        answer = http.post("/rollout", json={"rollout_id": "r", "final_reward": 1})
        assert answer.status_code == 409
        assert "is failed" in answer.json()["detail"]
        assert http.post("/rollout", json={"rollout_id": "nobody"}).status_code == 404
