"""Figures are links to what they count: the list behind each has as many rows as it says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ratchet.store import Store
from ratchet.types import (
    Cycle,
    CycleTransition,
    Label,
    LiveOutcome,
    ReportCard,
    StageDecision,
)
from tests.dashboard import seeded
from tests.dashboard.conftest import url_of
from tests.serving import RunningServer

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

Opened = Callable[..., Any]


def whole(text: str) -> int:
    """The first number of a text."""
    found = re.search(r"\d[\d,]*", text)
    assert found is not None, text
    return int(found.group().replace(",", ""))


def figure(page: Any, label: str) -> Any:
    """A figure by its label."""
    return page.locator(".figure", has_text=re.compile(rf"(?<![a-z ]){label}")).first


def rows(page: Any, table: str) -> int:
    """Rows of a table, all of its pages."""
    found = page.get_by_role("table", name=table, exact=True).locator("tbody tr")
    found.first.wait_for()
    more = page.get_by_role("button", name=re.compile("^(More|All)"))
    while more.count():
        before = found.count()
        more.click()
        found.nth(before).wait_for()
    count: int = found.count()
    return count


def test_figures_of_an_agent_lead_to_its_traces(opened: Opened, reading: RunningServer) -> None:
    page = opened(reading.url)
    agent = page.get_by_role("region", name=f"Agent {seeded.AGENT}")
    for label, filters in {
        "traces": "from",
        "failed": "errors=1",
        "feedback": "feedback=1",
    }.items():
        box = figure(agent, label)
        counted = box.locator(".muted").last if label != "traces" else box.locator("b")
        number = whole(re.sub(r"\(0 to 1\)", "", counted.inner_text()))
        box.locator("a").click()
        page.wait_for_url(f"**/traces?*{filters}*")
        assert rows(page, "Traces") == number, label
        page.go_back()
        agent.wait_for()
    figure(agent, "cost").locator("a").click()
    page.wait_for_url("**/traces?*sort=costliest*")
    page.go_back()
    bar = agent.locator("svg a").last
    number = whole(bar.get_attribute("aria-label").rpartition(": ")[2])
    bar.click()
    page.wait_for_url("**/traces?*until=*")
    assert rows(page, "Traces") == number


def test_figures_of_a_run_lead_to_its_rollouts_and_tasks(
    opened: Opened, reading: RunningServer, demo: Path
) -> None:
    with Store.open(url_of(demo)) as store:
        run = store.runs.list(1)[0]
        tried = sum(
            each.candidate_id == run.best_id and each.purpose.startswith("learn/")
            for each in store.rollouts.list(queue=run.id, candidate_id=run.best_id, limit=1000)[0]
        )
    page = opened(f"{reading.url}/runs/{run.id}")
    number = whole(figure(page, "rollouts").locator("b").inner_text())
    figure(page, "rollouts").locator("a").click()
    page.get_by_text(re.compile(f"^{number} rollouts")).wait_for()
    page.go_back()
    best = figure(page, "best on val")
    number = whole(figure(page, "baseline on val").locator(".muted").inner_text())
    best.locator("a").click()
    page.wait_for_url("**split=val#tasks")
    assert rows(page, "Tasks") == number
    won = page.locator("a", has_text=re.compile(r"^\d+ won$"))
    number = whole(won.inner_text())
    won.click()
    page.wait_for_url("**outcome=won*")
    page.get_by_text(re.compile(f"^{number} tasks?$")).wait_for()
    assert rows(page, "Tasks") == number
    page.goto(f"{reading.url}/runs/{run.id}")
    chosen = (
        page.get_by_role("table", name="Candidates")
        .get_by_role("row")
        .filter(has=page.get_by_text("✓ chosen"))
    )
    chosen.get_by_role("link").first.click()
    page.get_by_text(re.compile(f"^{tried} rollouts")).wait_for()
    assert rows(page, "Rollouts") == tried


def test_figures_of_an_experiment_lead_to_its_pairs(
    opened: Opened, reading: RunningServer, demo: Path
) -> None:
    with Store.open(url_of(demo)) as store:
        experiment = store.experiments.list(1)[0]
        release = next(each for each in store.releases.list() if each.branch)
    decision = experiment.decision
    assert decision is not None
    page = opened(f"{reading.url}/releases/{release.id}")
    figure(page, "pairs").locator("a").click()
    page.wait_for_url(f"**/experiments/{experiment.id}#pairs")
    assert rows(page, "Pairs") == decision.pairs
    for outcome in ("won", "lost"):
        link = page.locator("a", has_text=re.compile(rf"^\d+ {outcome}$"))
        number = whole(link.inner_text())
        link.click()
        page.wait_for_url(f"**pairs={outcome}#pairs")
        assert rows(page, "Pairs") == number
    guardrail = next(each for each in decision.guardrails if each.metric == "latency")
    assert guardrail.candidate is not None
    row = page.get_by_role("table", name="Guardrails").get_by_role("row", name="latency")
    row.get_by_role("link").last.click()
    page.wait_for_url("**metric=latency#pairs")
    assert rows(page, "Pairs") == decision.pairs
    shown = page.get_by_role("table", name="Pairs").locator("tbody tr td:nth-child(7)")
    values = [float(text.replace(",", "")) for text in shown.all_inner_texts()]
    assert sum(values) / len(values) == pytest.approx(guardrail.candidate, rel=0.02)


def test_figures_of_live_stages_and_groups_lead_to_their_calls(
    opened: Opened, reading: RunningServer
) -> None:
    page = opened(f"{reading.url}/cycles/{seeded.CYCLE}")
    links = {
        "3 of the candidate": ("Traces", 3),
        "2 calls of the baseline": ("Traces", 2),
        "4 calls of the baseline": ("Calls", 4),
        "4 of the candidate": ("Calls", 4),
        "1 blocked": ("Calls", 1),
        "1 without a score": ("Calls", 1),
    }
    for text, (table, count) in links.items():
        page.get_by_role("link", name=text).click()
        assert rows(page, table) == count, text
        page.go_back()
    calls = page.get_by_role("table", name="Calls")
    groups = page.get_by_role("table", name="Groups of the traffic")
    groups.first.get_by_role("row", name="refunds").get_by_role("link").click()
    page.wait_for_url("**stage=shadow&group=refunds#calls")
    assert rows(page, "Calls") == 2
    calls.get_by_role("link", name="0.7").first.click()
    page.get_by_role("heading", name="Rollout of task t0").wait_for()
    page.go_back()
    calls.get_by_role("link").first.click()
    page.get_by_role("heading", name="invoke_agent support", level=1).wait_for()
    page.go_back()
    page.go_back()
    groups = groups.last
    groups.get_by_role("row", name="refunds").get_by_role("link").click()
    page.wait_for_url("**group=refunds*")
    assert rows(page, "Traces") == 3
    page.get_by_text("ratchet traces --agent support --canary c0ffee").wait_for()
    page.get_by_role("button", name="group refunds").click()
    page.wait_for_url(lambda url: "group" not in url)
    page.locator("tbody tr").nth(4).wait_for()
    assert rows(page, "Traces") == 5
    page.goto(f"{reading.url}/releases/{'5e1ea5e0' * 4}")
    page.locator("dd a.behind").click()
    page.wait_for_url("**candidate=*")
    assert rows(page, "Traces") == 3


def test_figures_of_a_watch_lead_to_its_calls_and_to_those_before_it(
    opened: Opened, serve: Callable[..., RunningServer], project: Path
) -> None:
    def batch(count: int, **fields: Any) -> list[Any]:
        found = [
            LiveOutcome(trace_id=f"{n + 1000:032x}", unit=str(n), at=1.0, latency_s=1.4, **fields)
            for n in range(count)
        ]
        return list(msgspec.to_builtins(found))

    decision = StageDecision(
        stage="watch",
        verdict="pass",
        metric="score",
        alpha=0.05,
        baseline_count=0,
        candidate_count=3,
        baseline=None,
        candidate=0.8,
        e_value=1.0,
        needed=20.0,
        sentence="The watch ended without an alarm.",
    )
    cycle = Cycle(
        id="watched",
        agent="helper",
        state="watch",
        trigger="",
        started_at=1.0,
        entered_at=1.0,
        updated_at=1.0,
        version=1,
        decisions=(decision,),
    )
    move = CycleTransition(
        cycle_id="watched",
        number=1,
        source="idle",
        target="watch",
        rule="",
        inputs="",
        actor="autopilot",
        at=1.0,
    )
    with Store.open(url_of(project)) as store:
        store.cycles.put(cycle, move)
        seen = {"observations": batch(3, score=0.8), "cursor": None}
        store.journal.append("watched", "watch/batch/000000", seen, 1.0)
        store.journal.append("watched", "watch/before", batch(5, score=0.7), 1.0)
    page = opened(f"{serve(project).url}/cycles/watched")
    for text, count in {"3 calls of the release": 3, "5 calls before it": 5}.items():
        page.get_by_role("link", name=text).click()
        page.get_by_text(f"{count} calls", exact=True).wait_for()
        assert rows(page, "Calls") == count


def test_figures_of_a_dataset_lead_to_its_tasks(
    opened: Opened, reading: RunningServer, demo: Path
) -> None:
    with Store.open(url_of(demo)) as store:
        dataset = store.datasets.list()[0]
    page = opened(f"{reading.url}/datasets/{dataset.name}")
    page.locator("dd a.behind").first.wait_for()
    for link in range(len(dataset.splits)):
        number = whole(page.locator("dd a.behind").nth(link).inner_text())
        page.locator("dd a.behind").nth(link).click()
        page.wait_for_url("**split=*")
        page.get_by_text(f"{number} tasks", exact=True).wait_for()
        assert rows(page, "Tasks") == number
    page.goto(f"{reading.url}/datasets/{dataset.name}")
    page.get_by_text("What the results of candidates say about it").click()
    kinds = page.get_by_role("table", name="Kinds of live inputs")
    kinds.locator("summary").first.click()
    cell = kinds.locator("tbody tr td").first
    number = whole(cell.inner_text().partition("%")[2])
    assert cell.get_by_role("link").count() == min(number, 50)
    kind = kinds.locator("a.behind").first
    number = whole(kind.inner_text())
    kind.click()
    page.wait_for_url("**kind=*")
    page.get_by_text(re.compile(f"^{number} tasks?$")).first.wait_for()
    assert rows(page, "Tasks") == number
    page.reload()  # the kind is in the address
    page.get_by_text(re.compile(f"^{number} tasks?$")).first.wait_for()


def test_figures_of_a_report_card_lead_to_its_outputs(
    opened: Opened, reading: RunningServer
) -> None:
    page = opened(f"{reading.url}/evaluators/{'ca4d0000' * 4}")
    checks = page.get_by_role("table", name="Checks")
    for check, count in {"kappa": 150, "true positive rate": 65, "unscored": 2}.items():
        row = checks.get_by_role("row").filter(has=page.get_by_role("cell", name=check, exact=True))
        row.get_by_role("link").click()
        page.wait_for_url("**of=*#outputs")
        page.get_by_text(f"{count} outputs", exact=True).wait_for()
        assert rows(page, "Outputs") == count, check
    assert checks.get_by_role("row", name="damage").get_by_role("link").count() == 0
    page.get_by_text("made for the measurement and not kept").wait_for()
    page.get_by_role("link", name="152 outputs").click()
    assert rows(page, "Outputs") == 152
    page.get_by_role("group", name="Share of right outputs").get_by_role("link").nth(1).click()
    page.wait_for_url("**of=point*#outputs")
    assert rows(page, "Outputs") == 30
    shown = page.get_by_role("table", name="Outputs").locator("tbody tr")
    assert {row.split("\t")[1] for row in shown.all_inner_texts()} == {"0.3"}
    shown.first.get_by_role("link").click()
    page.get_by_role("heading", name=re.compile("^Rollout ")).wait_for()


def test_figures_of_a_training_lead_to_the_rollouts_of_its_steps(
    opened: Opened, reading: RunningServer
) -> None:
    page = opened(f"{reading.url}/training")
    page.get_by_role("link", name=re.compile("-grpo$")).click()
    val = page.get_by_role("img", name="mean on val: reward, or negative loss over 32 steps")
    val.locator(".u-legend").get_by_text("0.6").wait_for()
    step = page.get_by_role("table", name="Steps").get_by_role("row").nth(12)
    assert step.get_by_role("cell").first.inner_text() == "20"
    step.get_by_role("link").first.click()
    page.wait_for_url(re.compile(r"purpose=train%2F.*%2Ftrain-00019$"))
    assert rows(page, "Rollouts") == 8
    page.go_back()
    step.get_by_role("link").last.click()
    page.wait_for_url("**candidate=*")
    assert rows(page, "Rollouts") == 5
    page.go_back()
    page.get_by_role("link", name=re.compile("^run ")).click()
    page.get_by_role("heading", name=re.compile("^Run ")).wait_for()
    page.goto(f"{reading.url}/training")
    page.get_by_role("link", name=re.compile("-sft$")).click()
    page.get_by_text("It learns from recorded examples").wait_for()


def test_the_labels_that_a_report_card_rests_on_are_listed(
    opened: Opened, serve: Callable[..., RunningServer], project: Path
) -> None:
    with Store.open(url_of(project)) as store:
        found, _ = store.rollouts.list(status="succeeded", limit=3)
        given = [Label(id=each.id, rollout_id=each.id, value=1.0, labeller="ann") for each in found]
        store.labels.add(given, 1.0)
        card = ReportCard(id="ab" * 16, evaluator="mine", version="1", verdict="decides", labels=3)
        store.report_cards.put(card)
    page = opened(f"{serve(project).url}/evaluators/{card.id}")
    page.get_by_role("link", name="3 of them labelled").click()
    page.wait_for_url("**/labels")
    assert rows(page, "Labels") == card.labels
