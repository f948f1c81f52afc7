"""`ratchet improve` with evaluators that fail: on some answers, on all, and on a small database."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ratchet.evaluate import sql
from ratchet.evaluate.report_card import make_card, make_cases
from ratchet.store import Store
from ratchet.types import Task
from tests.cli.conftest import CONFIG, INLINE, MakeProject, Project

AGENT = """
import json

import ratchet

KNOBS = ratchet.params("knobs", curt=ratchet.Int(0, 0, 1))


@ratchet.agent
def answer(number):
    if KNOBS.curt:  # right wherever it can be read, and garbage on 8 % of the tasks
        return "see above" if number % 25 in (7, 19) else json.dumps({"answer": 3 * number})
    return json.dumps({"answer": 3 * number + (number % 17 == 3)})


@ratchet.evaluator
def is_right(output, expected):
    return json.loads(output)["answer"] == expected


@ratchet.evaluator
def mistyped(output, expected):
    return json.loads(output)["answr"] == expected
"""

VOUCHED = '[[evaluators]]\nuse = "agent:closeness"\nvouched = true\n'


def build(make_project: MakeProject, evaluator: str) -> Project:
    """A project of which this evaluator is the objective."""
    config = CONFIG.replace(VOUCHED, f'[[evaluators]]\nuse = "agent:{evaluator}"\n') + INLINE
    project = make_project(agent=AGENT, config=config)
    lines = [json.dumps({"id": f"t{n}", "input": n, "expected": 3 * n}) for n in range(1000, 1240)]
    project.write("tasks.jsonl", "\n".join(lines) + "\n")
    project.commit("tasks")
    return project


def test_a_candidate_whose_answers_break_the_evaluator_is_not_promoted(
    make_project: MakeProject,
) -> None:
    project = build(make_project, "is_right")
    found = project.json("improve")
    assert found["verdict"] != "promote", found
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        rollouts, _ = store.rollouts.list(status="succeeded", limit=1000)
        broken = [r for r in rollouts if r.output == "see above"]
        scores = store.scores.of([rollout.id for rollout in broken])
    said = {
        (score.value, score.rationale.partition(" Expecting")[0])
        for of_one in scores.values()
        for score in of_one
        if score.evaluator == "is_right"
    }
    assert said == {(0.0, "evaluator failed: JSONDecodeError")}


def test_an_evaluator_with_a_typo_stops_the_run_before_it_learns(
    make_project: MakeProject,
) -> None:
    project = build(make_project, "mistyped")
    done = project.ratchet("improve")
    assert done.returncode == 2
    assert "The evaluator 'mistyped' failed on " in done.stderr
    assert (
        "of the baseline's outputs: KeyError 'answr'. The evaluator is broken, not the agent."
        in " ".join(done.stderr.split())
    )
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        run = store.runs.latest()
        ran, _ = store.rollouts.list(limit=1000)
    assert run is not None
    named = done.stderr.split("ratchet evaluators try mistyped ")[1].split()[0]
    assert named in {rollout.id for rollout in ran}
    assert {rollout.candidate_id for rollout in ran} == {run.baseline_id}, "nothing was tried"
    checked: Any = project.json("evaluators", "check", "mistyped")["cards"]
    assert checked[0]["verdict"] == "rejected"
    assert "outputs got no score: KeyError: 'answr'" in checked[0]["reasons"][0]


QUERIES = (
    "SELECT customer, SUM(total) FROM orders GROUP BY customer",
    "SELECT COUNT(*) FROM orders WHERE total > 40",
    "SELECT id FROM orders WHERE city = 'Rome' ORDER BY total DESC LIMIT 3",
    "SELECT city, AVG(total) FROM orders WHERE total >= 20 GROUP BY city",
    "SELECT DISTINCT customer FROM orders WHERE total < 100",
    "SELECT MAX(total) FROM orders WHERE customer = 'Ann'",
    "SELECT day FROM orders WHERE id <= 7 ORDER BY day",
    "SELECT customer FROM orders GROUP BY customer HAVING COUNT(*) > 3",
    "SELECT id, total FROM orders WHERE total BETWEEN 30 AND 80",
    "SELECT COUNT(DISTINCT city) FROM orders WHERE day > '2026-02-01'",
    "SELECT MIN(id) FROM orders WHERE total > 60 AND city = 'Oslo'",
    "SELECT customer, city FROM orders WHERE id = 4 OR id = 9",
)


def shop(path: Any) -> None:
    """A database of ten rows."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (id, customer, total, city, day)")
        connection.executemany(
            "INSERT INTO orders VALUES (?, ?, ?, ?, ?)",
            [
                (n, ("Ann", "Bob", "Cid")[n % 3], 10.0 * n + 5, ("Rome", "Oslo")[n % 2],
                 f"2026-0{1 + n % 4}-1{n % 9}")
                for n in range(1, 11)
            ],
        )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_sql_decides_on_a_database_of_ten_rows_whatever_the_seed(tmp_path: Path, seed: int) -> None:
    shop(tmp_path / "shop.db")
    tasks = [Task(id=f"t{n}", input=n, expected=query) for n, query in enumerate(QUERIES)]
    made = sql(database=str(tmp_path / "shop.db"))
    card = asyncio.run(
        make_card(
            made,
            make_cases([], (), tasks),
            spans_of=lambda _: [],
            seed=seed,
        )
    )
    assert card.verdict == "decides", card.reasons


def test_what_sql_cannot_tell_on_a_small_database_names_the_option_that_helps(
    tmp_path: Path,
) -> None:
    with sqlite3.connect(tmp_path / "one.db") as connection:
        connection.execute("CREATE TABLE orders (id, total)")
        connection.execute("INSERT INTO orders VALUES (1, 900)")
    tasks = [
        Task(id=f"t{n}", input=n, expected=f"SELECT id FROM orders WHERE total > {n}")
        for n in range(100, 140)
    ]
    made = sql(database=str(tmp_path / "one.db"))
    card = asyncio.run(
        make_card(
            made,
            make_cases([], (), tasks),
            spans_of=lambda _: [],
        )
    )
    assert card.verdict in ("advises", "rejected")
    assert "databases = 16" in card.reasons[-1]
    assert sql(database=str(tmp_path / "one.db"), databases=16).remedy == ""
