"""Every page: it shows what it is for, in both themes and widths, without a complaint."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.server.dashboard import FOLDER
from ratchet.store import Store
from tests.dashboard import seeded
from tests.dashboard.conftest import Complaints, url_of
from tests.serving import RunningServer

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

SHORT = os.environ.get("RATCHET_TEST_BROWSER") == "short"
"""One look at each page, for CI."""

DASHBOARD = Path(__file__).resolve().parents[2] / "dashboard"
SHOTS = Path(os.environ.get("RATCHET_SCREENSHOTS", DASHBOARD / "screenshots"))

PAGES = {
    "/": "What goes wrong",
    "/problems": "Users complain",
    "/problems/PROBLEM": "Why it failed",
    "/models": "ends on",
    "/autopilot": "Feedback of support fell",
    "/traces": "invoke_agent support",
    f"/traces/{seeded.LONG}": "5,000,000 characters",
    f"/traces/{seeded.CYCLIC}": "cycle c",
    f"/traces/{seeded.ROOTLESS}": "has not been received",
    f"/traces/{seeded.BACKWARDS}": "before its parent",
    f"/traces/{1_003:032x}?view=conversation": "Order 3 is on its way.",
    f"/traces/{1_003:032x}?with={1_004:032x}": "stop comparing",
    "/conversations": "talk-",
    "/conversations/talk-1": "is on its way",
    "/datasets": "version",
    "/evaluators": "answers_the_question",
    "/evaluators/ca4d0000ca4d0000ca4d0000ca4d0000": "Reliability",
    "/labelling": "Output",
    "/labelling?of=traces": "Is the output right?",
    "/runs": "shipped",
    "/runs/RUN": "train and val tasks that the source ran",
    "/candidates/CANDIDATE": "What it changed",
    "/experiments": "promote",
    "/experiments/EXPERIMENT": "Both outputs of each task",
    "/experiments/EXPERIMENT#evidence": "The path of the evidence",
    "/releases": "at run time: support",
    "/releases/RELEASE": "Why it was shipped",
    "/rollouts": "mirrored",
    "/labels": "which outputs are right",
    "/rollouts/ROLLOUT": "Is the output right?",
    "/cycles/c0ffee00c0ffee00c0ffee00c0ffee00": "after correction for their number",
    "/training": "last step",
    "/training/RUN-grpo": "tasks or examples of val",
    "/agents": "replaced by the active release",
    "/settings": "What one run may spend",
    "/nothing/here": "no page of the dashboard",
}
"""A text that each page shows. Words in capitals stand for ids."""


MISPLACED = """() => {
  const page = document.querySelector('.page');
  const wide = page.scrollWidth > page.clientWidth ? ['the page scrolls sideways'] : [];
  const leaves = [...page.querySelectorAll('*')].filter((each) => each.children.length === 0);
  const squeezed = leaves.filter((each) => each.textContent.trim().length > 12
    && each.clientWidth > 0 && each.clientWidth < 24 && each.clientHeight > 100);
  return [...wide, ...squeezed.map((each) => each.textContent)];
}"""
"""What does not fit: a page that is too wide, and words that stand letter under letter."""


@pytest.fixture(scope="session")
def ids(demo: Path) -> dict[str, str]:
    """Ids of what the demo made."""
    with Store.open(url_of(demo)) as store:
        run = store.runs.list(1)[0]
        rollouts, _ = store.rollouts.list(queue=run.id, status="succeeded", limit=1)
        return {
            "RUN": run.id,
            "CANDIDATE": run.best_id,
            "EXPERIMENT": run.experiment_id,
            "RELEASE": run.release_id,
            "ROLLOUT": rollouts[0].id,
            "PROBLEM": store.problems.list()[0].id,
        }


def filled(path: str, ids: dict[str, str]) -> str:
    """A path with the ids."""
    for word, id in ids.items():
        path = path.replace(word, id)
    return path


@pytest.fixture(scope="session")
def axe(demo: Path) -> str:  # installed once the page is built
    """The script that looks for what people with disabilities cannot use."""
    return (DASHBOARD / "node_modules" / "axe-core" / "axe.min.js").read_text()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_shows_its_content_and_is_accessible(
    shared_page: Any, axe: str, reading: RunningServer, ids: dict[str, str], path: str
) -> None:
    page = shared_page
    page.complaints.clear()
    for theme, width in (("light", 1600), ("dark", 390))[: 1 if SHORT else 2]:
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{reading.url}{filled(path, ids)}")
        page.get_by_text(PAGES[path]).first.wait_for()
        for wider in (30, 0):
            page.set_viewport_size({"width": width + wider, "height": 900})
            assert page.evaluate(MISPLACED) == [], width + wider
        page.evaluate(axe)
        found = page.evaluate(
            "axe.run({resultTypes: ['violations']}).then(r => r.violations"
            ".map(v => [v.id, v.nodes.slice(0, 3).map(n => n.html)]))"
        )
        assert found == [], json.dumps(found, indent=1)
        if not SHORT:
            SHOTS.mkdir(parents=True, exist_ok=True)
            name = re.split(r"[/?]", path.strip("/"))[0] or "home"
            detail = "-detail" if path.count("/") > 1 else ""
            page.screenshot(path=SHOTS / f"{name}{detail}-{theme}.png")
    assert page.complaints == []


def test_a_trace_of_10000_spans_has_few_rows_and_scrolls_to_any(
    opened: Callable[..., Any], reading: RunningServer
) -> None:
    page = opened(f"{reading.url}/traces/{seeded.BIG}?span={9_876:016x}")
    page.locator('[role=treeitem][aria-selected="true"]').get_by_text("step 9876").wait_for()
    assert page.locator("[role=treeitem]").count() < 200
    page.get_by_label("Find in names and errors").fill("step 77")
    page.get_by_text("111 matches").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "span=" in url and f"{9_876:016x}" not in url)
    page.get_by_role("button", name="Fold all", exact=True).click()
    assert page.locator("[role=treeitem]").count() < 40


def test_what_agents_say_stays_text(opened: Callable[..., Any], reading: RunningServer) -> None:
    requests: list[str] = []
    page = opened(f"{reading.url}/traces/{seeded.HOSTILE}")
    page.on("request", lambda request: requests.append(request.url))
    for number in range(1, 8):
        page.goto(f"{reading.url}/traces/{seeded.HOSTILE}?span={number:016x}")
        page.locator("article").first.wait_for()
    page.get_by_text("<svg><script>").first.wait_for()
    page.get_by_text("\\u202egnp.exe").first.wait_for()
    page.goto(f"{reading.url}/conversations/h")
    page.get_by_text("<img src=x onerror=window.hit=1>").first.wait_for()
    page.goto(f"{reading.url}/traces")
    page.get_by_text("<img src=x").first.wait_for()
    assert page.evaluate("window.hit") is None
    assert page.locator("img, iframe, a[href^=javascript]").count() == 0
    assert all(url.startswith(reading.url) for url in requests)


def test_a_decision_is_recomputed_in_the_browser(
    opened: Callable[..., Any], reading: RunningServer, ids: dict[str, str]
) -> None:
    page = opened(f"{reading.url}/experiments/{ids['EXPERIMENT']}")
    page.get_by_text("How we know").click()
    page.get_by_role("button", name="Recompute in this browser").click()
    checks = page.get_by_role("table", name="Checks")
    checks.get_by_text("digest of the file").wait_for()
    assert checks.get_by_text("holds").count() == 4
    assert checks.get_by_text("differs").count() == 0


def test_filters_live_in_the_address_and_the_keyboard_opens_a_trace(
    opened: Callable[..., Any], reading: RunningServer
) -> None:
    page = opened(f"{reading.url}/traces")
    table = page.get_by_role("table", name="Traces")
    table.get_by_role("row").nth(50).wait_for()
    page.get_by_label("failed").check()
    page.wait_for_url("**/traces?errors=1")
    page.get_by_text("Timeout: the tool did not answer").first.wait_for()
    page.reload()
    table.get_by_text("Timeout: the tool did not answer").first.wait_for()
    assert page.get_by_label("failed").is_checked()
    page.get_by_text("ratchet traces --errors").wait_for()
    page.locator("h1").click()
    for _ in range(3):
        page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url("**/traces/0*")
    page.go_back()
    page.wait_for_url("**/traces?errors=1")


def test_a_list_is_walked_and_opened_by_keyboard(
    opened: Callable[..., Any], reading: RunningServer
) -> None:
    page = opened(f"{reading.url}/conversations")
    links = page.get_by_role("table", name="Conversations").locator("tbody a")
    links.nth(3).wait_for()
    for _ in range(3):
        page.keyboard.press("j")
    page.keyboard.press("k")
    target = links.nth(1).get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{target}")
    page.go_back()
    page.wait_for_url("**/conversations")


def test_traces_before_a_time_and_of_a_conversation_are_filtered_and_exported(
    opened: Callable[..., Any], reading: RunningServer
) -> None:
    page = opened(f"{reading.url}/traces?conversation_id=talk-1")
    rows = page.get_by_role("table", name="Traces").locator("tbody tr")
    rows.nth(2).wait_for()
    assert rows.count() == 3
    assert page.get_by_label("Conversation").input_value() == "talk-1"
    page.get_by_text("ratchet traces --conversation talk-1").wait_for()
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV").click()
    head, *lines = Path(saved.value.path()).read_text().splitlines()
    assert head.startswith("trace,began,agent,name,")
    assert len(lines) == 3
    page.get_by_label("Before").fill("2020-01-01T00:00")
    page.get_by_text("No trace fits these filters.").wait_for()
    page.get_by_text("--until 20").wait_for()
    page.reload()
    assert page.get_by_label("Before").input_value() == "2020-01-01T00:00"


def test_any_id_is_found_from_anywhere(
    opened: Callable[..., Any], reading: RunningServer, ids: dict[str, str]
) -> None:
    page = opened(f"{reading.url}/settings")
    page.get_by_role("heading", name="Audit log").wait_for()
    page.keyboard.press("Control+k")
    page.keyboard.type("12")
    page.get_by_text("first 3 digits or more").wait_for()
    page.get_by_role("combobox").fill(ids["RUN"][:8])
    page.get_by_role("option").filter(has_text="run").first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{ids['RUN']}")


@pytest.mark.usefixtures("demo")  # once it is there, the page is built
def test_the_first_load_is_small() -> None:
    import gzip

    html = (FOLDER / "index.html").read_text()
    first = [FOLDER / name for name in re.findall(r'(?:src|href)="\./([^"]+\.js)"', html)]
    assert first
    assert sum(len(gzip.compress(path.read_bytes())) for path in first) <= 190 * 1024


def test_an_empty_store_says_on_every_page_which_command_fills_it(
    opened: Callable[..., Any], serve: Callable[..., RunningServer], tmp_path: Path
) -> None:
    (tmp_path / ".ratchet").mkdir()
    server = serve(tmp_path)
    page = opened(server.url)
    for path in (
        "/",
        "/traces",
        "/conversations",
        "/problems",
        "/datasets",
        "/evaluators",
        "/labelling",
        "/labels",
        "/runs",
        "/rollouts",
        "/experiments",
        "/models",
        "/releases",
        "/autopilot",
        "/training",
        "/agents",
        "/settings",
    ):
        page.goto(f"{server.url}{path}")
        page.locator(".empty .command").first.wait_for()


def test_an_unknown_id_gets_a_sentence(
    opened: Callable[..., Any], reading: RunningServer, complaints: Complaints
) -> None:
    page = opened(f"{reading.url}/runs/nothing")
    page.get_by_text("There is no run 'nothing'.").wait_for()
    page.goto(f"{reading.url}/traces/ffffffffffff")
    page.get_by_text("There is no trace 'ffffffffffff'.").wait_for()
    complaints.clear()  # the browser notes each 404


def test_under_a_path_of_a_proxy_every_address_is_below_it(
    opened: Callable[..., Any], serve: Callable[..., RunningServer], project: Path
) -> None:
    server = serve(project, root_path="/tools/ratchet")
    page = opened(f"{server.url}/tools/ratchet/runs")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("table", name="Runs").get_by_role("link").first.click()
    page.get_by_role("heading", name="Candidates").or_(
        page.get_by_text("rollouts")
    ).first.wait_for()
    page.reload()
    page.get_by_role("link", name="Traces").first.click()
    page.get_by_role("table", name="Traces").wait_for()
    assert page.url.startswith(f"{server.url}/tools/ratchet/traces")
    assert asked
    assert [url for url in asked if not url.startswith(f"{server.url}/tools/ratchet/")] == []
