"""Changing datasets over HTTP: proposals, edits, what is refused, and undo."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet._http import httpx2
from tests.server.api.conftest import ok

TASKS = [
    {"id": "a", "input": "Where is the parcel from Lisbon", "expected": "On its way"},
    {"id": "b", "input": "Where is the parcel from Lisbon", "expected": "On its way"},
    {"id": "c", "input": "Can I change the name on an invoice", "expected": "Yes"},
    {"id": "t", "input": "How long does a refund take", "expected": "A week"},
]
SPLITS = {"a": "train", "b": "train", "c": "val", "t": "test"}


@pytest.fixture
def version(http: httpx2.Client) -> str:
    """A stored dataset with a duplicate."""
    body = {"name": "support", "tasks": TASKS, "splits": SPLITS}
    return str(ok(http.post("/v1/datasets", json=body))["version"])


def change(http: httpx2.Client, status: int = 200, **body: Any) -> Any:
    return ok(http.post("/v1/datasets/support/changes", json=body), status)


def latest(http: httpx2.Client) -> dict[str, Any]:
    found = ok(http.get("/v1/datasets", params={"name": "support"}))
    return {task["id"]: task for task in found["tasks"]} | {"dataset": found}


def test_proposals_are_listed_with_what_cannot_be_told(http: httpx2.Client, version: str) -> None:
    found = ok(http.get("/v1/datasets/support/refinement"))
    (proposal,) = found["proposals"]
    assert (proposal["kind"], proposal["ground"]) == ("remove", "duplicate")
    assert found["version"] == version
    assert found["coverage"] is None
    assert any("Coverage is unknown" in note for note in found["notes"])
    ok(http.get("/v1/datasets/nothing/refinement"), 404)


def test_an_accepted_proposal_and_an_edit_make_one_version(
    http: httpx2.Client, version: str
) -> None:
    (proposal,) = ok(http.get("/v1/datasets/support/refinement"))["proposals"]
    edited = {"id": "c", "input": TASKS[2]["input"], "expected": "No", "metadata": {"by": "hand"}}
    made = change(http, version=version, accept=[proposal["id"]], edit=[edited])
    assert made["before"] == version
    assert made["reason"] == "Refined: 1 removed. Edited: c."
    now = latest(http)
    assert now["dataset"]["version"] == made["version"]
    assert now["dataset"]["parent"] == version
    assert (now["c"]["expected"], now["c"]["metadata"]) == ("No", {"by": "hand"})
    assert len(now["dataset"]["tasks"]) == 3


def test_what_changes_nothing_makes_no_version(http: httpx2.Client, version: str) -> None:
    same = {key: TASKS[2][key] for key in ("id", "input", "expected")}
    assert change(http, version=version, edit=[same])["version"] == version


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"edit": [{"id": "x", "input": "?"}]}, 404, "no task 'x'"),
        ({"remove": ["x"]}, 422, "no task 'x'"),
        ({"remove": ["t"]}, 422, "No task would be left in the test split"),
        ({"accept": ["ffff"]}, 422, "ffff"),
        (
            {"edit": [{"id": "a", "input": TASKS[3]["input"]}]},
            422,
            "Another split already has the input",
        ),
    ],
)
def test_what_cannot_be_done_is_a_sentence_and_changes_nothing(
    http: httpx2.Client, version: str, body: dict[str, Any], status: int, said: str
) -> None:
    assert said in change(http, status, version=version, **body)["detail"]
    assert latest(http)["dataset"]["version"] == version


def test_added_tasks_go_to_one_split_in_a_new_version_and_are_taken_out_again(
    http: httpx2.Client, version: str
) -> None:
    new = {"id": "n", "input": "Where is it", "origin": {"made": "synthesized", "by": "slots; x"}}
    made = change(http, version=version, add=[new, {"id": "m", "input": "Hm"}], split="val")
    assert made["reason"] == "Added to val: 2 tasks (1 by slots)."
    found = latest(http)
    assert found["dataset"]["splits"] == {**SPLITS, "n": "val", "m": "val"}
    assert found["dataset"]["parent"] == version
    assert found["n"]["origin"]["made"] == "synthesized"
    back = found["dataset"]
    body = {"name": "support", "tasks": TASKS, "splits": SPLITS}
    assert ok(http.post("/v1/datasets", json=body))["version"] == made["before"] == version
    assert latest(http)["dataset"]["version"] != back["version"]


def test_an_added_task_that_is_there_or_straddles_splits_is_refused(
    http: httpx2.Client, version: str
) -> None:
    told = change(http, 422, version=version, add=[{"id": "a", "input": "new"}])
    assert "already has a task 'a'" in told["detail"]
    told = change(http, 422, version=version, add=[{"id": "n", "input": TASKS[3]["input"]}])
    assert "Another split already has the input" in told["detail"]
    assert latest(http)["dataset"]["version"] == version
