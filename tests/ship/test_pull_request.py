"""The pull request's text: its numbers are the decision's, and nothing breaks its Markdown."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ratchet.ship.evidence_text import e_value_plot, improved_tasks, read_evidence
from ratchet.ship.pull_request import (
    BODY_LIMIT,
    code,
    fence,
    plain,
    proof_section,
    request_text,
)
from ratchet.types import Decision, FrozenResult, GuardrailResult, ShipError

DECIDED = Decision(
    verdict="promote",
    metric="exact_match",
    alpha=0.05,
    pairs=20,
    baseline=0.5,
    candidate=0.75,
    e_value=30.0,
    interval=(0.1, 0.4),
)


def test_every_number_is_the_decisions(project: Any) -> None:
    release = project.ship(notes=["Seed 3 | @ada"])
    text = Path(release.pull_request).read_text()
    assert text.startswith("# Improve `retrieval`: `exact_match` +0.0750\n")
    for part in [
        "| `retrieval.k` | `5` | `7` |",
        "| gain | interval at level 0.95 | pairs | e-value | needed |",
        "| `exact_match` | 0.4125 | 0.4875 | +0.0750 | [+0.0115, +0.1385] | 173 | 31.25 | 20 |",
        "| `latency` | 1.5 s | 1.75 s | 0.25 s | 64.5 | holds |",
        "The candidate is better | by `0.075`.",
        f"ratchet rollback {release.id[:12]}",
        f"ratchet verify {project.root.parent / 'evidence.json'}",
        '-KNOBS = ratchet.params("retrieval", k=ratchet.Int(5, 1, 20), threshold=0.3)',
        '+KNOBS = ratchet.params("retrieval", k=ratchet.Int(7, 1, 20), threshold=0.3)',
        "- Seed 3 \\| @\u200bada",
        "agent:answer",
        release.branch,
        release.commit,
        release.base,
    ]:
        assert part in text
    assert "runs of each task" not in text
    numbers = set(re.findall(r"[-+]?\d+\.\d+", text.partition("<details>")[0]))
    known = {"0.4125", "0.4875", "+0.0750", "0.95", "+0.0115", "+0.1385", "31.25"}
    assert numbers <= known | {"1.5", "1.75", "0.25", "64.5", "0.075"}


def test_it_says_how_often_each_task_was_run(project: Any) -> None:
    release = project.ship(decision=structs.replace(DECIDED, repetitions=16))
    assert " | 20 | 30 | 20 | 16 |" in Path(release.pull_request).read_text()
    assert "over 20 pairs of means of 16 runs." in project.git(
        "log", "-1", "--format=%b", release.commit
    )


def test_it_lists_frozen_tasks_broken_and_fixed_by_the_problems_title(project: Any) -> None:
    dates = FrozenResult(
        set_id="s1", problem_id="p1", title="Dates | American", tasks=20, draws=31, margin=0.36,
        baseline=0.9, candidate=0.8, e_value=70.5, passed=True, broken=("t1", "t2"), fixed=("t3",),
    )  # fmt: skip
    tools = structs.replace(dates, title="Tools", broken=(), fixed=(), baseline=0.0, candidate=0.0)
    decision = structs.replace(DECIDED, frozen=(dates, tools))
    text = Path(project.ship(decision=decision).pull_request).read_text()
    for part in [
        "| fixed problem | baseline | candidate | may worsen by | draws | e-value | |",
        "| `Dates \\| American` | 0.9 | 0.8 | 0.36 | 31 | 70.5 | holds |",
        "| `Tools` | 0 | 0 | 0.36 | 31 | 70.5 | nothing to lose |",
        "- `Dates \\| American`: broken `t1`, `t2`\n- `Dates \\| American`: fixed `t3`\n",
        "A task is broken if the baseline was right (mean of its draws at least 0.5)",
    ]:
        assert part in text
    assert "`Tools`: " not in text
    unchanged = structs.replace(DECIDED, frozen=(tools,))
    assert "no frozen task was broken or fixed" in "\n".join(proof_section(unchanged))
    assert "fixed before" not in "\n".join(proof_section(DECIDED))


def test_a_prompt_full_of_fences_stays_in_its_block(project: Any) -> None:
    candidate = project.candidate(system="```\n````md\n| a | <b> {policy}\n```` ```")
    text = Path(project.ship(candidate).pull_request).read_text()
    block = re.search(r"^(`{5,})diff\n(.*?)^\1$", text, re.S | re.M)
    assert block
    assert "+````md" in block[2]
    assert "Prompt `system`: see the patch below." in text


@pytest.mark.parametrize("value", ["a|b", "`", "``x`", "a\nb", "", "x" * 500, "<script>"])
def test_no_value_ends_its_cell(value: str) -> None:
    cell = code(value)
    assert "\n" not in cell
    assert not re.search(r"(?<!\\)\|", cell)
    ticks = re.match(r"`+", cell)
    assert ticks
    assert cell.endswith(ticks[0])
    assert ticks[0] not in cell[len(ticks[0]) : -len(ticks[0])].replace(ticks[0] + "`", "")


def test_fences_and_prose_hold_anything() -> None:
    assert fence("a\n```\nb", "text") == "````text\na\n```\nb\n````"
    assert plain("# a\n[b](c) <d> *e*") == r"\# a \[b\](c) \<d\> \*e\*"


def test_a_text_that_cannot_be_written_makes_no_branch(project: Any) -> None:
    (project.root.parent / "out").write_text("a file")
    with pytest.raises(ShipError, match="cannot be written"):
        project.ship()
    assert project.branches() == []
    (project.root.parent / "out").unlink()
    assert project.ship().branch in project.branches()


def test_what_was_not_measured_is_called_so(project: Any) -> None:
    unmeasured = GuardrailResult(
        metric="cost",
        margin=0.25,
        unit="USD",
        baseline=None,
        candidate=None,
        e_value=1.0,
        passed=False,
    )
    release = project.ship(decision=structs.replace(DECIDED, guardrails=(unmeasured,)))
    text = Path(release.pull_request).read_text()
    assert "| `cost` | not measured | not measured | 0.25 USD | 1 | not measured |" in text
    assert "holds" not in text.partition("## Tests")[0].partition("## The proof")[2]


EVIDENCE = Path(__file__).parents[1] / "prove" / "evidence_1.json"


def test_the_tasks_that_gained_most_are_named_and_none_is_quoted() -> None:
    found = improved_tasks(read_evidence(EVIDENCE))
    assert len(found) == 3
    gains = [float(each.after) - float(each.before) for each in found]
    assert gains == sorted(gains, reverse=True)
    before = found[0].rollouts[0].strip("`")
    assert before.startswith("b")
    traces = {found[0].task: "trace/1"}
    linked = improved_tasks(read_evidence(EVIDENCE), "https://ratchet.example/", traces)
    url = "https://ratchet.example/v1"
    assert linked[0].rollouts[0] == f"[`{before}`]({url}/rollouts/{before})"
    assert linked[0].trace == f"[`trace/1`]({url}/traces/trace%2F1)"
    assert linked[1].trace == found[0].trace == ""


def test_live_traces_have_a_column_where_a_task_was_captured(project: Any) -> None:
    evidence = {"evidence_path": EVIDENCE}
    task = improved_tasks(read_evidence(EVIDENCE))[1].task
    path = Path(project.ship(**evidence, traces={task: "4bf92f3577b34da6"}).pull_request)
    lines = path.read_text().splitlines()
    head = lines.index("| task that gained most | before | after | rollouts | live trace |")
    assert lines[head + 1] == "|---|---|---|---|---|"
    assert lines[head + 2].endswith(" |  |")
    assert lines[head + 3].endswith(" | `4bf92f3577b3` |")
    path.unlink()
    project.ship(**evidence)
    assert "| task that gained most | before | after | rollouts |\n|---" in path.read_text()


def test_the_plot_is_the_path_of_the_e_value() -> None:
    plot = e_value_plot(read_evidence(EVIDENCE)).splitlines()
    path, needed = (
        [float(value) for value in line.partition("[")[2].rstrip("]").split(",")]
        for line in plot[-2:]
    )
    rows = read_evidence(EVIDENCE)["pairs"]
    assert plot[2] == f'    x-axis "pairs" 1 --> {len(rows)}'
    expected = [math.log10(row["e_values"]["superiority"]) for row in rows]
    assert path == pytest.approx(expected, abs=1e-3)
    assert needed == pytest.approx([math.log10(1 / 0.007735026918962578)] * len(rows), abs=1e-3)
    many = {"plan": {"alpha": 0.05}, "pairs": rows * 100}
    assert e_value_plot(many).count(",") < 200
    assert e_value_plot({}) == ""


def test_what_is_no_evidence_is_refused(tmp_path: Path) -> None:
    (tmp_path / "e.json").write_text("[1]")
    with pytest.raises(ShipError, match=r"e\.json is not the JSON"):
        read_evidence(tmp_path / "e.json")


def test_a_body_that_is_too_long_for_the_forge_loses_its_patch_first(project: Any) -> None:
    candidate = project.candidate(system="word " * 20_000 + "{policy}")
    text = Path(project.ship(candidate, notes=["kept"]).pull_request).read_text()
    assert len(text) > BODY_LIMIT
    title, body = request_text(text)
    assert title == "Improve system: exact_match +0.0750"
    assert len(body) < BODY_LIMIT
    assert "The patch is too long for this page" in body
    assert "- kept" in body
    assert len(request_text("# t\n" + "line\n\n" * 20_000)[1]) <= BODY_LIMIT
