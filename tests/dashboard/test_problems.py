"""Problems on the page, and how many clicks a person's questions take."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import update

from ratchet.autopilot.problem_scan import COACH_READER
from ratchet.autopilot.problem_work import begin_work
from ratchet.store import Store
from ratchet.store.columns import encode
from ratchet.store.problems import ScanPlace
from ratchet.store.tables import experiments
from ratchet.types import FrozenResult, TraceReading
from tests.dashboard.conftest import url_of
from tests.serving import RunningServer

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

Opened = Callable[..., Any]
Serve = Callable[..., RunningServer]

CLICKS = "window.clicks = 0; addEventListener('click', () => window.clicks++, true)"
"""Counts what a person clicks, which no navigation within the page resets."""


def test_why_it_fails_is_one_click_from_home(opened: Opened, reading: RunningServer) -> None:
    page = opened(reading.url)
    page.evaluate(CLICKS)
    problems = page.get_by_role("list", name="Problems")
    problems.get_by_role("link", name="Timeout: the tool did not answer").click()
    page.get_by_role("heading", name="What fails").wait_for()
    example = page.locator("article.example").first
    assert "Timeout: the tool did not answer" in example.inner_text()
    assert "Where is order" in example.inner_text()
    page.get_by_text("ratchet improve --problem").wait_for()
    assert page.evaluate("window.clicks") == 1
    example.get_by_role("link", name="Open the trace").click()
    page.wait_for_url("**/traces/*")


def test_whether_a_candidate_is_better_with_outputs_is_two_clicks_from_home(
    opened: Opened, reading: RunningServer
) -> None:
    page = opened(reading.url)
    page.evaluate(CLICKS)
    page.get_by_role("link", name="Why it was shipped, and how to undo it").click()
    page.get_by_role("link", name="Both outputs of each task").click()
    page.get_by_role("heading", name=re.compile(r"^\d+ won, \d+ lost, \d+ level$")).wait_for()
    first = page.locator("article.example").first
    first.get_by_text("worse").wait_for()  # regressions come first
    assert first.get_by_role("group", name="Before").inner_text() != ""
    assert first.get_by_role("group", name="After").inner_text() != ""
    assert page.evaluate("window.clicks") == 2


def test_the_cost_per_day_is_on_home(opened: Opened, reading: RunningServer) -> None:
    page = opened(reading.url)
    cost = page.get_by_role("region", name="Cost per day")
    assert re.search(r"\$\d", cost.inner_text())


def test_a_problem_is_ignored_with_a_reason_and_reopened(
    opened: Opened, serve: Serve, project: Path
) -> None:
    with Store.open(url_of(project)) as store:
        problem = store.problems.list()[0]
    server = serve(project)
    page = opened(f"{server.url}/problems/{problem.id}")
    page.get_by_role("button", name="Ignore …").click()
    dialog = page.get_by_role("alertdialog")
    confirm = dialog.get_by_role("button", name="Ignore it")
    assert confirm.is_disabled()
    dialog.get_by_label("Reason").fill("The tool is being replaced.")
    confirm.click()
    page.get_by_role("status", name="Done").get_by_text("It is ignored.").wait_for()
    page.get_by_role("list", name="States").get_by_text("The tool is being replaced.").wait_for()
    with Store.open(url_of(project)) as store:
        found = store.problems.get(problem.id)
    assert found is not None
    assert (found.state, found.reason) == ("ignored", "The tool is being replaced.")
    page.goto(f"{server.url}/problems")
    page.get_by_role("list", name="Problems").wait_for()
    assert page.get_by_role("link", name=problem.title).count() == 0
    page.get_by_role("link", name="ignored 1").click()
    page.get_by_role("link", name=problem.title).click()
    page.get_by_role("button", name="Reopen …").click()
    dialog.get_by_label("Reason").fill("It was not.")
    dialog.get_by_role("button", name="Reopen it").click()
    page.get_by_role("button", name="Ignore …").wait_for()


def test_frozen_sets_of_a_proof_name_their_problems_and_the_tasks_broken_and_fixed(
    opened: Opened, serve: Serve, project: Path
) -> None:
    with Store.open(url_of(project)) as store:
        problem = store.problems.list()[0]
        experiment = store.experiments.list(1)[0]
        held = FrozenResult(
            set_id="held",
            problem_id=problem.id,
            title=problem.title,
            tasks=20,
            draws=40,
            margin=0.32,
            baseline=0.9,
            candidate=0.95,
            e_value=80.0,
            passed=True,
            fixed=("q0001", "q0002"),
        )
        lost = msgspec.structs.replace(
            held, set_id="lost", candidate=0.4, passed=False, broken=("q0003",), fixed=()
        )
        unrun = msgspec.structs.replace(held, set_id="unrun", draws=0, baseline=None, fixed=())
        assert experiment.decision is not None
        decision = msgspec.structs.replace(experiment.decision, frozen=(held, lost, unrun))
        proved = encode(msgspec.structs.replace(experiment, decision=decision))
        # Past the store's own way, which decides an experiment once.
        change = update(experiments).where(experiments.c.id == experiment.id).values(body=proved)
        store._database.write(lambda connection: connection.execute(change))
    server = serve(project)
    page = opened(f"{server.url}/experiments/{experiment.id}")
    table = page.get_by_role("table", name="Frozen sets")
    rows = table.locator("tbody tr")
    rows.nth(2).wait_for()
    for row, words in enumerate((("holds", "2: q0001, q0002"), ("not proved", "1: q0003"))):
        for said in words:
            rows.nth(row).get_by_text(said).wait_for()
    rows.nth(2).get_by_text("not run").wait_for()
    rows.nth(0).get_by_role("link", name=problem.title).click()
    page.get_by_role("heading", name=problem.title).wait_for()


def test_the_list_says_how_many_failing_traces_it_leaves_out_and_what_a_coach_can_read(
    opened: Opened, reading: RunningServer
) -> None:
    with reading.client() as http:
        listed: Any = http.get("/v1/problems").json()
    assert listed["in_no_problem"] == 1  # the hostile one
    page = opened(f"{reading.url}/problems")
    page.get_by_text(f"1 of {listed['failing']} failing traces ").wait_for()
    page.get_by_text(f"The coach can read {listed['unread']} failing traces").wait_for()
    page.get_by_text("ratchet problems read").wait_for()


def test_what_a_coach_read_is_the_reason_beside_what_was_recorded_and_the_rest_can_be_read(
    opened: Opened, serve: Serve, project: Path
) -> None:
    with Store.open(url_of(project)) as store:
        (late,) = (each for each in store.problems.list() if each.kind == "negative_feedback")
        traces = store.problems.occurrences(late.id)
        reading = TraceReading(
            wrong="It said when, not why.",
            mistake="It does not say why an order is late.",
            model="reader",
            cost_usd=0.002,
        )
        read = {each.id: reading for each in traces[:4]}
        store.problems.read(read, COACH_READER, ScanPlace(at=time.time()))
    look = [sys.executable, "-m", "ratchet", "problems", "-C", str(project)]
    subprocess.run(look, check=True, capture_output=True)
    server = serve(project)
    page = opened(f"{server.url}/problems")
    page.get_by_role("link", name="It does not say why an order is late.").click()
    example = page.locator("article.example").first
    example.get_by_text("It said when, not why.").wait_for()
    example.get_by_text("Read by reader, $0.002. Recorded: late").wait_for()
    assert page.get_by_text("The coach can read").count() == 0
    page.goto(f"{server.url}/problems/{late.id}")
    page.get_by_text(f"The coach can read {len(traces) - 4} of its traces").wait_for()


def test_an_interrupted_run_of_a_problem_is_said_to_be_and_a_running_one_is_followed(
    opened: Opened, serve: Serve, project: Path
) -> None:
    with Store.open(url_of(project)) as store:
        problem = store.problems.list()[0]
        begin_work(store, problem, "0a" * 16, time.time())
    server = serve(project)
    page = opened(f"{server.url}/problems/{problem.id}")
    page.get_by_text("Its run was interrupted.").wait_for()
    page.get_by_text(f"ratchet improve --problem {problem.id[:8]}").wait_for()
    with Store.open(url_of(project)) as store:
        store.activity.put("0a" * 16, [], time.time())
    page.reload()
    page.get_by_text("A run works on it.").wait_for()
    page.get_by_text("ratchet status").wait_for()


def test_the_keys_are_shown_when_a_person_asks(opened: Opened, reading: RunningServer) -> None:
    page = opened(f"{reading.url}/runs")
    page.get_by_role("table", name="Runs").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").get_by_text("find a page or an id").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog", name="Keys").wait_for(state="hidden")
