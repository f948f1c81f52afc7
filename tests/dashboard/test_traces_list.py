"""The list of traces in a browser: its rows, the search, and what is done with a selection."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.store import Store
from ratchet.types import SpanRecord
from tests.dashboard.conftest import url_of
from tests.dashboard.seeded import live_trace
from tests.serving import RunningServer

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

Opened = Callable[..., Any]
Serve = Callable[..., RunningServer]


def add_failing(project: Path, agent: str, count: int) -> None:
    """Failing traces of an agent, the newest of all."""
    now = time.time()
    with Store.open(url_of(project)) as store:
        store.spans.put(
            [
                SpanRecord(span=span, agent=agent)
                for number in range(count)
                for span in live_trace(5_000 + number, now - number, failed=True)
            ]
        )


def test_twenty_failing_traces_become_tasks_in_three_clicks(
    opened: Opened, serve: Serve, project: Path
) -> None:
    add_failing(project, "desk", 20)
    page = opened(f"{serve(project).url}/traces?agent=desk")
    page.get_by_label("failed").click()  # 1
    page.wait_for_url("**/traces?*errors=1*")
    page.get_by_text("20 traces shown").wait_for()
    page.get_by_label("Select all shown").click()  # 2
    bar = page.get_by_role("region", name="Selected traces")
    bar.get_by_text("20 selected").wait_for()
    bar.get_by_role("button", name="Add to ").click()  # 3
    bar.get_by_role("status").or_(bar.get_by_role("alert")).wait_for(timeout=60_000)
    assert not bar.get_by_role("alert").count(), bar.inner_text()
    with Store.open(url_of(project)) as store:
        name = bar.get_by_role("status").get_by_role("link").inner_text()
        dataset = store.datasets.latest(name)
        assert dataset is not None
        asked = {str(task.input) for task in dataset.tasks}
        assert sum("5" in text for text in asked) >= 20


def test_a_range_is_selected_with_shift_and_labelled(
    opened: Opened, serve: Serve, project: Path
) -> None:
    add_failing(project, "desk", 5)
    page = opened(f"{serve(project).url}/traces?agent=desk")
    page.get_by_text("5 traces shown").wait_for()
    boxes = page.locator("tbody input[type=checkbox]")
    boxes.nth(0).click()
    boxes.nth(1).click(modifiers=["Shift"])
    bar = page.get_by_role("region", name="Selected traces")
    assert bar.get_by_role("link", name="Compare").get_attribute("href").count("with=") == 1
    boxes.nth(3).click(modifiers=["Shift"])
    bar.get_by_text("4 selected").wait_for()
    bar.get_by_role("button", name="Label wrong").click()
    bar.get_by_text("4 traces labelled wrong").wait_for()
    with Store.open(url_of(project)) as store:
        given = [each for each in store.labels.list() if each.trace_id]
    assert [each.value for each in given] == [0.0] * 4


def test_a_search_is_in_the_url_and_finds_what_was_said(
    opened: Opened, serve: Serve, project: Path
) -> None:
    add_failing(project, "desk", 3)
    page = opened(f"{serve(project).url}/traces")
    page.get_by_label("Search").fill("order 5002")
    page.wait_for_url("**/traces?*q=order*")
    page.get_by_text("1 trace shown").wait_for()
    row = page.locator("tbody tr")
    assert "5002" in row.inner_text()
    assert row.locator(".bad").inner_text().startswith("✕")
    page.get_by_label("Search").fill("nothing says this")
    page.get_by_text("No trace fits these filters.").wait_for()
    page.get_by_label("Search").fill('" NEAR( *')
    page.wait_for_url("**NEAR**")
    page.get_by_text("No trace fits these filters.").wait_for()
