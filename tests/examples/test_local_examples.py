"""The examples whose agent is a local model: their data, their scoring, and a run to a branch.

In the run the model is simulated (`imitating_model`): it says whether the example works from end to
end, not what a real model learns.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from ratchet.autopilot.project import Project
from ratchet.autopilot.project_evaluators import project_evaluator
from ratchet.cli.demo import example_folder
from ratchet.worker.evaluator import FunctionEvaluator
from tests import interpreters
from tests.evaluate.conftest import ended, verdict
from tests.examples.imitating_model import Answer, imitating_model
from tests.repositories import committed, git

SCRIPTS = {
    "cricket_sql": "make_data",
    "support_router": "make_tasks",
    "math_tools": "make_tasks",
    "multi_hop": "make_tasks",
}


def tasks(name: str) -> list[dict[str, Any]]:
    lines = (example_folder(name) / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def copied(name: str, folder: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", ".ratchet", "*.pyc")
    return Path(shutil.copytree(example_folder(name), folder / name, ignore=ignored))


def score(name: str, output: str, task: dict[str, Any]) -> float:
    """By the example's own evaluator, whose files are found from any folder."""
    project = Project.find(example_folder(name))
    section = project.config.evaluators[0]
    evaluator = project_evaluator(project, section.use, section.options, name=None)
    assert isinstance(evaluator, FunctionEvaluator)
    graded = verdict(evaluator, ended(output, task["expected"]))
    assert graded.value is not None, graded
    return graded.value


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_data_is_what_its_script_makes(name: str, tmp_path: Path) -> None:
    folder = copied(name, tmp_path)
    (folder / "tasks.jsonl").unlink()
    interpreters.run([sys.executable, "-m", SCRIPTS[name]], cwd=folder, check=True)
    for path in [*folder.glob("*.json"), *folder.glob("*.jsonl")]:
        assert path.read_bytes() == (example_folder(name) / path.name).read_bytes()
    for path in folder.glob("*.sqlite"):
        assert dump(path) == dump(example_folder(name) / path.name)


def dump(path: Path) -> list[str]:
    """What is in a database, whichever version of SQLite wrote it."""
    with sqlite3.connect(path) as database:
        return list(database.iterdump())


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_expected_answer_is_right(name: str) -> None:
    for task in tasks(name)[::10]:
        assert score(name, task["expected"], task) == 1


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        (
            "math_tools",
            '{"question": "2 and 3?", "answer": "2 + 3 = 5\\n#### 1,005"}\n',
            {"input": "2 and 3?", "expected": "1005"},
        ),
        (
            "multi_hop",
            json.dumps(
                [
                    {
                        "question": "Where?",
                        "answer": "Oslo",
                        "context": [["Anna", ["She works ", "at Brisk."]], ["Brisk", ["In Oslo."]]],
                        "supporting_facts": [["Anna", 1], ["Brisk", 0], ["Brisk", 1]],
                    }
                ]
            ),
            {
                "input": "Where?",
                "expected": "Oslo",
                "tool_calls": [
                    {"name": "read", "arguments": {"title": "Anna"}},
                    {"name": "read", "arguments": {"title": "Brisk"}},
                ],
            },
        ),
    ],
)
def test_the_public_form_is_read(
    name: str, data: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    folder = copied(name, tmp_path)
    (tmp_path / "data").write_text(data, encoding="utf-8")
    command = [sys.executable, "-m", "make_tasks", "--data", str(tmp_path / "data")]
    interpreters.run(command, cwd=folder, check=True)
    (made,) = map(json.loads, (folder / "tasks.jsonl").read_text(encoding="utf-8").splitlines())
    assert made.items() >= expected.items()


WRITTEN_BY_HAND = (
    (
        r"Which country has the most debutants after (\d+)\?",
        "WITH young AS (SELECT * FROM top_batsmen WHERE odi_debut_year >= {0} + 1)\n"
        "SELECT y.country_name AS country, SUM(1) AS n FROM young y GROUP BY 1"
        " ORDER BY n DESC LIMIT 1;",
    ),
    (
        r"Which countries have more than (\d+) debutants before (\d+)\?",
        "```sql\nSELECT country_name, n FROM (SELECT country_name, COUNT(player_name) AS n FROM"
        " top_batsmen WHERE NOT odi_debut_year >= {1} GROUP BY country_name)"
        " WHERE n >= {0} + 1\n```",
    ),
    (
        r"Average Test runs of batsmen from ([\w ]+)\?",
        "SELECT ROUND(SUM(test_runs) * 1.0 / COUNT(*)) FROM top_batsmen"
        " WHERE country_name IN ('{0}')",
    ),
    (
        r"How many newcomers from ([\w ]+) are there\?",
        "SELECT SUM(country_name = '{0}') FROM top_batsmen WHERE odi_debut_year >= 2013",
    ),
    (
        r"Who are the top (\d+) ODI scorers\?",
        "SELECT a.player_name, a.odi_runs FROM top_batsmen a ORDER BY 2 DESC LIMIT {0}",
    ),
    (
        r"How many matches did ([\w ]+) win in (\d+)\?",
        "SELECT COUNT(winner) FROM matches WHERE year = {1} AND '{0}' = winner",
    ),
)


@pytest.mark.parametrize(("asked", "query"), WRITTEN_BY_HAND)
def test_a_query_written_by_hand_is_right_and_its_plain_form_is_not(asked: str, query: str) -> None:
    task, match = next(
        (task, match)
        for task in tasks("cricket_sql")
        if (match := re.fullmatch(asked, task["input"]))
    )
    assert score("cricket_sql", query.format(*match.groups()), task) == 1
    plain = plain_query(task)
    if plain != task["expected"]:
        assert score("cricket_sql", plain, task) == 0


def plain_query(task: dict[str, Any]) -> str:
    """What one writes who does not know the style of the house."""
    query: str = task["expected"]
    if "GROUP BY" in query:
        query = query.replace("country_name, COUNT(*) FROM", "country_name FROM")
    query = re.sub(r"SELECT player_name, \w+ FROM", "SELECT player_name FROM", query)
    query = query.replace("ROUND(AVG", "(AVG")
    return query.replace("odi_debut_year > 2012 AND ", "")


def plain_routing(task: dict[str, Any]) -> str:
    """What one answers who does not know the rules of the house."""
    return json.dumps(task["expected"] | {"priority": "high", "product": "appliance"})


PLAIN = {
    "cricket_sql": plain_query,
    "support_router": plain_routing,
    "math_tools": lambda task: task["expected"].replace("*", "+"),
    "multi_hop": lambda task: f"The answer is {task['expected']}.",
}


def answers(name: str) -> Answer:
    def answer(task: dict[str, Any], taught: bool) -> str:
        right = task["expected"]
        if not taught:
            return PLAIN[name](task)
        return right if isinstance(right, str) else json.dumps(right)

    return answer


@pytest.mark.long
@pytest.mark.parametrize("name", SCRIPTS)
def test_examples_in_the_prompt_are_learned_proved_and_shipped(name: str, tmp_path: Path) -> None:
    folder = copied(name, tmp_path)
    config = folder / "ratchet.toml"
    text = re.sub(r"(?m)^model = .*\n", "", config.read_text(encoding="utf-8"))
    # The simulated model costs nothing, as the local one does.
    text += "\n[prices.simulated]\ninput = 0\noutput = 0\n"
    config.write_text(text, encoding="utf-8")
    committed(folder)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RATCHET_", "OPENAI_"))}
    with imitating_model(tasks(name), answers(name)) as url:
        done = interpreters.run(
            [sys.executable, "-m", "ratchet", "improve", "--json"],
            cwd=folder,
            env=kept | {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"},
        )
    assert done.returncode == 0, done.stdout + done.stderr
    ended = json.loads(done.stdout.splitlines()[-1])
    assert ended["verdict"] == "promote"
    assert ended["candidate"] > ended["baseline"] + 0.3
    assert git(folder, "diff", "--name-only", "main", ended["branch"]).split() == ["agent.py"]
