"""What tests of the store put into it, pages read to their end, and work done at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import event, text

from ratchet.store import Store
from ratchet.types import Decision, Experiment, Release, Rollout, Run

Row = TypeVar("Row")


def rollout(id: str, **fields: Any) -> Rollout:
    given = {"queue": "q", "candidate_id": "c", "task_id": "t", "input": 1}
    return Rollout(**{"id": id, **given, **fields})


def run(id: str = "run", stage: str = "baseline", **fields: Any) -> Run:
    given = {"agent": "m:f", "seed": 1, "stage": stage, "created_at": 1.0, "updated_at": 1.0}
    return Run(**{"id": id, **given, **fields})


def experiment(id: str = "e", **fields: Any) -> Experiment:
    names = {"run_id": "run", "baseline_id": "b", "candidate_id": "c", "dataset_version": "d"}
    given = {**names, "stream": f"of {id}", "history": (), "alpha": 0.05, "created_at": 1.0}
    return Experiment(**{"id": id, **given, **fields})


def decision(verdict: Any = "promote") -> Decision:
    figures = {"alpha": 0.05, "pairs": 10, "baseline": 0.1, "candidate": 0.2, "e_value": 21.0}
    return Decision(verdict=verdict, metric="m", interval=(0.01, 0.2), **figures)  # type: ignore[arg-type]


def release(id: str = "r", **fields: Any) -> Release:
    names = ("experiment_id", "candidate_id", "baseline_id", "repo", "branch", "base", "commit")
    given = dict.fromkeys((*names, "pull_request", "evidence"), "x")
    return Release(**{"id": id, **given, "state": "branched", "created_at": 1.0, **fields})


def rows_of(store: Store, table: str) -> int:
    query = text(f"SELECT count(*) FROM {table}")
    return int(store._database.read(lambda c: c.execute(query).scalar_one()))


def pages(read: Callable[[str | None], tuple[list[Row], str | None]]) -> Iterator[list[Row]]:
    """All pages of a list, of which `read` reads one by its cursor."""
    cursor: str | None = None
    while True:
        page, cursor = read(cursor)
        yield page
        if cursor is None:
            return


@contextmanager
def asked(store: Store) -> Iterator[list[tuple[str, Any]]]:
    """The statements that the database gets, with their values."""
    statements: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, sql: str, values: Any, *_: Any) -> None:
        statements.append((sql, values))

    event.listen(store._database.engine, "before_cursor_execute", note)
    yield statements
    event.remove(store._database.engine, "before_cursor_execute", note)


def at_once(*work: Callable[[], object]) -> None:
    """Do all of it in threads, to the end; what fails is raised."""
    with ThreadPoolExecutor(len(work)) as threads:
        for done in [threads.submit(one) for one in work]:
            done.result(60)
