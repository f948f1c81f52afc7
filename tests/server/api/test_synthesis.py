"""Proposing tasks over HTTP: nothing is stored, and no model is asked without leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ratchet._http import httpx2
from ratchet.server.serve import ServeSettings
from tests.server.api.conftest import ok
from tests.serving import RunningServer

CITIES = ("Lisbon", "Oslo", "Rome", "Paris")
THINGS = ("parcel", "letter", "refund")
TASKS = [
    {"id": f"{thing}-{city}", "input": f"Where is the {thing} from {city}?", "expected": thing}
    for thing in THINGS
    for city in CITIES
    if (thing, city) != ("refund", "Paris")
]


def publish(http: httpx2.Client) -> str:
    splits = {task["id"]: "train" for task in TASKS}
    body = {"name": "support", "tasks": TASKS, "splits": splits}
    return str(ok(http.post("/v1/datasets", json=body))["version"])


def propose(http: httpx2.Client, status: int = 200, **body: Any) -> Any:
    return ok(http.post("/v1/datasets/support/synthesis", json=body), status)


def test_proposals_of_recombined_slots_are_new_answered_and_not_stored(
    http: httpx2.Client,
) -> None:
    version = publish(http)
    found = propose(http, methods=["slots"], count=5)
    known = {task["input"] for task in TASKS}
    assert found["parent"] == version
    assert {task["input"] for task in found["tasks"]}.isdisjoint(known)
    assert "Where is the refund from Paris?" in {task["input"] for task in found["tasks"]}
    assert all(task["expected"] and task["origin"]["sources"] for task in found["tasks"])
    assert found["ended"] or len(found["tasks"]) == 5
    assert ok(http.get("/v1/datasets", params={"name": "support"}))["version"] == version
    again = propose(http, methods=["slots"], count=5)
    assert [each["input"] for each in again["tasks"]] == [each["input"] for each in found["tasks"]]


def test_without_a_coach_the_coach_is_not_offered_and_not_asked(http: httpx2.Client) -> None:
    publish(http)
    offered = ok(http.get("/v1/synthesis-methods"))["methods"]
    assert [each["name"] for each in offered] == ["slots", "rewording", "boundary"]
    told = propose(http, 409, methods=["coach"], may_ask_models=True)
    assert "has no coach" in told["detail"]


def test_a_coach_is_offered_with_its_model_and_asked_only_with_leave(
    serving: Callable[..., RunningServer], sqlite_url: str, tmp_path: Path
) -> None:
    (tmp_path / "ratchet.toml").write_text(
        '[agent]\nentry = "agent:answer"\n\n[coach]\nmodel = "writer-1"\n'
    )
    server = serving(sqlite_url, ServeSettings(port=0, project=str(tmp_path)))
    with server.client() as http:
        publish(http)
        offered = ok(http.get("/v1/synthesis-methods"))["methods"]
        assert (offered[-1]["name"], offered[-1]["models"]) == ("coach", ["writer-1"])
        told = propose(http, 422, methods=["slots", "coach"])
        assert "calls writer-1, which may cost money" in told["detail"]
