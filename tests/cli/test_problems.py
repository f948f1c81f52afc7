"""`ratchet problems`, and work on one: from live traces to a release, and back when it returns."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from ratchet.autopilot.project import Project as AutopilotProject
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.store import Store
from ratchet.types import Feedback
from tests.autopilot.live_traces import record
from tests.cli.conftest import CONFIG, INLINE, MakeProject, Project
from tests.llm.endpoint import Endpoint, Reaction, Request, answer

COACH = """
[coach]
model = "simulated-author"
base_url = "{url}"
input_price = 1.0
output_price = 1.0
"""

KEY = {"OPENAI_API_KEY": "none"}


def with_failures(project: Project, count: int = 12) -> Store:
    """The project's store with live traces of its agent, of which some are disliked."""
    store = Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db")
    now = time.time()
    for number in range(count):
        if number >= 5:
            record(store, number, 1_000 + number, 0.4, agent="agent", at=now - 600 + number)
    complain(store, range(5), now - 600)
    return store


def complain(store: Store, numbers: Sequence[int], at: float) -> None:
    """Store live traces of the agent that are disliked, for one reason."""
    for number in numbers:
        record(store, number, 1_000 + number, 0.4, agent="agent", at=at + number / 100)
    feedback = [
        Feedback(
            id=f"f{number}",
            kind="thumbs",
            value=0.0,
            trace_id=f"{number:032x}",
            comment="too low",
        )
        for number in numbers
    ]
    store.feedback.add(feedback, at)


def test_problems_are_listed_shown_ignored_and_reopened(make_project: MakeProject) -> None:
    project = make_project()
    with_failures(project).close()
    listed: Any = project.json("problems")
    (report,) = listed["problems"]
    id = report["problem"]["id"]
    assert (report["traces"], listed["traces"]) == (5, 12)
    text = project.ratchet("problems").stdout
    assert f"ratchet improve --problem {id[:6]}" in text
    shown = project.ratchet("problems", "show", id[:4]).stdout
    assert "too low" in shown
    refused = project.ratchet("problems", "ignore", id[:4])
    assert refused.returncode == 2
    assert "--reason" in refused.stderr
    assert project.ratchet("problems", "ignore", id[:4], "--reason", "known").returncode == 0
    assert "No problem in 12 traces" in project.ratchet("problems").stdout
    assert project.ratchet("problems", "reopen", id[:4]).returncode == 0
    assert id[:6] in project.ratchet("problems").stdout
    unknown = project.ratchet("problems", "show", "ffff")
    assert unknown.returncode == 2
    assert "ratchet problems" in unknown.stderr


def test_without_traces_it_says_how_to_record_some(make_project: MakeProject) -> None:
    project = make_project()
    assert "ratchet init" in project.ratchet("problems").stdout


def test_work_on_a_problem_makes_tasks_of_its_traces_and_ends_with_its_release(
    make_project: MakeProject,
) -> None:
    project = make_project()
    with_failures(project).close()
    listed: Any = project.json("problems")
    id = listed["problems"][0]["problem"]["id"]
    improved = project.ratchet("improve", "--problem", id[:6])
    assert improved.returncode == 0, improved.stderr
    assert "new task" in improved.stdout
    shown: Any = project.json("problems", "show", id)
    problem = shown["report"]["problem"]
    assert problem["state"] == "proposed", problem
    branch = problem["reason"].split(": ")[1].rstrip(".")
    project.git("merge", "--no-edit", branch)
    project.json("problems")  # it sees the merge
    fixed: Any = project.json("problems", "show", id)
    assert fixed["report"]["problem"]["state"] == "fixed"
    frozen: Any = project.json("frozen", "show", fixed["report"]["problem"]["frozen_set"])
    kept = [task["input"] for task in frozen["tasks"]]
    assert len([value for value in kept if value >= 1_000]) == 5  # the failures
    assert 5 < len(kept) <= 20
    refused = project.ratchet("improve", "--problem", id[:6])
    assert refused.returncode == 2
    assert "reopen" in refused.stderr
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        complain(store, range(100, 104), time.time() + 1)
    again = project.ratchet("problems")
    assert "Returned" in again.stdout


def test_the_coach_writes_titles_and_one_that_is_unusable_changes_nothing(
    make_project: MakeProject,
) -> None:
    def titles(request: Request) -> Reaction:
        ids = [line[4:] for line in request.said.splitlines() if line.startswith("id: ")]
        if not ids:
            return answer("Yes.")  # the check of the coach
        title = "x" * 101 if asked else "Answers are too low"
        asked.append(request.said)
        return answer(json.dumps({"titles": [{"id": id, "title": title} for id in ids]}))

    asked: list[str] = []
    with Endpoint(titles) as endpoint:
        project = make_project(config=CONFIG + INLINE + COACH.format(url=endpoint.url))
        with_failures(project).close()
        listed: Any = project.json("problems")
        id = listed["problems"][0]["problem"]["id"]
        named = project.ratchet("problems", "name", env=KEY)
        assert named.returncode == 0, named.stderr
        assert "Answers are too low" in project.ratchet("problems").stdout
        assert "too low" in asked[0]
        again = project.ratchet("problems", "name", id[:6], env=KEY)
        assert "keeps its title" in again.stderr
    shown: Any = project.json("problems", "show", id)
    assert shown["report"]["problem"]["title"] == "Answers are too low"


def test_the_coach_reads_each_failing_trace_once_and_a_mistake_that_it_names_becomes_a_problem(
    make_project: MakeProject,
) -> None:
    mistake = "It answers before it has looked up the price."

    def read(request: Request) -> Reaction:
        traces = range(1, 1 + request.said.count("## Trace "))
        if not traces:
            return answer("Yes.")  # the check of the coach
        readings = [{"trace": n, "wrong": f"It guessed {n}.", "mistake": mistake} for n in traces]
        return answer(json.dumps({"readings": readings}))

    with Endpoint(read) as endpoint:
        project = make_project(config=CONFIG + INLINE + COACH.format(url=endpoint.url))
        with_failures(project).close()
        listed = project.ratchet("problems").stdout
        assert "The coach can read 5 failing traces" in listed
        before: Any = project.json("problems")
        shown = project.ratchet("problems", "show", before["problems"][0]["problem"]["id"]).stdout
        assert "The coach can read 5 of its traces" in shown
        done = project.ratchet("problems", "read", env=KEY)
        assert done.returncode == 0, done.stderr
        assert "Read 5 failing traces in 1 call" in done.stdout
        again = project.ratchet("problems", "read", env=KEY)
        assert "The coach has read every failing trace." in again.stdout
    (report,) = project.json("problems")["problems"]
    assert (report["problem"]["title"], report["traces"]) == (mistake, 5)
    assert (
        "wrong    It guessed "
        in project.ratchet("problems", "show", report["problem"]["id"]).stdout
    )


def test_a_problem_of_another_agent_in_the_store_is_refused_and_lists_name_agents(
    make_project: MakeProject,
) -> None:
    project = make_project()
    store = with_failures(project)
    for number in range(200, 204):
        record(store, number, "q", error="no key", agent="other", at=time.time() - 60)
    store.close()
    listed = project.ratchet("problems")
    assert "other" in listed.stdout
    found: Any = project.json("problems", "--agent", "other")
    refused = project.ratchet("improve", "--problem", found["problems"][0]["problem"]["id"])
    assert refused.returncode == 2
    assert "'other'" in refused.stderr
    assert "[autopilot]" in refused.stderr


def test_a_wrong_store_is_no_new_one(make_project: MakeProject) -> None:
    project = make_project()
    wrong = project.ratchet("problems", "--store", "sqlite:///typo.db")
    assert wrong.returncode == 2
    assert "There is no store" in wrong.stderr
    assert not (project.root / "typo.db").exists()


def test_captured_tasks_stay_when_the_task_file_changes(make_project: MakeProject) -> None:
    project = make_project()
    with_failures(project).close()
    listed: Any = project.json("problems")
    id = listed["problems"][0]["problem"]["id"]
    assert project.ratchet("improve", "--problem", id, "--no-ship").returncode == 0
    with (project.root / "tasks.jsonl").open("a") as file:
        file.write('{"id": "new", "input": 77777, "expected": 1}\n')
    project.commit()
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        dataset, sentences = project_dataset(AutopilotProject.find(project.root), store=store)
    captured = [task for task in dataset.tasks if task.origin.made == "captured"]
    assert len(captured) == 5
    assert {"new"} < {task.id for task in dataset.tasks}
    assert "5 tasks captured from live traffic" in " ".join(sentences)
