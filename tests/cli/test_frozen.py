"""`ratchet frozen`: what keeps a fixed problem fixed, shown and corrected by a person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ratchet.autopilot import Project as RatchetProject
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.types import FrozenSet, Task
from tests.cli.conftest import MakeProject, Project


def frozen(project: Project) -> FrozenSet:
    own = RatchetProject.find(project.root)
    kept = FrozenSet(
        id="5e7f00d1" + "0" * 56, project=own.identity(), problem_id="ab" * 32,
        title="Dates are American", loss=0.12, created_at=1_760_000_000.0,
        tasks=(Task("q1", {"day": "[5th]"}, "2026-03-05"), Task("q2", 7, "2026-04-07")),
    )  # fmt: skip
    with own.open_store() as store:
        store.frozen_sets.put(kept)
    return kept


def test_a_project_without_a_fixed_problem_has_no_frozen_set(make_project: MakeProject) -> None:
    project = make_project()
    assert "There is no frozen set" in project.ratchet("frozen", "list").stdout
    missing = project.ratchet("frozen", "show", "ab")
    assert missing.returncode == 2
    assert "This project has no frozen set 'ab'" in missing.stderr


def test_sets_are_listed_and_shown_with_their_tasks(make_project: MakeProject) -> None:
    project = make_project()
    frozen(project)
    listed = project.ratchet("frozen", "list").stdout
    assert "5e7f00d1" in listed
    assert "Dates are American" in listed
    shown = project.ratchet("frozen", "show", "5e7f").stdout
    assert "version 1, of problem abababab: Dates are American" in shown
    assert '{"day": "[5th]"}' in shown
    as_json = json.loads(project.ratchet("frozen", "list", "--json").stdout)
    assert [task["id"] for task in as_json["frozen_sets"][0]["tasks"]] == ["q1", "q2"]


def test_a_wrong_answer_is_corrected_and_a_task_removed_with_a_trace(
    make_project: MakeProject,
) -> None:
    project = make_project()
    frozen(project)
    done = project.ratchet(
        "frozen", "correct", "5e7f", "q1", "--expected", '"2026-05-03"', "--reason", "Typing error",
        "--by", "Reviewer",
    )  # fmt: skip
    assert (
        "Corrected task q1 of frozen set 5e7f00d1, which has 2 tasks in version 2." in done.stdout
    )
    removed = project.ratchet(
        "frozen", "correct", "5e7f", "q2", "--remove", "--reason", "It has two answers", "--json"
    )
    after = json.loads(removed.stdout)
    assert after["version"] == 3
    assert [(task["id"], task["expected"]) for task in after["tasks"]] == [("q1", "2026-05-03")]
    assert [(c["task_id"], c["before"], c["after"]) for c in after["corrections"]] == [
        ("q1", "2026-03-05", "2026-05-03"),
        ("q2", "2026-04-07", None),
    ]
    shown = project.ratchet("frozen", "show", "5e7f").stdout
    assert 'q1: "2026-03-05" → "2026-05-03". Reviewer: Typing error' in shown


def test_a_correction_that_says_nothing_is_refused_with_what_is_expected(
    make_project: MakeProject,
) -> None:
    project = make_project()
    frozen(project)
    for given, message in (
        (("--expected", "a text"), "--expected 'a text' is not JSON"),
        (("--expected", "null"), "--expected null is not an answer"),
        ((), "Give either --expected or --remove"),
        (("--remove", "--expected", "1"), "Give either --expected or --remove"),
    ):
        done = project.ratchet("frozen", "correct", "5e7f", "q1", "--reason", "so", *given)
        assert done.returncode == 2
        assert message in done.stderr


def test_an_improvement_runs_the_frozen_sets_and_the_pull_request_says_what_they_show(
    make_project: MakeProject,
) -> None:
    project = make_project()
    own = RatchetProject.find(project.root)
    kept = FrozenSet(
        id="c0" * 32, project=own.identity(), problem_id="ab" * 32, title="Small numbers",
        tasks=tuple(Task(f"f{number}", number) for number in range(20)), created_at=1.0,
    )  # fmt: skip
    with own.open_store() as store:
        store.frozen_sets.put(kept)
        splits = project_dataset(own, store=store)[0].splits
    assert {splits[f"t{number}"] for number in range(20)} == {"train"}
    done = project.ratchet("improve")
    assert done.returncode == 0, done.stderr
    told = " ".join((done.stdout + done.stderr).split())
    assert "1 frozen set guards this proof: 'Small numbers'." in told
    assert "The pairs promote the candidate; now its frozen sets are run." in told
    assert "Proved to stay fixed: 'Small numbers'." in told
    verified = project.json("verify")
    assert verified["ok"] is True
    releases: Any = project.json("releases")["releases"]
    text = Path(releases[0]["pull_request"]).read_text()
    assert "### Problems fixed before" in text
    assert "| `Small numbers` | " in text
    assert "- `Small numbers`: fixed `f" in text
