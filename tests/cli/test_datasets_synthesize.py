"""`ratchet datasets synthesize`: with a coach over HTTP, an oracle, the agent, or no model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from ratchet.store import Store
from tests.llm.endpoint import Endpoint, answer
from tests.simulator import Settings, SimulatorThread

if TYPE_CHECKING:
    from tests.cli.conftest import MakeProject, Project

AGENT = '''
import re
import ratchet


@ratchet.agent
def add(text):
    """Adds up the numbers of a request."""
    return sum(map(int, re.findall(r"[0-9]+", text)))


def right(text):
    numbers = re.findall(r"[0-9]+", text)
    return sum(map(int, numbers)) if len(numbers) == 2 else None
'''

CONFIG = """
[agent]
entry = "agent:add"

[[evaluators]]
use = "exact_match"

[run]
executor = "inline"
"""

COACH = """
[coach]
model = "simulated-author"
base_url = "{url}"
input_price = 1.0
output_price = 1.0
"""

KEY = {"OPENAI_API_KEY": "none"}


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorThread]:
    with SimulatorThread(Settings(seed="3")) as started:
        yield started


def adding(make_project: MakeProject, coach: str = "") -> Project:
    project = make_project(agent=AGENT, config=CONFIG + coach)
    lines = [
        json.dumps({"id": f"t{n}", "input": f"Add {n} and {3 * n}", "expected": 4 * n})
        for n in range(30)
    ]
    project.write("tasks.jsonl", "\n".join(lines) + "\n")
    return project


def made_by(project: Project, *arguments: str) -> dict[str, Any]:
    done = project.ratchet("datasets", "synthesize", "tasks", *arguments, "--json", env=KEY)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def total(text: str) -> int:
    return sum(int(word) for word in text.split() if word.isdigit())


def test_without_a_model_an_oracle_answers_recombined_inputs(make_project: MakeProject) -> None:
    project = adding(make_project)
    found = made_by(project, "-n", "12", "--oracle", "agent:right")
    assert found["coach_calls"] == 0
    assert len(found["tasks"]) == 12
    assert all(
        task["expected"] == total(task["input"])
        for task in found["tasks"]
        if task["origin"]["by"].startswith("recombined slots")
    )
    with Store.open(f"sqlite:///{project.root / '.ratchet' / 'ratchet.db'}") as store:
        latest = store.datasets.latest("tasks")
        assert latest is not None
        assert latest.version == found["version"]
        assert latest.parent == found["parent"]
        new = {task["id"] for task in found["tasks"]}
        assert {latest.splits[id] for id in new} == {"train"}
        assert {t.origin.made for t in latest.tasks if t.id in new} == {"synthesized"}


def test_the_coach_writes_inputs_and_answers_count_where_all_tries_agree(
    make_project: MakeProject, simulator: SimulatorThread
) -> None:
    project = adding(make_project, COACH.format(url=simulator.base_url(label="both")))
    found = made_by(project, "-n", "8", "--method", "coach")
    assert len(found["tasks"]) == 8
    for task in found["tasks"]:
        assert task["expected"] == total(task["input"])
        assert task["origin"]["by"].startswith("coach: The person: ")
        assert task["origin"]["by"].endswith("6 answers of coach and agent agree")
    dropped = found["dropped"]
    assert any("different answers" in reason for reason in dropped)
    assert found["cost_usd"] > 0


def test_what_was_paid_for_is_not_asked_again(
    make_project: MakeProject, simulator: SimulatorThread
) -> None:
    project = adding(make_project, COACH.format(url=simulator.base_url(label="again")))
    options = ("-n", "8", "--method", "coach", "--dry-run")
    stopped = made_by(project, *options, "--max-calls", "9")
    assert stopped["coach_calls"] == 9
    once = made_by(project, *options)  # continues where that stopped
    counted = simulator.counters("again", "simulated-author")["calls"]
    again = made_by(project, *options)
    assert simulator.counters("again", "simulated-author")["calls"] == counted
    assert counted == once["coach_calls"] + 1  # and the check of the coach
    assert again["coach_calls"] == once["coach_calls"]
    assert [t["id"] for t in again["tasks"]] == [t["id"] for t in once["tasks"]]


def test_agent_and_coach_together_must_agree(
    make_project: MakeProject, simulator: SimulatorThread
) -> None:
    project = adding(make_project, COACH.format(url=simulator.url))
    found = made_by(
        project,
        *("-n", "4", "--method", "slots", "--solver", "agent", "--solver", "coach"),
        *("--tries", "2"),
    )
    assert len(found["tasks"]) == 4
    assert all("4 answers of agent and coach agree" in t["origin"]["by"] for t in found["tasks"])


def test_bounds_on_calls_and_dollars_end_it_with_what_there_is(
    make_project: MakeProject, simulator: SimulatorThread
) -> None:
    project = adding(make_project, COACH.format(url=simulator.url))
    few = made_by(project, "-n", "40", "--method", "coach", "--max-calls", "13", "--dry-run")
    assert few["coach_calls"] <= 13
    assert len(few["tasks"]) < 40
    assert few["ended"] == "13 coach calls were made, which is the maximum."
    free = made_by(
        project, "-n", "40", "--method", "coach", "--max-dollars", "0", "--seed", "5", "--dry-run"
    )
    assert free["coach_calls"] == 0
    assert "maximum of $0 is spent" in free["ended"]


def test_useless_answers_of_the_coach_end_it_in_a_sentence(make_project: MakeProject) -> None:
    with Endpoint(lambda _: answer("I would rather not.")) as endpoint:
        project = adding(make_project, COACH.format(url=endpoint.url))
        found = made_by(project, "-n", "5", "--method", "coach")
    assert found["tasks"] == []
    assert found["version"] is None
    assert found["ended"].startswith("The coach's answers are unusable: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tasks", "--method", "magic"], "--method 'magic' is not one of slots, rewording"),
        (["tasks", "--split", "all"], "--split 'all' is not one of train, val, test."),
        (["tasks", "--oracle", "agent:nothing"], "The oracle 'agent:nothing' cannot be loaded"),
        (["tasks", "--oracle", "agent:right", "--solver", "coach"], "cannot be combined"),
        (["tasks", "--schema", "missing.json"], "The schema missing.json cannot be read"),
        (["moon"], "The store has no dataset 'moon'."),
        (["tasks", "--method", "coach"], "needs a coach LLM, but none is configured."),
    ],
)
def test_mistakes_are_one_sentence(
    make_project: MakeProject, arguments: list[str], message: str
) -> None:
    done = adding(make_project).ratchet("datasets", "synthesize", *arguments)
    assert done.returncode in (2, 8)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
