"""What `sql` says of two queries."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ratchet.evaluate import sql
from ratchet.types import ConfigError, InputError, Score
from tests.evaluate.conftest import ended, verdict

SCHEMA = """
CREATE TABLE customers (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT, age INTEGER CHECK (age > 0)
);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers (id), total REAL, placed DATE
);
"""


def judged(given: Any, expected: Any, *, metadata: Any = None, **options: Any) -> Score:
    options.setdefault("schema", SCHEMA)
    return verdict(sql(**options), ended(given, expected, metadata=metadata or {}))


EQUAL = [
    ("SELECT name FROM customers WHERE age > 30", "select c.NAME from customers c where 30<c.age"),
    ("SELECT name FROM customers WHERE NOT age > 30", "SELECT name FROM customers WHERE age <= 30"),
    ("SELECT DISTINCT city FROM customers", "SELECT city FROM customers GROUP BY city"),
    ("SELECT name FROM customers ORDER BY age", "SELECT name FROM customers ORDER BY age, id DESC"),
    (
        "SELECT name FROM customers ORDER BY age LIMIT 3",
        "WITH c AS (SELECT * FROM customers) SELECT name FROM c ORDER BY age LIMIT 3",
    ),
    (
        "SELECT c.name FROM customers c JOIN orders o ON o.customer_id = c.id",
        "SELECT c.name FROM orders o, customers c WHERE c.id = o.customer_id",
    ),
    ("SELECT 1 + 1", "SELECT 2"),
    ("SELECT AVG(total) FROM orders", "SELECT SUM(total) / COUNT(total) FROM orders"),
    ("SELECT COUNT(*) FROM orders", "SELECT COUNT(id) FROM orders"),
    ("SELECT total FROM orders WHERE total > 5", "SELECT total * 1.0 FROM orders WHERE total > 5"),
]
DIFFERENT = [
    ("SELECT name FROM customers WHERE age > 30", "SELECT name FROM customers WHERE age >= 30"),
    ("SELECT name FROM customers WHERE age > 31", "SELECT name FROM customers WHERE age > 30"),
    ("SELECT id FROM customers WHERE city = 'Ro'", "SELECT id FROM customers WHERE city = 'ro'"),
    ("SELECT DISTINCT city FROM customers", "SELECT city FROM customers"),
    ("SELECT COUNT(*) FROM customers", "SELECT COUNT(city) FROM customers"),
    ("SELECT name FROM customers ORDER BY age", "SELECT name FROM customers"),
    ("SELECT name FROM customers ORDER BY age", "SELECT name FROM customers ORDER BY age DESC"),
    (
        "SELECT name FROM customers WHERE id IN (SELECT customer_id FROM orders)",
        "SELECT c.id, c.name FROM customers c JOIN orders o ON o.customer_id = c.id",
    ),
    ("SELECT name, city FROM customers", "SELECT city, name FROM customers"),
    (
        "SELECT name FROM customers ORDER BY age LIMIT 1",
        "SELECT name FROM customers WHERE age = (SELECT MIN(age) FROM customers)",
    ),
    (
        "SELECT name FROM customers WHERE id NOT IN (SELECT customer_id FROM orders)",
        "SELECT name FROM customers c WHERE NOT EXISTS"
        " (SELECT 1 FROM orders o WHERE o.customer_id = c.id)",
    ),
    (
        "SELECT c.name, o.total FROM customers c LEFT JOIN orders o ON o.customer_id = c.id",
        "SELECT c.name, o.total FROM customers c JOIN orders o ON o.customer_id = c.id",
    ),
    (
        "SELECT customer_id FROM orders GROUP BY customer_id HAVING COUNT(*) > 3",
        "SELECT customer_id FROM orders GROUP BY customer_id HAVING COUNT(*) >= 3",
    ),
    (
        "SELECT id FROM orders WHERE placed BETWEEN '2024-01-01' AND '2024-06-30'",
        "SELECT id FROM orders WHERE placed > '2024-01-01' AND placed < '2024-06-30'",
    ),
    ("SELECT city FROM customers UNION SELECT name FROM customers", "SELECT city FROM customers"
     " UNION ALL SELECT name FROM customers"),
    ("SELECT CAST(age AS TEXT) FROM customers", "SELECT age FROM customers"),
    ("SELECT age / 2 FROM customers", "SELECT age / 2.0 FROM customers"),
    ("SELECT name FROM customers", "DROP TABLE customers"),
    ("SELECT name FROM customers", "SELECT name FROM customers; DELETE FROM customers"),
    ("SELECT name FROM customers", "SELECT nme FROM customers"),
    ("SELECT name FROM customers", "I do not know."),
    ("SELECT name FROM customers", ""),
    ("SELECT name FROM customers", None),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "given"), EQUAL)
def test_equivalent_queries_are_equal(expected: str, given: str) -> None:
    score = judged(given, expected)
    assert score.value == 1, score


@pytest.mark.parametrize(("expected", "given"), DIFFERENT)
def test_queries_with_different_results_are_different(expected: str, given: Any) -> None:
    score = judged(given, expected)
    assert score.value == 0, score


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_without_a_schema_it_is_inferred_from_the_queries(at: int) -> None:
    for (expected, given), value in ((EQUAL[at], 1), (DIFFERENT[at], 0)):
        assert verdict(sql(), ended(given, expected)).value == value


def test_the_schema_may_be_the_tasks_own() -> None:
    score = judged("SELECT a FROM t", "SELECT b FROM t", schema=None, metadata={
        "schema": "CREATE TABLE t (a INTEGER, b INTEGER)"
    })  # fmt: skip
    assert score.value == 0


def test_what_gives_nothing_anywhere_is_unknown_and_not_equal() -> None:
    one = "SELECT name FROM customers WHERE age < -5"  # the schema forbids such an age
    score = judged("SELECT city FROM customers WHERE age < -5", one)
    assert score.value is None
    assert "unknown: the expected query returns nothing on generated databases" in score.error
    again = judged("select NAME from customers where (-5 > age)", one)
    assert (again.value, again.rationale) == (1, "the same query in another notation")


def test_a_difference_in_quotes_or_case_of_a_text_is_no_notation() -> None:
    one = "SELECT name FROM customers WHERE age < -5 AND city = 'Rome'"
    for other in ("'rome'", '"rome"', '"Rome"'):
        assert judged(one.replace("'Rome'", other), one).value is None


def test_a_block_of_code_in_an_answer_is_its_query() -> None:
    text = "Here it is:\n```sql\nSELECT name\nFROM customers;\n```\nIt lists the names."
    assert judged(text, "SELECT name FROM customers").value == 1
    assert judged({"sql": "SELECT name FROM customers"}, "SELECT name FROM customers").value == 1


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A database of a shop."""
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        connection.executemany(
            "INSERT INTO customers VALUES (?, ?, ?, ?)",
            [(1, "Ann", "Rome", 30), (2, "Bob", "Oslo", 40), (3, "Cid", "Rome", 30)],
        )
        connection.commit()
    return path


def test_rows_that_tie_in_the_order_may_come_in_any(shop: Path) -> None:
    on_it = {"schema": None, "database": str(shop)}
    by_age = "SELECT name FROM customers ORDER BY age"
    assert judged("SELECT name FROM customers ORDER BY age, id DESC", by_age, **on_it).value == 1
    assert judged("SELECT name FROM customers ORDER BY id", by_age, **on_it).value == 0
    first = judged("SELECT 'Cid'", f"{by_age} LIMIT 1", **on_it)
    assert first.value == 1
    assert judged("SELECT 'Bob'", f"{by_age} LIMIT 1", **on_it).value == 0
    assert (
        judged("SELECT name FROM customers ORDER BY age, id", by_age + ", id DESC", **on_it).value
        == 0
    )


def test_where_the_ties_of_an_order_cannot_be_told_the_order_is_that_of_the_database(
    shop: Path,
) -> None:
    on_it = {"schema": None, "database": str(shop)}
    for order in ("age LIMIT 1 + 1", "2.5", "3"):
        query = f"SELECT name, age, city FROM customers ORDER BY {order}"
        assert judged(query.lower(), query, **on_it).value == 1
    distinct = "SELECT DISTINCT city FROM customers ORDER BY age"
    assert judged(distinct, distinct, **on_it).value == 1


def test_two_empty_results_on_a_database_are_unknown(shop: Path) -> None:
    one = "SELECT name FROM customers WHERE city = 'Paris'"
    other = "SELECT name FROM customers WHERE city = 'Bonn'"
    assert "both results are empty" in judged(other, one, database=str(shop)).error
    assert judged(other, one, database=str(shop), databases=8).value == 0


def test_no_statement_changes_the_database(shop: Path) -> None:
    before = hashlib.sha256(shop.read_bytes()).hexdigest()
    for statement in (
        "DELETE FROM customers",
        "UPDATE customers SET age = 1 RETURNING name",
        "PRAGMA user_version = 7",
        f"ATTACH '{shop}.other' AS other",
        f"VACUUM INTO '{shop}.copy'",
        "CREATE TABLE t (a)",
        "SELECT load_extension('x')",
        "WITH x AS (SELECT 1) INSERT INTO customers SELECT 9, 'Z', 'Y', 3",
    ):
        score = judged(statement, "SELECT name FROM customers", database=str(shop))
        assert (score.value, score.error) == (0, ""), statement
        assert judged("SELECT name FROM customers", statement, database=str(shop)).value is None
    assert hashlib.sha256(shop.read_bytes()).hexdigest() == before
    assert [path.name for path in shop.parent.iterdir()] == ["shop.db"]


def test_a_query_without_end_is_stopped_and_unscored(shop: Path) -> None:
    endless = (
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n"
    )
    score = judged(endless, "SELECT name FROM customers", database=str(shop), seconds=0.05)
    assert score.value is None
    assert "did not finish within 0.05 s" in score.error
    many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    assert "more than 100000 rows" in judged(many, "SELECT 1", database=str(shop)).error
    large = "SELECT hex(zeroblob(900000000))"
    assert "too large" in judged(large, "SELECT 1", database=str(shop)).error


def test_other_dialects_are_translated() -> None:
    one = "SELECT name FROM customers WHERE name ILIKE 'a%' LIMIT 10"
    same = "SELECT c.name FROM customers AS c WHERE LOWER(c.name) LIKE 'a%' LIMIT 10"
    assert judged(same, one, dialect="postgres").value == 1
    unreadable = judged("SELEC name", one, dialect="postgres")
    assert "it is not a query in postgres" in unreadable.error


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"dialect": "mysequel"}, ConfigError, "mysequel"),
        ({"databases": 0}, InputError, "databases = 0 needs a database"),
        ({"databases": -1}, InputError, "not a number from 0 to 100"),
        ({"tolerance": float("nan")}, InputError, "The tolerance is nan"),
        ({"seconds": 0}, InputError, "seconds = 0"),
        ({"schema": "no/such/file.sql"}, ConfigError, "no/such/file.sql cannot be read"),
    ],
)
def test_wrong_options_are_named(options: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        sql(**options)


@pytest.mark.parametrize(
    ("options", "expected", "words"),
    [
        ({"database": "missing.db"}, "SELECT 1", "The database missing.db does not exist"),
        ({"database": __file__}, "SELECT 1", "cannot be read: file is not a database"),
        ({"schema": "CREATE TABLE (a)"}, "SELECT 1", "The schema is not valid"),
        ({"schema": "-- (nothing)"}, "SELECT 1", "declares no table"),
        ({}, "no query", "is not a query in sqlite"),
        ({}, "SELECT x FROM customers", "The expected query cannot be run"),
        ({}, {"answer": 1}, "is not a query"),
    ],
)
def test_what_makes_a_comparison_impossible_is_named(
    options: Any, expected: Any, words: str
) -> None:
    score = judged("SELECT name FROM customers", expected, **options)
    assert score.value is None
    assert words in score.error
