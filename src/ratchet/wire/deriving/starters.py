"""Starter tasks: the recorded input, and rows of data that the entry accepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ratchet.types.hashing import content_hash

MAX_ROWS = 500
"""Maximum number of rows of a data file that become tasks."""

SCORED_BY = {"sql": "sql"}
"""Evaluators by the name of the answer column that they compare."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A data file of the project: rows with named columns."""

    path: str
    columns: tuple[str, ...]
    rows: Sequence[Mapping[str, Any]]


class Starters(msgspec.Struct, frozen=True, kw_only=True):
    """The starter tasks."""

    tasks: tuple[dict[str, Any], ...]
    """As lines of a task file: id, input, and expected where a column holds it."""
    evaluator: str
    """The evaluator that the columns suggest; empty if they suggest none."""
    source: str
    """The data file of the rows; empty if there is none."""


def starter_tasks(
    task_input: Any, fields: Sequence[str], parameter: str, tables: Sequence[Table]
) -> Starters:
    """The recorded input first, then the rows of the first table whose columns are its fields.

    Args:
        task_input: The recorded input.
        fields: Names of its fields; empty if it is one value.
        parameter: Name of that one value.
        tables: Data files of the project.
    """
    tasks = [_task(task_input)]
    names = tuple(fields) or (parameter,)
    for table in tables:
        remaining = [column for column in table.columns if column not in names]
        answers = [column for column in remaining if column in SCORED_BY]
        if not set(names) <= set(table.columns):
            continue
        for row in table.rows[:MAX_ROWS]:
            value = {name: row[name] for name in fields} if fields else row[parameter]
            expected = {"expected": row[answers[0]]} if answers else {}
            tasks.append({**_task(value), **expected})
        evaluator = SCORED_BY[answers[0]] if answers else ""
        return Starters(tasks=_once(tasks), evaluator=evaluator, source=table.path)
    return Starters(tasks=_once(tasks), evaluator="", source="")


def _task(value: Any) -> dict[str, Any]:
    return {"id": content_hash(value)[:8], "input": value}


def _once(tasks: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Each input once; rows with an answer first."""
    by_id: dict[str, dict[str, Any]] = {}
    for task in tasks:
        if task["id"] not in by_id or "expected" in task:
            by_id[task["id"]] = task
    return tuple(by_id.values())
