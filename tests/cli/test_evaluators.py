"""`ratchet evaluators`, and `ratchet improve` with an evaluator that may only advise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from ratchet.store import Store
from ratchet.types import Label, Outcome, Rollout
from tests.cli.conftest import CONFIG, INLINE, MakeProject, Project

AGENT = """
import ratchet

KNOBS = ratchet.params("knobs", aim=ratchet.Float(0.0, 0.0, 1.0))


@ratchet.agent
def answer(number):
    right = number % 10 < 2 + 8 * KNOBS.aim
    return f"The answer is {number * 3 + (0 if right else 7)}."


@ratchet.evaluator
def is_right(output, expected):
    return str(expected) in output.replace(".", "").split()


@ratchet.evaluator
def looks_right(output, input):
    return str(input * 3) in output.replace(".", "").split()


@ratchet.evaluator
def generous(output, expected):
    return output != "" and expected is not None
"""


def config(*names: str, vouched: bool = False) -> str:
    """A configuration with these evaluators."""
    vouch = "\nvouched = true" if vouched else ""
    sections = "\n".join(f'[[evaluators]]\nuse = "agent:{name}"{vouch}\n' for name in names)
    own = '[[evaluators]]\nuse = "agent:closeness"\nvouched = true\n'
    assert own in CONFIG
    return CONFIG.replace(own, sections) + INLINE


def build(make_project: MakeProject, *names: str, vouched: bool = False) -> Project:
    """A project whose tasks have expected answers."""
    project = make_project(agent=AGENT, config=config(*names, vouched=vouched))
    lines = [json.dumps({"id": f"t{n}", "input": n, "expected": n * 3}) for n in range(1000, 1240)]
    project.write("tasks.jsonl", "\n".join(lines) + "\n")
    project.commit("tasks")
    return project


def label(project: Project, count: int) -> None:
    """Give labels to some rollouts, as people would."""
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        found, _ = store.rollouts.list(status="succeeded", limit=count)
        given = [
            Label(
                id=r.id, rollout_id=r.id, value=float(str(r.expected) in r.output), drawn="random"
            )
            for r in found
        ]
        store.labels.add(given, 1.0)


def test_evaluators_are_checked_listed_and_shown(make_project: MakeProject) -> None:
    project = build(make_project, "is_right", "looks_right", "generous")
    project.json("eval", "--split", "all", "--limit", "80")
    before: Any = project.json("evaluators", "list")["evaluators"]
    assert [row["card"] for row in before] == [None] * 5
    cards: Any = project.json("evaluators", "check")["cards"]
    assert {card["evaluator"]: card["verdict"] for card in cards} == {
        "is_right": "decides",
        "looks_right": "advises",
        "generous": "rejected",
    }
    assert cards[1]["labels_needed"] == 50
    listed: Any = project.json("evaluators", "list")["evaluators"]
    assert {row["evaluator"]: row["basis"] for row in listed} == {
        "is_right": "comparison",
        "looks_right": "opinion",
        "generous": "comparison",
        "latency": "measurement",
        "cost": "measurement",
    }
    assert listed[0]["card"]["verdict"] == "decides"
    shown = project.ratchet("evaluators", "show", "generous")
    assert shown.returncode == 0
    assert "empty, refusing or broken outputs pass" in shown.stdout
    assert "injections" in shown.stdout
    missing = project.ratchet("evaluators", "check", "is_rihgt")
    assert missing.returncode == 2
    assert "There is no evaluator 'is_rihgt'" in missing.stderr


def test_labels_make_an_opinion_decide_and_plot_its_reliability(
    make_project: MakeProject, tmp_path: Path
) -> None:
    project = build(make_project, "looks_right")
    project.json("eval", "--split", "all", "--limit", "80")
    unlabelled = project.ratchet("evaluators", "check", "--plot", "plot.png")
    assert unlabelled.returncode == 2
    assert "reliability diagram needs labels" in unlabelled.stderr
    label(project, 60)
    cards: Any = project.json("evaluators", "check", "--plot", "plot.png")["cards"]
    assert (cards[0]["verdict"], cards[0]["labels"]) == ("decides", 60)
    assert (project.root / "plot.png").read_bytes()[:4] == b"\x89PNG"
    done = project.ratchet("evaluators", "show", "looks_right", "--plot", "out/plot.html")
    assert "Plot: out/plot.html" in done.stdout
    page = (project.root / "out" / "plot.html").read_text()
    assert "<svg" in page
    assert "looks_right: decides" in page
    refused = project.ratchet("evaluators", "show", "looks_right", "--plot", "plot.gif")
    assert "neither a .png nor an .html file" in refused.stderr


def test_improve_refuses_an_opinion_before_anything_runs_and_says_what_to_do(
    make_project: MakeProject,
) -> None:
    project = build(make_project, "looks_right")
    done = project.ratchet("improve")
    assert done.returncode != 0
    assert (
        "The evaluator 'looks_right' cannot decide an experiment, because it may only advise"
        in (" ".join(done.stderr.split()))
    )
    assert "label 50 rollouts" in done.stderr
    assert "vouched = true" in done.stderr
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        assert store.rollouts.counts() == {}
    evaluated = " ".join(project.ratchet("eval").stdout.split())
    assert "ratchet improve would stop here. The evaluator 'looks_right' cannot" in evaluated
    toml = project.root / "ratchet.toml"
    toml.write_text(config("looks_right", vouched=True))
    project.commit("vouch")
    found = project.json("improve")
    assert found["verdict"] == "promote"
    trust: Any = found["evaluator"]
    assert "the project vouches for it" in trust["sentence"]


def test_improve_refuses_a_flawed_comparison_before_it_learns(make_project: MakeProject) -> None:
    project = build(make_project, "generous")
    done = project.ratchet("improve")
    assert done.returncode != 0
    assert "because it is rejected by its report card" in " ".join(done.stderr.split())
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        (card,) = store.report_cards.list()
        assert store.rollouts.counts() == {}, "nothing was run"
    assert card.verdict == "rejected"
    checked: Any = project.json("evaluators", "check")["cards"]
    assert [each["id"] for each in checked] == [card.id]


def test_a_decision_shows_what_its_evaluator_rests_on(make_project: MakeProject) -> None:
    project = build(make_project, "is_right")
    found = project.json("improve")
    trust: Any = found["evaluator"]
    assert trust["verdict"] == "decides"
    assert "compares with the expected answer" in trust["sentence"]
    evidence = json.loads(Path(str(found["evidence"])).read_text())
    assert evidence["context"]["evaluator"] == trust
    assert project.json("verify")["ok"] is True
    releases: Any = project.json("releases")["releases"]
    text = Path(releases[0]["pull_request"]).read_text()
    assert "compares with the expected answer" in text


ORDERS = """
import ratchet


@ratchet.agent
def answer(number):
    items = [{"price": 2 + number % 5, "count": 1 + number % 3}, {"price": 7, "count": 2}]
    total = sum(item["price"] * item["count"] for item in items)
    return {"items": items, "total": total + (number % 50 == 0)}


@ratchet.evaluator
def has_a_total(output):
    return "total" in output
"""


def test_evaluators_are_generated_from_outputs_and_can_be_used_at_once(
    make_project: MakeProject,
) -> None:
    project = make_project(agent=ORDERS, config=config("has_a_total"), tasks=80)
    few = project.ratchet("evaluators", "generate")
    assert "There are 0 good outputs" in few.stderr
    project.json("eval", "--split", "all")
    shown: Any = project.json("evaluators", "generate")
    assert shown["written"] == []
    assert not (project.root / "generated_evaluators.py").exists()
    done: Any = project.json("evaluators", "generate", "--write")
    by_name = {row["name"]: row for row in done["evaluators"]}
    invariant = by_name["total_equals_sum_of_price_count"]
    assert (invariant["kept"], invariant["verdict"]) == (True, "advises"), "there are no labels"
    assert [Path(path).name for path in done["written"]] == [
        "generated_evaluators.py",
        "ratchet.toml",
    ]
    row: Any = project.json("eval", "--split", "all")["candidates"]
    means = {each["evaluator"]: each["mean"] for each in row[0]["evaluators"]}
    assert 0.9 < means["total_equals_sum_of_price_count"] < 1.0
    assert means["fits_the_schema"] == 1.0


def test_one_output_is_tried_and_its_score_is_not_stored(make_project: MakeProject) -> None:
    project = build(make_project, "is_right", "generous")
    project.write(
        "ratchet.toml",
        (project.root / "ratchet.toml").read_text()
        + '\n[[evaluators]]\nuse = "judge"\nname = "taste"\nmodel = "m"\n'
        + 'criteria = ["Is it kind?"]\n',
    )
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        right = Rollout(id="right1", queue="q", candidate_id="", task_id="t", input=2, expected=6)
        store.rollouts.create([right, msgspec.structs.replace(right, id="waits1")], 1.0)
        (claimed,) = store.rollouts.claim("q", "w", 1, 60.0, 1.0)
        done = Outcome(
            rollout_id=claimed.rollout.id,
            fence=claimed.fence,
            status="succeeded",
            started_at=1.0,
            ended_at=2.0,
            duration_s=1.0,
            output="The answer is 6.",
        )
        store.rollouts.finish([done], 2.0)
    tried: Any = project.json("evaluators", "try", "is_right", "right")
    assert (tried["subject"], tried["score"]["value"], tried["models"]) == ("right1", 1.0, [])
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        assert store.scores.of(["right1"])["right1"] == []
    listed: Any = project.json("evaluators", "list")["evaluators"]
    assert {row["evaluator"]: row["models"] for row in listed}["taste"] == ["m"]
    for arguments, why in (
        (("taste", "right1", "--no-model"), "'taste' calls m, which may cost money"),
        (("is_right", "waits1"), "has not ended: it is queued"),
        (("is_right", "nothing"), "There is no rollout or trace 'nothing'"),
        (("is_rihgt", "right1"), "There is no evaluator 'is_rihgt'"),
    ):
        refused = project.ratchet("evaluators", "try", *arguments)
        assert refused.returncode == 2
        assert why in refused.stderr
