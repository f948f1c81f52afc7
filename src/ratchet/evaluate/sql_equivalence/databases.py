"""Generates small databases on which different queries give different results.

Values are those that the queries compare with and their neighbours, few enough to meet in joins and
to repeat in groups, with NULLs. Databases differ in size, variety and share of NULLs. More are made
while a mutant of the expected query is not told apart from it.
"""

from __future__ import annotations

import itertools
import random
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ratchet.evaluate.sql_equivalence.execution import restrict
from ratchet.evaluate.sql_equivalence.literals import QueryUse, is_date
from ratchet.evaluate.sql_equivalence.schema import SqlColumn, SqlSchema, SqlTable

_MOST_PRODUCT = 30_000
"""Maximum product of all tables' rows, which bounds a join without a condition."""

_MOST_ROWS = 60
_UNREAD_ROWS = 5
_TINY = 0.15
"""Share of tables with one to three rows, so that "all" and "none" occur."""

_WORDS = ("a", "b", "B", "ab", "c", "abc", "d", "", "e f", "zeta", "É", "42")
_DAYS = ("2019-12-31", "2020-01-01", "2020-02-29", "2020-07-15", "2021-01-01", "2023-11-05")
_LINKED = 0.9


_Parents = dict[tuple[str, str], list[Any]]
"""Values by table and column; those of the key if the column is empty."""


@dataclass(frozen=True)
class _Shape:
    """The character of one database."""

    rows: float
    """Share of the possible rows."""
    variety: int
    """Number of distinct values in a column; 0 for a distinct one in each row."""
    nulls: float
    """Share of NULLs in nullable columns."""
    empty_table: bool = False


_SHAPES = (
    _Shape(0.5, 4, 0.1),
    _Shape(1.0, 0, 0.0),
    _Shape(1.0, 3, 0.25),
    _Shape(0.2, 2, 0.0),
    _Shape(0.7, 0, 0.1),
    _Shape(1.0, 1, 0.2),
    _Shape(0.6, 5, 0.1, empty_table=True),
    _Shape(1.0, 8, 0.05),
)


@dataclass(frozen=True)
class GeneratedDatabase:
    """A read-only database in memory, and the rows of its tables."""

    schema: SqlSchema
    rows: dict[str, list[tuple[Any, ...]]]
    connection: sqlite3.Connection

    def open_shuffled(self, rng: random.Random) -> sqlite3.Connection:
        """The same rows in another physical order, in tables without keys and indexes."""
        connection = sqlite3.connect(":memory:", isolation_level=None)
        for table in self.schema.tables:
            columns = ", ".join(f"{_quoted(c.name)} {c.declared}" for c in table.columns)
            connection.execute(f"CREATE TABLE {_quoted(table.name)} ({columns})")
            rows = list(self.rows[table.name])
            rng.shuffle(rows)
            _insert(connection, table, rows)
        restrict(connection)
        return connection


def generate(
    schema: SqlSchema, use: QueryUse, read: frozenset[str], seed: str
) -> Iterator[GeneratedDatabase]:
    """Endless databases, the same for the same arguments.

    Args:
        schema: The tables.
        use: What the queries compare with.
        read: Names in lower case of the tables that the queries read; the others have few rows.
        seed: Anything.
    """
    counts = sorted(n for n in use.counts if 0 < n <= _MOST_ROWS)
    for number in itertools.count():
        rng = random.Random(f"{seed}/{number}")  # noqa: S311
        shape = _SHAPES[number % len(_SHAPES)]
        if number >= len(_SHAPES):
            shape = _Shape(
                rng.choice((0.3, 0.6, 1.0)),
                rng.choice((0, 1, 2, 3, 5, 10)),
                rng.choice((0.0, 0.0, 0.1, 0.4)),
                rng.random() < 0.1,
            )
        yield _database(schema, use, read, shape, counts, rng)


def _database(
    schema: SqlSchema,
    use: QueryUse,
    read: frozenset[str],
    shape: _Shape,
    counts: Sequence[int],
    rng: random.Random,
) -> GeneratedDatabase:
    most = min(_MOST_ROWS, int(_MOST_PRODUCT ** (1 / max(1, len(read)))))
    connection = schema.empty_database()
    empty = rng.choice(schema.tables).name if shape.empty_table else None
    rows_of: dict[str, list[tuple[Any, ...]]] = {}
    parents: _Parents = {}
    for table in schema.tables:
        size = max(1, int(most * shape.rows)) if table.name.lower() in read else _UNREAD_ROWS
        if rng.random() < _TINY:
            size = rng.randint(1, 3)
        elif counts and rng.random() < 0.5:
            size = min(most, max(1, rng.choice(counts) * rng.choice((1, 1, 2, 3))))
        rows = [] if table.name == empty else _rows(table, use, shape, size, parents, rng)
        _insert(connection, table, rows)
        every = f"SELECT * FROM {_quoted(table.name)}"  # noqa: S608
        stored = connection.execute(every).fetchall()
        rows_of[table.name] = stored
        for at, column in enumerate(table.columns):
            values = [row[at] for row in stored if row[at] is not None]
            parents[table.name.lower(), column.name.lower()] = values
            if at == 0 or column.unique:  # a reference without a column means the key
                parents.setdefault((table.name.lower(), ""), values)
    restrict(connection)
    return GeneratedDatabase(schema, rows_of, connection)


def _rows(
    table: SqlTable,
    use: QueryUse,
    shape: _Shape,
    size: int,
    parents: _Parents,
    rng: random.Random,
) -> list[tuple[Any, ...]]:
    columns = [_values(column, use, shape, size, parents, rng) for column in table.columns]
    return list(zip(*columns, strict=True))


def _values(
    column: SqlColumn,
    use: QueryUse,
    shape: _Shape,
    size: int,
    parents: _Parents,
    rng: random.Random,
) -> list[Any]:
    referred = parents.get(column.references) if column.references else None
    if referred is not None:
        nulls = 1 - _LINKED if column.nullable else 0.0
        return [
            None if rng.random() < nulls else rng.choice(referred or [None]) for _ in range(size)
        ]
    compared, usual = _pools(column, use, size, rng)
    if column.unique or shape.variety == 0:
        # Interleaved, so that the first values hold both kinds.
        pairs = itertools.chain.from_iterable(itertools.zip_longest(compared, usual))
        pool = _distinct(value for value in pairs if value is not None)
        values = pool[:size] if len(pool) >= size else [*pool, *_further(pool, size)]
        rng.shuffle(values)
    else:
        # Sometimes one column is constant: then averages are at the boundary, and groups large.
        variety = 1 if rng.random() < 0.15 else max(1, shape.variety)
        half = min(len(compared), variety // 2 + int(rng.random() < variety % 2 * 0.7))
        some = [*compared[:half], *usual[: max(variety - half, int(half == 0))]]
        values = [rng.choice(some) for _ in range(size)]
    if not column.nullable or column.unique:
        return values[:size]
    return [None if rng.random() < shape.nulls else value for value in values[:size]]


def _pools(
    column: SqlColumn, use: QueryUse, size: int, rng: random.Random
) -> tuple[list[Any], list[Any]]:
    """Values that the queries compare a column with, and usual values, each in random order."""
    column_use = use.columns.get(column.name.lower())
    fitting = (_fitting(column, value) for value in (column_use.values if column_use else ()))
    compared = _distinct(value for value in fitting if value is not None)
    usual = list(_usual(column, column_use.kind if column_use else "", size))
    rng.shuffle(compared)
    rng.shuffle(usual)
    return compared, usual


def _distinct(values: Iterable[Any]) -> list[Any]:
    # Text and number are different, and 1 and 1.0 the same to a unique column.
    return list({(isinstance(value, str), value): value for value in values}.values())


def _usual(column: SqlColumn, used_as: str, size: int) -> Sequence[Any]:
    kind = column.kind or used_as or "integer"
    if kind == "text":
        return _WORDS
    if kind == "date":
        return _DAYS
    if kind == "real":
        return [0.0, 0.5, 1.0, 2.5, -1.5, 3.25, 10.0, 99.99]
    if column.unique:
        return list(range(1, size + 1))
    return [*range(min(12, size + 1)), -1, 100]


def _fitting(column: SqlColumn, value: Any) -> Any:
    """A compared value in the column's type; None if the column cannot hold it."""
    if column.kind == "date":
        return value if is_date(value) else None
    if column.kind in ("integer", "real") and isinstance(value, str):
        try:
            return float(value) if column.kind == "real" else int(value)
        except ValueError:
            return value if is_date(value) else None
    if column.kind == "integer" and isinstance(value, float):
        return int(value) if value.is_integer() else None
    if column.kind == "text" and isinstance(value, (int, float)):
        return str(value)
    return value


def _further(pool: Sequence[Any], size: int) -> list[Any]:
    """New values, if a column needs more distinct values than its pool has."""
    wanted = size - len(pool)
    numbers = [value for value in pool if isinstance(value, (int, float))]
    if numbers:
        first = int(max(numbers)) + 1
        return [first + n for n in range(wanted)]
    if any(is_date(value) for value in pool):
        return [f"{2001 + n // 300}-{n // 25 % 12 + 1:02d}-{n % 25 + 1:02d}" for n in range(wanted)]
    return [f"w{n}" for n in range(wanted)]


def _insert(connection: sqlite3.Connection, table: SqlTable, rows: Sequence[Any]) -> None:
    marks = ", ".join("?" * len(table.columns))
    into = f"INSERT OR IGNORE INTO {_quoted(table.name)} VALUES ({marks})"  # noqa: S608
    connection.executemany(into, rows)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
