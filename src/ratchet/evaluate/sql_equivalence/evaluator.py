"""Evaluator of SQL: whether the output is a query equivalent to the expected one."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratchet.llm.answer_text import answer_of
from ratchet.types import ConfigError, InputError
from ratchet.worker.evaluator import FunctionEvaluator, Judgement, Unscored

if TYPE_CHECKING:
    from ratchet.evaluate.sql_equivalence.comparison import Compared, QueryComparison, ReadQuery

TIMEOUT_S = 60.0

DATABASES = 16
"""Default number of generated databases."""


def sql(
    *,
    database: str | None = None,
    schema: str | None = None,
    dialect: str = "sqlite",
    databases: int | None = None,
    tolerance: float = 1e-9,
    seconds: float = 5.0,
    folder: str = ".",
) -> FunctionEvaluator:
    """1 if the output is a query equivalent to the expected one.

    Both are run on the database, read-only, or else on generated ones. The order of rows counts if
    the expected query orders its result. When every result is empty, there is no score, unless the
    queries differ in notation only. A statement that writes is never run.

    Args:
        database: A SQLite file; `{name}` in it stands for the task's metadata of that name.
        schema: CREATE TABLE statements of the generated databases, or the name of a file with them;
            by default the task's metadata `schema`, the database's own, or what the queries name.
        dialect: The queries' dialect, by sqlglot's name.
        databases: Number of generated databases on which the expected query must say something; by
            default none with a database, and DATABASES without.
        tolerance: Largest difference of equal floats, absolute or as a share of them.
        seconds: Time limit of a query on the database.
        folder: Folder that both files are relative to.

    Raises:
        ConfigError: The dialect is unknown.
        InputError: A number is out of range, or the schema cannot be read.
    """
    if databases is not None and not 0 <= databases <= 100:
        raise InputError(f"databases = {databases} is not a number from 0 to 100.")
    if databases == 0 and database is None:
        raise InputError("databases = 0 needs a database.")
    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise InputError(f"The tolerance is {tolerance}; it must be a finite number, 0 or more.")
    if not 0 < seconds <= TIMEOUT_S / 4:
        raise InputError(f"seconds = {seconds} is not a number above 0, up to {TIMEOUT_S / 4:g}.")
    _check_dialect(dialect)
    tables = _text_of(schema, Path(folder)) if schema is not None else None

    def judge(output: Any, expected: Any, metadata: dict[str, Any]) -> Judgement:
        from ratchet.evaluate.sql_equivalence.comparison import QueryComparison, read
        from ratchet.evaluate.sql_equivalence.parsing import query_in, same_notation

        wanted, text = query_in(_query_of(expected)), query_in(_query_of(answer_of(output)))
        if not text:
            return Judgement(0.0, "the output holds no query")
        gold = _gold(wanted, dialect)
        try:
            answer = read(text, dialect)
        except ValueError as error:
            if "characters" in str(error) or dialect != "sqlite":
                raise InputError(f"The query cannot be compared: {error}.") from None
            return Judgement(0.0, str(error))
        for table, read_schema in answer.schemas.items():
            if (wanted_schema := gold.schemas.get(table, read_schema)) != read_schema:
                return Judgement(
                    0.0, f"it reads {read_schema}.{table}, expected {wanted_schema}.{table}"
                )
        of = metadata.get("schema")
        declared = tables if tables is not None else of if isinstance(of, str) else None
        compared = _compare(
            QueryComparison(gold, answer, tolerance), gold, answer, metadata, declared
        )
        if compared.verdict == "unknown":
            assert gold.tree is not None
            if answer.tree is None or not same_notation(gold.tree, answer.tree):
                raise Unscored(f"Whether the queries are equivalent is unknown: {compared.why}.")
            return Judgement(1.0, "the same query in another notation")
        return Judgement(float(compared.verdict == "equal"), compared.why)

    def _compare(
        comparison: QueryComparison,
        gold: ReadQuery,
        answer: ReadQuery,
        metadata: dict[str, Any],
        declared: str | None,
    ) -> Compared:
        from ratchet.evaluate.sql_equivalence import schema as schemas
        from ratchet.evaluate.sql_equivalence.execution import open_read_only

        sql_schema, compared = None, None
        if database is not None:
            file = Path(folder) / _filled(database, metadata)
            with closing(open_read_only(str(file))) as connection:
                compared = comparison.on_database(connection, seconds)
                if declared is None and databases:
                    sql_schema = schemas.schema_of(connection)
            if compared.verdict == "different" or not databases:
                return compared
        if declared is not None:
            sql_schema = schemas.declared_schema(declared, dialect)
        if sql_schema is None:
            trees = [query.tree for query in (gold, answer) if query.tree is not None]
            sql_schema = schemas.inferred_schema(trees)
        generated = comparison.on_generated(sql_schema, databases or DATABASES)
        if compared is not None and generated.verdict == "unknown":
            return compared
        return generated

    remedy = (
        f"On a small database, different queries may return the same rows. Set databases = "
        f"{DATABASES} under its [[evaluators]] to compare on generated databases, too."
    )
    return FunctionEvaluator(
        judge,
        name="sql",
        benchmarked=True,
        remedy="" if database is None or databases else remedy,
        options={
            "database": database,
            "schema": tables,
            "dialect": dialect,
            "databases": databases,
            "tolerance": tolerance,
            "seconds": seconds,
        },
        timeout_s=TIMEOUT_S,
    )


def _gold(query: str, dialect: str) -> ReadQuery:
    from ratchet.evaluate.sql_equivalence.comparison import read

    try:
        gold = read(query, dialect)
    except ValueError as error:
        raise InputError(f"The expected query cannot be read: {error}.") from None
    if gold.tree is None:
        raise InputError(f"The expected answer is not a query in {dialect}: {query[:200]!r}.")
    return gold


def _query_of(value: Any) -> str:
    """The text of a query: a string, or the field `sql` or `query` of an object."""
    if isinstance(value, dict):
        texts = [value[key] for key in ("sql", "query") if isinstance(value.get(key), str)]
        value = texts[0] if texts else ""
    return value if isinstance(value, str) else ""


def _filled(database: str, metadata: dict[str, Any]) -> str:
    try:
        return database.format_map(metadata)
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else f"{error}"
        raise InputError(
            f"The database {database!r} cannot be filled from the task's metadata: {why}."
        ) from None


def _check_dialect(dialect: str) -> None:
    from sqlglot.dialects.dialect import Dialect

    try:
        Dialect.get_or_raise(dialect)
    except ValueError as error:
        raise ConfigError(f"The evaluator 'sql' has an unknown dialect: {error}.") from None


def _text_of(schema: str, folder: Path) -> str:
    """The text of a schema, or of the file that it names."""
    if "(" in schema:
        text = schema
    else:
        try:
            text = (folder / schema).read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise ConfigError(
                f"The schema file {schema} cannot be read: {error}.",
                hint="`schema` takes CREATE TABLE statements, or the name of a file with them.",
            ) from None
    return text
