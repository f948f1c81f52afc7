"""Trying something out: a rerun beside its original, an evaluator on one output, more tasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet._http import httpx2
from ratchet.store import Store
from tests.dashboard.conftest import Complaints, url_of
from tests.serving import RunningServer

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

Opened = Callable[..., Any]
Serve = Callable[..., RunningServer]
TRACE = f"{1_003:032x}"


def claim(http: httpx2.Client, queue: str) -> list[Any]:
    """Claim as a runner of a queue would."""
    answer = http.post("/v1/rollouts/claim", json={"worker": "host/1/1", "queue": queue})
    found: list[Any] = answer.raise_for_status().json()["claims"]
    return found


def audited(page: Any, server: RunningServer, name: str) -> None:
    """The audit log shows the action."""
    page.goto(f"{server.url}/settings")
    page.get_by_role("table", name="Audit log").get_by_text(name).first.wait_for()


def test_a_trace_is_queued_cancelled_queued_again_and_compared(
    opened: Opened, serve: Serve, project: Path
) -> None:
    server = serve(project)
    page = opened(f"{server.url}/traces/{TRACE}")
    page.get_by_role("button", name="Run again …").click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_text(f"ratchet runner --server {server.url} --queue support").wait_for()
    dialog.get_by_role("button", name="Queue it").click()
    panel = page.get_by_role("region", name="Run again")
    panel.get_by_text("no runner of this server serves it").wait_for()
    page.reload()  # the rerun is in the address
    panel.get_by_role("button", name="Cancel it").click()
    panel.get_by_text("It was cancelled and has not run.").wait_for()
    with server.client() as http:
        assert claim(http, "support") == []
        page.get_by_role("button", name="Run again …").click()
        dialog.get_by_text("Served by host/1/1").wait_for()
        dialog.get_by_role("button", name="Queue it").click()
        panel.get_by_text("which 1 runner serves").wait_for()
        (claimed,) = claim(http, "support")
        assert claimed["rollout"]["input"] == "Where is order 3?"
        report = {
            "rollout_id": claimed["rollout"]["id"],
            "fence": claimed["fence"],
            "status": "succeeded",
            "started_at": 1.0,
            "ended_at": 3.0,
            "duration_s": 2.0,
            "output": "Order 3 is lost.",
        }
        http.post("/v1/rollouts/finish", json={"outcomes": [report]}).raise_for_status()
    panel.get_by_text("The outputs differ.").wait_for()
    sides = panel.get_by_role("table", name="The original and the rerun")
    assert sides.get_by_text("succeeded").count() == 2
    assert "lost" in panel.locator("ins").first.inner_text()
    panel.get_by_role("button", name="close").click()
    panel.wait_for(state="hidden")
    audited(page, server, "run_again")


def test_a_rollout_of_the_demo_runs_again_in_its_own_queue(
    opened: Opened, serve: Serve, project: Path
) -> None:
    with Store.open(url_of(project)) as store:
        (rollout,), _ = store.rollouts.list(status="succeeded", limit=1)
    server = serve(project)
    page = opened(f"{server.url}/rollouts/{rollout.id}")
    page.get_by_role("button", name="Run again …").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Queue it").click()
    page.get_by_role("region", name="Run again").get_by_text("no runner").wait_for()
    with server.client() as http:
        (claimed,) = claim(http, rollout.queue)
    assert claimed["rollout"]["input"] == rollout.input
    assert claimed["rollout"]["candidate_id"] == rollout.candidate_id
    page.get_by_text("A runner has claimed it").wait_for()


def test_an_evaluator_is_tried_on_a_rollout_and_nothing_is_stored(
    opened: Opened, serve: Serve, project: Path
) -> None:
    with Store.open(url_of(project)) as store:
        (rollout,), _ = store.rollouts.list(status="succeeded", limit=1)
        before = store.scores.of([rollout.id])
    server = serve(project)
    page = opened(f"{server.url}/rollouts/{rollout.id}")
    page.set_default_timeout(60_000)  # a process loads the project's agent
    page.get_by_role("button", name="Try an evaluator …").click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_label("Evaluator").select_option("reciprocal_rank")
    dialog.get_by_role("button", name="Score it").click()
    page.get_by_text("reciprocal_rank would give").wait_for()
    page.get_by_text("Not stored.").wait_for()
    with Store.open(url_of(project)) as store:
        assert store.scores.of([rollout.id]) == before
    audited(page, server, "try_evaluator")


def test_proposed_tasks_are_looked_at_added_and_taken_out_again(
    opened: Opened, serve: Serve, project: Path
) -> None:
    with Store.open(url_of(project)) as store:
        name = store.datasets.list()[0].name
        before = store.datasets.latest(name)
    assert before is not None
    server = serve(project)
    page = opened(f"{server.url}/datasets/{name}")
    page.get_by_text("Make more tasks that resemble these").click()
    page.get_by_label("boundary").uncheck()
    page.get_by_role("spinbutton", name="Tasks").fill("4")
    page.get_by_role("button", name="Propose", exact=True).click()
    table = page.get_by_role("table", name="Proposed tasks")
    table.wait_for()
    with Store.open(url_of(project)) as store:  # only proposed
        now = store.datasets.latest(name)
    assert now is not None
    assert now.version == before.version
    rows = table.locator("tbody tr").count()
    assert rows == 4
    table.get_by_role("checkbox").first.uncheck()
    page.get_by_role("button", name=f"Add {rows - 1} tasks …").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Add as a new version").click()
    page.get_by_text(f"Added to train: {rows - 1} tasks").first.wait_for()
    with Store.open(url_of(project)) as store:
        grown = store.datasets.latest(name)
    assert grown is not None
    assert len(grown.tasks) == len(before.tasks) + rows - 1
    assert {task.origin.made for task in grown.tasks[len(before.tasks) :]} == {"synthesized"}
    page.get_by_role("button", name="undo").click()
    page.get_by_text(f"Added to train: {rows - 1} tasks").first.wait_for(state="hidden")
    with Store.open(url_of(project)) as store:
        again = store.datasets.latest(name)
    assert again is not None
    assert again.version == before.version
    audited(page, server, "synthesize_tasks")


def test_a_key_that_may_only_read_is_offered_nothing_that_changes(
    opened: Opened, serve: Serve, project: Path, complaints: Complaints
) -> None:
    with Store.open(url_of(project)) as store:
        _, secret = store.keys.create("reader", ("read",), time.time())
        name = store.datasets.list()[0].name
    server = serve(project, require_key=True)
    page = opened(f"{server.url}/traces/{TRACE}")
    page.get_by_label("Key").fill(secret)
    page.get_by_role("button", name="Log in").click()
    for button in ("Run again …", "Add to a dataset …", "Try an evaluator …"):
        found = page.get_by_role("button", name=button)
        found.wait_for()
        assert found.is_disabled()
        assert found.get_attribute("title") == "Needs a key with the scope develop"
    assert page.get_by_role("button", name="Compare …").is_enabled()
    page.goto(f"{server.url}/datasets/{name}")
    page.get_by_text("Make more tasks that resemble these").click()
    page.get_by_role("button", name="Propose", exact=True).wait_for()
    assert page.get_by_role("button", name="Propose", exact=True).is_disabled()
    complaints.clear()  # the browser notes the 401 before the login
