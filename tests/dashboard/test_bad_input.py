"""What may go wrong around the page: a store written in part, a proxy that holds back events."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.store import Store
from ratchet.types import (
    Activation,
    Candidate,
    Experiment,
    PromptTemplate,
    Release,
    Rollout,
    Run,
    SpanRecord,
)
from tests.dashboard.conftest import Complaints, url_of
from tests.dashboard.seeded import AGENT, live_trace
from tests.serving import RunningServer

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

Opened = Callable[..., Any]
Serve = Callable[..., RunningServer]
GONE = "ab" * 32


def write_in_part(store: Store, now: float) -> None:
    """A run, an experiment and a release that name things which were never stored."""
    source = Candidate.of({"system": PromptTemplate(text="Answer.")})
    store.candidates.put(source, now)
    run = Run(
        id="10" * 16,
        agent="module:answer",
        seed=0,
        stage="prove",
        created_at=now,
        updated_at=now,
        dataset_version=GONE,
        baseline_id=source.id,
        best_id=GONE,
        experiment_id="20" * 16,
        release_id="30" * 16,
    )
    store.runs.put(run)
    store.experiments.put(
        Experiment(
            id="20" * 16,
            run_id=run.id,
            baseline_id=source.id,
            candidate_id=GONE,
            dataset_version=GONE,
            stream="s",
            history=(),
            alpha=0.05,
            created_at=now,
        )
    )
    release = Release(
        id="40" * 16,
        experiment_id="50" * 16,
        candidate_id=GONE,
        baseline_id=source.id,
        state="active",
        repo="",
        branch="",
        base="",
        commit="",
        pull_request="",
        evidence="",
        created_at=now,
        agent=AGENT,
    )
    store.releases.put(release)
    store.agents.activate(Activation(agent=AGENT, candidate_id=GONE, activated_at=now, reason=""))
    store.rollouts.create(
        [Rollout(id="waits", queue="q", candidate_id=GONE, task_id="t", input=1)], now
    )


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A folder whose store was written in part."""
    (tmp_path / ".ratchet").mkdir()
    with Store.open(url_of(tmp_path)) as store:
        write_in_part(store, time.time())
    return tmp_path


def test_a_store_that_was_written_in_part_is_shown_as_far_as_it_goes(
    opened: Opened, serve: Serve, half: Path, complaints: Complaints
) -> None:
    server = serve(half)
    page = opened(server.url)
    for path, text in {
        "/": "Answers improved",
        "/runs": "prove",
        f"/runs/{'10' * 16}": "No candidate has been judged yet.",
        "/experiments": "running",
        f"/experiments/{'20' * 16}": "It has not decided yet.",
        "/releases": "at run time: support",
        f"/releases/{'40' * 16}": "Roll back …",
        f"/candidates/{GONE}": "The store has no candidate",
        "/rollouts/waits": "queued",
        "/agents": AGENT,
        "/labelling": "No output has been made",
    }.items():
        page.goto(f"{server.url}{path}")
        page.get_by_text(text).first.wait_for()
        assert page.get_by_text("The page failed").count() == 0, path
    # The browser notes each thing that is not there; no script has failed.
    assert [each for each in complaints if "404" not in each] == []
    complaints.clear()


def test_a_proxy_that_refuses_event_streams_only_delays_what_is_shown(
    opened: Opened, serve: Serve, project: Path, complaints: Complaints
) -> None:
    server = serve(project)
    page = opened("about:blank")
    page.route(
        "**/v1/events",
        lambda route: route.fulfill(status=502, content_type="text/html", body="Bad gateway"),
    )
    page.goto(f"{server.url}/traces")
    page.get_by_role("table", name="Traces").wait_for()
    page.get_by_text("no live events").wait_for()
    assert page.get_by_text("The server is away").count() == 0
    with Store.open(url_of(project)) as store:
        new = live_trace(6_000, time.time())
        store.spans.put([SpanRecord(span=each, agent=AGENT) for each in new])
    page.get_by_role("button", name="1 new").wait_for()
    complaints.clear()  # the browser notes each 502


def test_a_proxy_that_cuts_event_streams_off_leaves_the_page_at_work(
    opened: Opened, serve: Serve, project: Path
) -> None:
    server = serve(project)
    page = opened("about:blank")
    page.route(
        "**/v1/events",
        lambda route: route.fulfill(
            status=200, content_type="text/event-stream", body=": begun\nretry: 50\n\n"
        ),
    )
    page.goto(f"{server.url}/runs")
    page.get_by_role("table", name="Runs").wait_for()
    for _ in range(3):  # the browser connects again each time
        page.wait_for_event("request", lambda request: request.url.endswith("/v1/events"))
    assert page.get_by_text("The server is away").count() == 0
    page.get_by_role("table", name="Runs").get_by_role("link").first.click()
    page.get_by_role("heading", name="Candidates").wait_for()
