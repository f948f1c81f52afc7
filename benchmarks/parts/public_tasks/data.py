"""Public tasks from a folder, each with the first prompt, the scorer and the splits of all systems.

The folder has the data as published: `formula/train.jsonl`, `gsm8k/train_1000.jsonl`,
`hotpotqa/sample_100.jsonl`, and `sql_eval/` with its questions and databases. The scorers use the
standard library alone, so that they are the same in every system's environment.
"""

from __future__ import annotations

import json
import math
import random
import re
import sqlite3
import string
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

TEST_SHARE, VAL_SHARE = 0.4, 0.2
"""Shares of a dataset that no system sees, and that peers compare their candidates on."""

MOST_TASKS = 300


class PublicTask(NamedTuple):
    """One question."""

    id: str
    input: str
    expected: str
    metadata: dict[str, Any] = {}


class Scored(NamedTuple):
    """An answer's score, and what is wrong with it."""

    value: float
    why: str


class Dataset(NamedTuple):
    """A dataset."""

    prompt: str
    """The first prompt: what a person would write who has not looked at the answers."""
    load: Callable[[Path], list[PublicTask]]
    score: Callable[[str, PublicTask], Scored]
    evaluator: str
    """Ratchet's evaluator of the same kind, as lines of `ratchet.toml`."""
    max_tokens: int
    small: bool = False
    """Whether the smaller model answers, as the larger one would take hours."""


class Splits(NamedTuple):
    """Tasks by what they are for."""

    train: list[PublicTask]
    val: list[PublicTask]
    test: list[PublicTask]


def splits(tasks: list[PublicTask]) -> Splits:
    """The splits, always the same for the same tasks."""
    tasks = random.Random(0).sample(tasks, min(len(tasks), MOST_TASKS))
    test, val = round(len(tasks) * TEST_SHARE), round(len(tasks) * VAL_SHARE)
    return Splits(train=tasks[test + val :], val=tasks[test : test + val], test=tasks[:test])


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]


def _formula(folder: Path) -> list[PublicTask]:
    lines = _lines(folder / "formula" / "train.jsonl")
    return [
        PublicTask(f"formula-{number}", line["context"], str(line["target"]))
        for number, line in enumerate(lines)
    ]


def _gsm8k(folder: Path) -> list[PublicTask]:
    lines = _lines(folder / "gsm8k" / "train_1000.jsonl")
    return [
        PublicTask(
            f"gsm8k-{number}", line["question"], line["answer"].rpartition("####")[2].strip()
        )
        for number, line in enumerate(lines)
    ]


def _hotpotqa(folder: Path) -> list[PublicTask]:
    tasks = []
    for line in _lines(folder / "hotpotqa" / "sample_100.jsonl"):
        read = "\n".join(
            f"{paragraph['title']}: {''.join(paragraph['sentences'])}"
            for paragraph in line["paragraphs"]
        )
        tasks.append(
            PublicTask(line["id"], f"{read}\n\nQuestion: {line['question']}", line["answer"])
        )
    return tasks


def _sql_eval(folder: Path) -> list[PublicTask]:
    tasks = []
    for number, line in enumerate(_lines(folder / "sql_eval" / "questions.jsonl")):
        script = sqlite_script((folder / "sql_eval" / f"{line['db_name']}.sql").read_text())
        schema = "\n".join(re.findall(r"CREATE TABLE [^;]+;", script))
        tasks.append(
            PublicTask(
                f"sql-{number}",
                f"{schema}\n\nQuestion: {line['question']}",
                line["query"],
                {"script": script},
            )
        )
    return tasks


_TYPES = {"bigint": "INTEGER", "real": "REAL", "double precision": "REAL", "boolean": "INTEGER"}


def sqlite_script(script: str) -> str:
    """A script of Postgres as one of SQLite: its types, without schemas and settings."""
    script = re.sub(r"\bpublic\.|::\w+", "", script)
    script = re.sub(r"(?m)^(SET|SELECT pg_catalog|ALTER|CREATE INDEX|COMMENT)\b[^;]*;", "", script)
    script = re.sub(
        r"CURRENT_DATE\s*([-+])\s*INTERVAL\s*'(\w+ \w+)'",
        r"date('now', '\1\2')",
        script,
        flags=re.IGNORECASE,
    )
    for postgres, sqlite in _TYPES.items():
        script = re.sub(rf"\b{postgres}\b", sqlite, script, flags=re.IGNORECASE)
    return re.sub(r"\b(timestamp|character varying)(\(\d+\))?( without time zone)?", "TEXT", script)


_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def _numeric(answer: str, task: PublicTask) -> Scored:
    numbers = _NUMBER.findall(answer)
    if not numbers:
        return Scored(0.0, f"There is no number in the answer; expected is {task.expected}.")
    said = float(numbers[-1].replace(",", ""))
    expected = float(task.expected.replace(",", ""))
    right = math.isclose(said, expected, rel_tol=1e-4, abs_tol=0.005)
    return Scored(float(right), "Right." if right else f"{said:g} is not {expected:g}.")


def _plain(text: str) -> str:
    text = "".join(" " if mark in string.punctuation else mark for mark in text.lower())
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def _exact(answer: str, task: PublicTask) -> Scored:
    right = _plain(answer) == _plain(task.expected)
    return Scored(float(right), "Right." if right else f"Expected is {task.expected!r}.")


QUERY_STEPS = 20_000_000


def _sql(answer: str, task: PublicTask) -> Scored:
    fenced = re.search(r"```(?:sql)?\s*(.+?)```", answer, re.DOTALL)
    query = (fenced[1] if fenced else answer).strip().rstrip(";")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(task.metadata["script"])
        connection.execute("PRAGMA query_only = ON")
        steps = iter(range(QUERY_STEPS // 10_000))
        connection.set_progress_handler(lambda: next(steps, None) is None, 10_000)
        try:
            said = connection.execute(query).fetchall()
        except sqlite3.Error as error:
            return Scored(0.0, f"The query does not run: {error}.")
        for accepted in filter(str.strip, task.expected.split(";")):
            if _same(said, connection.execute(accepted).fetchall()):
                return Scored(1.0, "Right.")
    return Scored(0.0, f"It returns {str(said)[:200]}. Accepted is: {task.expected}")


def _same(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> bool:
    def rows(values: list[tuple[Any, ...]]) -> list[str]:
        rounded = (
            tuple(round(value, 4) if isinstance(value, float) else value for value in row)
            for row in values
        )
        return sorted(map(str, rounded))

    return rows(one) == rows(other)


DATASETS = {
    "formula": Dataset(
        "Answer the question.",
        _formula,
        _numeric,
        'use = "numeric"\ntolerance = 0.005',
        60,
        small=True,
    ),
    "gsm8k": Dataset(
        "Solve the problem. End with the number.",
        _gsm8k,
        _numeric,
        'use = "numeric"\ntolerance = 0.005',
        200,
        small=True,
    ),
    "sql_eval": Dataset(
        "Write a SQLite query that answers the question.",
        _sql_eval,
        _sql,
        'use = "evaluators:accepted"',
        120,
    ),
    "hotpotqa": Dataset(
        "Answer the question by what the paragraphs say.",
        _hotpotqa,
        _exact,
        'use = "exact_match"',
        30,
        small=True,
    ),
}
