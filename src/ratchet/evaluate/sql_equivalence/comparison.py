"""Decides whether two queries are equivalent, from their notation or by running them.

Generated databases decide what a given one cannot: each must be one on which the expected query
says something. After Zhong, Yu and Klein, "Semantic Evaluation for Text-to-SQL with Distilled Test
Suites" (2020), whose tool calls two empty results equal; here they say nothing.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from ratchet.evaluate.sql_equivalence import databases, execution, mutants, parsing, results
from ratchet.evaluate.sql_equivalence.execution import QueryFailed, QueryTooLarge, Row
from ratchet.evaluate.sql_equivalence.literals import uses
from ratchet.evaluate.sql_equivalence.ordering import Ordering, is_ordered, ordering
from ratchet.evaluate.sql_equivalence.schema import SqlSchema
from ratchet.types import InputError
from ratchet.types.wording import counted

MAX_DATABASES_KEPT = 2
"""Maximum number of generated databases while mutants survive, as a multiple of the minimum."""

_GENERATED_S = 0.5
"""Time limit of a query on a generated database, in seconds."""

_BUDGET_S = 20.0
"""Seconds after which no further database is generated."""

_SHUFFLES = 8

Verdict = Literal["equal", "different", "unknown"]


@dataclass(frozen=True)
class Compared:
    """The result of a comparison."""

    verdict: Verdict
    why: str


@dataclass(frozen=True)
class ReadQuery:
    """A query and its syntax tree."""

    text: str
    """In SQLite's dialect."""
    tree: exp.Expr | None
    """None if sqlglot cannot parse it."""
    schemas: Mapping[str, str] = field(default_factory=dict)
    """Schema named in the query, by table name."""


MAX_ROWS_SHOWN, ROW_CHARACTERS = 3, 120
"""Rows of a result shown in a difference, and characters of each."""


class QueryComparison:
    """Compares a query with the expected one.

    Args:
        expected: The expected query, which sqlglot can read.
        answer: The other.
        tolerance: Largest difference of equal floats, absolute or as a share.
    """

    def __init__(self, expected: ReadQuery, answer: ReadQuery, tolerance: float) -> None:
        assert expected.tree is not None
        self._expected = expected
        self._tree = expected.tree
        self._given = answer
        self._tolerance = tolerance
        self._ordered = is_ordered(expected.tree)
        self._ordering: Ordering | None = ordering(expected.tree) if self._ordered else None

    def on_database(self, connection: sqlite3.Connection, seconds: float) -> Compared:
        """Compare on a given database.

        Raises:
            InputError: The expected query cannot be run on it, or a query takes too long.
        """
        try:
            expected = execution.run(connection, self._expected.text, seconds=seconds)
        except (QueryFailed, QueryTooLarge) as error:
            raise InputError(f"The expected query cannot be run: {error}.") from None
        try:
            got = execution.run(connection, self._given.text, seconds=seconds)
        except QueryFailed as error:
            return Compared("different", f"the query cannot be run: {error}")
        except QueryTooLarge as error:
            raise InputError(f"The query cannot be compared: {error}.") from None
        why = self._difference(connection, expected, got, seconds)
        if why:
            return Compared("different", why)
        if results.is_empty(expected):
            return Compared("unknown", "both results are empty on the database")
        return Compared("equal", f"the same {_rows(expected)} on the database")

    def on_generated(self, schema: SqlSchema, count: int) -> Compared:
        """Compare on generated databases, `count` of them informative.

        Raises:
            InputError: The expected query cannot be run on them.
        """
        trees = [tree for tree in (self._tree, self._given.tree) if tree is not None]
        use = uses(trees, schema.columns)
        alive = mutants.mutants(self._tree)
        planted, telling = len(alive), 0
        generated = databases.generate(schema, use, self._read(schema), self._expected.text)
        until = time.monotonic() + _BUDGET_S
        for number, database in enumerate(generated):
            with closing(database.connection) as connection:
                enough = number >= count and telling >= count and not alive
                if enough or number >= count * MAX_DATABASES_KEPT or time.monotonic() > until:
                    break
                try:
                    expected = execution.run(connection, self._expected.text, seconds=_GENERATED_S)
                except QueryTooLarge:
                    continue
                except QueryFailed as error:
                    raise InputError(f"The expected query cannot be run: {error}.") from None
                try:
                    got = execution.run(connection, self._given.text, seconds=_GENERATED_S)
                except QueryFailed as error:
                    return Compared("different", f"the query cannot be run: {error}")
                except QueryTooLarge:
                    continue
                why = self._difference(connection, expected, got, _GENERATED_S)
                if why and self._is_determined(database, expected):
                    return Compared("different", f"on a generated database: {why}")
                telling += not results.is_empty(expected)
                alive = list(self._surviving(connection, alive, expected))
        killed = f"{planted - len(alive)} of {planted} small changes to the expected query"
        if telling == 0:
            return Compared("unknown", "the expected query returns nothing on generated databases")
        return Compared(
            "equal",
            f"the same on {telling} generated databases, where {killed} give another result",
        )

    def _read(self, schema: SqlSchema) -> frozenset[str]:
        """The tables that the queries read; all if that cannot be determined, as with views."""
        tables = frozenset(table.name.lower() for table in schema.tables)
        if self._given.tree is None:
            return tables
        trees = (self._tree, self._given.tree)
        referenced = {table.name.lower() for tree in trees for table in tree.find_all(exp.Table)}
        ctes = {cte.alias.lower() for tree in trees for cte in tree.find_all(exp.CTE)}
        return tables if referenced - ctes - tables else tables & referenced

    def _difference(
        self,
        connection: sqlite3.Connection,
        expected: Sequence[Row],
        got: Sequence[Row],
        seconds: float,
    ) -> str:
        """The difference, as a clause; empty if there is none."""
        width, got_width = (len(rows[0]) if rows else 0 for rows in (expected, got))
        both = f"; expected {_some(expected)}, got {_some(got)}"
        if expected and got and width != got_width:
            return f"{counted(got_width, 'column')} where {width} are expected{both}"
        if self._ordered:
            if results.same_sequence(expected, got, self._tolerance):
                return ""
        elif results.same_rows(expected, got, self._tolerance):
            return ""
        if len(expected) != len(got):
            return f"{_rows(got)} where {len(expected)} are expected{both}"
        if self._ordered and self._is_among_ties(connection, got, seconds):
            return ""
        if self._ordered and results.same_rows(expected, got, self._tolerance):
            return f"the rows are in another order{both}"
        return f"other rows{both}"

    def _is_among_ties(
        self, connection: sqlite3.Connection, got: Sequence[Row], seconds: float
    ) -> bool:
        """Whether the rows are in an order that the expected query allows."""
        if self._ordering is None:
            return False
        try:
            rows = execution.run(connection, self._ordering.keyed, seconds=seconds)
        except (QueryFailed, QueryTooLarge):
            return False
        keyed, width = self._ordering.with_keys(rows)
        return results.follows(got, keyed, width, self._ordering.offset, self._tolerance)

    def _is_determined(
        self, database: databases.GeneratedDatabase, expected: Sequence[Row]
    ) -> bool:
        """Whether the expected result is independent of the order of the tables' rows."""
        for seed in range(_SHUFFLES):
            with closing(database.open_shuffled(random.Random(seed))) as connection:  # noqa: S311
                try:
                    again = execution.run(connection, self._expected.text, seconds=_GENERATED_S)
                except (QueryFailed, QueryTooLarge):
                    return True
                if self._difference(connection, expected, again, _GENERATED_S):
                    return False
        return True

    def _surviving(
        self, connection: sqlite3.Connection, alive: Iterable[str], expected: Sequence[Row]
    ) -> Iterator[str]:
        for mutant in alive:
            try:
                rows = execution.run(connection, mutant, seconds=_GENERATED_S)
            except (QueryFailed, QueryTooLarge):
                continue  # refused by SQLite: no change that could go unseen
            same = results.same_sequence if self._ordered else results.same_rows
            if same(expected, rows, self._tolerance):
                yield mutant


def read(text: str, dialect: str) -> ReadQuery:
    """A query for SQLite.

    Args:
        text: The query.
        dialect: Its dialect. A query in SQLite's own is run as it is.

    Raises:
        ValueError: Another dialect's query cannot be read or translated.
    """
    if len(text) > execution.MAX_QUERY:
        raise ValueError(f"it is longer than {execution.MAX_QUERY} characters")
    tree = parsing.parse(text, dialect)
    if tree is None:
        if dialect == "sqlite":
            return ReadQuery(text, None)
        raise ValueError(f"it is not a query in {dialect}")
    plain = parsing.unqualified(tree)
    as_it_is = dialect == "sqlite" and plain is tree
    return ReadQuery(
        text if as_it_is else parsing.in_sqlite(plain), plain, parsing.schemas_of(tree)
    )


def _rows(rows: Sequence[Row]) -> str:
    return "1 row" if len(rows) == 1 else counted(len(rows), "row")


def _some(rows: Sequence[Row]) -> str:
    """The first rows of a result, and the number of further rows."""
    if not rows:
        return "no row"
    text = ", ".join(_short(row) for row in rows[:MAX_ROWS_SHOWN])
    return text if len(rows) <= MAX_ROWS_SHOWN else f"{text} and {len(rows) - MAX_ROWS_SHOWN} more"


def _short(row: Row) -> str:
    text = repr(row[0]) if len(row) == 1 else repr(row)
    return text if len(text) <= ROW_CHARACTERS else f"{text[: ROW_CHARACTERS - 1]}…"
