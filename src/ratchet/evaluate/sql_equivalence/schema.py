"""The tables that queries read: from a schema's text, a database, or only the queries."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope

from ratchet.evaluate.sql_equivalence.literals import Kind, uses
from ratchet.evaluate.sql_equivalence.parsing import unqualified
from ratchet.types import InputError

_CREATING = frozenset(
    {
        sqlite3.SQLITE_CREATE_TABLE,
        sqlite3.SQLITE_CREATE_INDEX,
        sqlite3.SQLITE_CREATE_VIEW,
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_UPDATE,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_REINDEX,
        sqlite3.SQLITE_TRANSACTION,
    }
)
_NUMBERS = re.compile(r"(^|_)(id|count|age|year|qty|quantity|number)$")
_REALS = re.compile(r"(^|_)(price|amount|total|salary|cost|rate|score|weight|revenue|balance)$")
_TEXTS = re.compile(r"(^|_)(name|title|city|country|email|type|status|category|gender|state)$")


@dataclass(frozen=True)
class SqlColumn:
    """A column of a table."""

    name: str
    declared: str
    """Its declared type."""
    kind: Kind
    nullable: bool = True
    unique: bool = False
    references: tuple[str, str] | None = None
    """Table and column that it refers to, in lower case."""


@dataclass(frozen=True)
class SqlTable:
    """A table of a schema, with its columns in order."""

    name: str
    columns: tuple[SqlColumn, ...]


@dataclass(frozen=True)
class SqlSchema:
    """Tables, and the statements that make them in SQLite."""

    statements: tuple[str, ...]
    tables: tuple[SqlTable, ...]

    def empty_database(self) -> sqlite3.Connection:
        """A database in memory with the tables, without rows."""
        connection = sqlite3.connect(":memory:", isolation_level=None)
        for statement in self.statements:
            connection.execute(statement)
        return connection

    @property
    def columns(self) -> frozenset[str]:
        """The names of all columns, in lower case."""
        return frozenset(c.name.lower() for table in self.tables for c in table.columns)


def declared_schema(text: str, dialect: str) -> SqlSchema:
    """The schema that CREATE statements declare.

    Raises:
        InputError: It is not readable, or declares no table.
    """
    statements = _statements(text) if dialect == "sqlite" else _translated(text, dialect)
    return _schema(statements)


def schema_of(database: sqlite3.Connection) -> SqlSchema:
    """The schema of a database.

    Raises:
        InputError: It has no table.
    """
    rows = database.execute(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
        " AND type IN ('table', 'index', 'view')"
        " ORDER BY CASE type WHEN 'table' THEN 0 WHEN 'index' THEN 1 ELSE 2 END"
    )
    return _schema(tuple(row[0] for row in rows))


def _statements(text: str) -> tuple[str, ...]:
    statements, begun = [], ""
    for part in re.split(r"(?<=;)", text):
        begun += part
        if sqlite3.complete_statement(begun):
            statements.append(begun.strip())
            begun = ""
    if re.sub(r"--[^\n]*", "", begun).strip():
        statements.append(begun.strip())
    creating = (
        statement for statement in statements if re.search(r"\bcreate\b", statement, re.IGNORECASE)
    )
    return tuple(map(_in_no_schema, creating))


def _in_no_schema(statement: str) -> str:
    """A SQLite statement without schemas; unchanged if it names none or cannot be parsed."""
    try:
        tree = sqlglot.parse_one(statement, read="sqlite")
    except (SqlglotError, RecursionError):
        return statement
    plain = unqualified(tree)
    return statement if plain is tree else plain.sql(dialect="sqlite")


def _translated(text: str, dialect: str) -> tuple[str, ...]:
    try:
        trees = [tree for tree in sqlglot.parse(text, read=dialect) if isinstance(tree, exp.Create)]
        return tuple(
            unqualified(tree).sql(dialect="sqlite", unsupported_level=ErrorLevel.IGNORE)
            for tree in trees
        )
    except (SqlglotError, RecursionError) as error:
        raise InputError(f"The schema is not valid {dialect}: {error}.") from None


def _schema(statements: Sequence[str]) -> SqlSchema:
    with sqlite3.connect(":memory:", isolation_level=None) as connection:
        connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in _CREATING else sqlite3.SQLITE_DENY
        )
        for statement in statements:
            try:
                connection.execute(statement)
            except (sqlite3.Error, sqlite3.Warning) as error:
                raise InputError(f"The schema is not valid: {error}: {statement[:200]}") from None
        connection.set_authorizer(None)
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        tables = tuple(_table(connection, name) for (name,) in names)
    connection.close()
    if not tables:
        raise InputError("The schema declares no table; it must have CREATE TABLE statements.")
    return SqlSchema(tuple(statements), _parents_first(tables))


def _table(connection: sqlite3.Connection, name: str) -> SqlTable:
    quoted = name.replace('"', '""')
    rows = connection.execute(f'PRAGMA table_info("{quoted}")').fetchall()
    keys = [row[1] for row in rows if row[5]]
    unique = {keys[0].lower()} if len(keys) == 1 else set()
    for index in connection.execute(f'PRAGMA index_list("{quoted}")').fetchall():
        if index[2] and not index[4]:
            inner = index[1].replace('"', '""')
            of = connection.execute(f'PRAGMA index_info("{inner}")').fetchall()
            if len(of) == 1 and of[0][2]:
                unique.add(of[0][2].lower())
    refers = {}
    for row in connection.execute(f'PRAGMA foreign_key_list("{quoted}")').fetchall():
        refers[row[3].lower()] = (row[2].lower(), (row[4] or "").lower())
    return SqlTable(
        name,
        tuple(
            SqlColumn(
                name=row[1],
                declared=row[2] or "",
                kind=_declared_kind(row[2] or ""),
                nullable=not row[3] and not row[5],
                unique=row[1].lower() in unique,
                references=refers.get(row[1].lower()),
            )
            for row in rows
        ),
    )


def _declared_kind(declared: str) -> Kind:
    """The type of values, by SQLite's affinity rules; dates are texts there."""
    name = declared.upper()
    if "INT" in name or "BOOL" in name:
        return "integer"
    if "DATE" in name or "TIME" in name:
        return "date"
    if "CHAR" in name or "TEXT" in name or "CLOB" in name or "ENUM" in name:
        return "text"
    return "real" if re.search("REAL|FLOA|DOUB|NUM|DEC|MONEY", name) else ""


def _parents_first(tables: tuple[SqlTable, ...]) -> tuple[SqlTable, ...]:
    """Tables, each after those that it refers to; a cycle keeps its order."""
    left, placed = list(tables), list[SqlTable]()
    while left:
        placed_names = {table.name.lower() for table in placed}
        ready = next(
            (
                table
                for table in left
                if all(
                    c.references is None or c.references[0] in placed_names | {table.name.lower()}
                    for c in table.columns
                )
            ),
            left[0],
        )
        left.remove(ready)
        placed.append(ready)
    return tuple(placed)


def inferred_schema(trees: Sequence[exp.Expr]) -> SqlSchema:
    """The tables and columns that queries name.

    A column without its table's name is one of the first table of its FROM that no other query
    says anything else of. A column `id` identifies its rows, and `order_id` refers to that of a
    table `order` or `orders`. Each table has one more column, which no query names.

    Raises:
        InputError: Their tables cannot be determined.
    """
    columns: dict[str, dict[str, None]] = {}
    names: dict[str, str] = {}
    open_ones: list[tuple[list[str], str]] = []
    for tree in trees:
        for scope in _scopes(tree):
            tables = {
                alias.lower(): source.name
                for alias, source in scope.sources.items()
                if isinstance(source, exp.Table)
            }
            for name in tables.values():
                columns.setdefault(name.lower(), {})
                names.setdefault(name.lower(), name)
            _read_columns(scope, tables, columns, open_ones)
    if not columns:  # as in SELECT 1
        columns["unused"], names["unused"] = {}, "unused"
    for within, column in open_ones:
        if not any(column in columns[table] for table in within):
            columns[within[0]][column] = None
    use = uses(trees, frozenset(c for table in columns.values() for c in table))
    statements, tables_made = [], []
    for key, column_names in columns.items():
        table_columns = [
            _inferred_column(name, use.columns[name].kind, columns) for name in column_names
        ]
        table_columns.append(SqlColumn(f"other_of_{key}", "INTEGER", "integer"))
        quoted = ", ".join(
            f'"{c.name}" {c.declared}{" PRIMARY KEY" if c.unique else ""}' for c in table_columns
        )
        statements.append(f'CREATE TABLE "{names[key]}" ({quoted})')
        tables_made.append(SqlTable(names[key], tuple(table_columns)))
    return SqlSchema(tuple(statements), _parents_first(tuple(tables_made)))


def _scopes(tree: exp.Expr) -> list[Scope]:
    try:
        return list(traverse_scope(tree))
    except (SqlglotError, RecursionError):
        raise InputError("The tables of the queries cannot be determined; give a schema.") from None


def _read_columns(
    scope: Scope,
    tables: dict[str, str],
    columns: dict[str, dict[str, None]],
    open_ones: list[tuple[list[str], str]],
) -> None:
    selected = getattr(scope.expression, "expressions", None) or []
    aliases = {
        expression.alias.lower() for expression in selected if isinstance(expression, exp.Alias)
    }
    derived = {
        name.lower()
        for source in scope.sources.values()
        if isinstance(source, Scope)
        for name in getattr(source.expression, "named_selects", [])
    }
    for column in scope.columns:
        name = column.name.lower()
        if not name or name == "*":
            continue
        if column.table:
            table = tables.get(column.table.lower())
            through = _behind_star(scope.sources.get(column.table))
            if table is not None:
                columns[table.lower()][name] = None
            elif through:
                open_ones.append((through, name))
        elif tables and not (
            name in derived or _may_be_text(column) or _names_a_result(column, name, aliases)
        ):
            open_ones.append(([table.lower() for table in tables.values()], name))
        elif not tables and name not in derived and not _names_a_result(column, name, aliases):
            through = [t for source in scope.sources.values() for t in _behind_star(source)]
            if through:
                open_ones.append((through, name))
    for join in scope.find_all(exp.Join):
        for identifier in join.args.get("using") or []:
            for table in tables.values():
                columns[table.lower()][identifier.name.lower()] = None


def _behind_star(source: object) -> list[str]:
    """The tables of a subquery that selects all their columns."""
    if not isinstance(source, Scope) or not getattr(source.expression, "is_star", False):
        return []
    tables = []
    for inner in source.sources.values():
        tables += [inner.name.lower()] if isinstance(inner, exp.Table) else _behind_star(inner)
    return tables


def _may_be_text(column: exp.Column) -> bool:
    """Whether a quoted name is compared, as in `city = "Rome"`, which SQLite treats as text."""
    name, parent = column.this, column.parent
    if not (isinstance(name, exp.Identifier) and name.quoted):
        return False
    if isinstance(parent, exp.In):
        return column is not parent.this
    return isinstance(parent, exp.Binary) and column is parent.expression


def _names_a_result(column: exp.Column, name: str, aliases: Iterable[str]) -> bool:
    """Whether ORDER BY, GROUP BY or HAVING refers to a column of the result."""
    return name in aliases and column.find_ancestor(exp.Order, exp.Group, exp.Having) is not None


def _inferred_column(name: str, kind: Kind, tables: Mapping[str, Collection[str]]) -> SqlColumn:
    if _REALS.search(name) and kind in ("", "integer"):
        kind = "real"
    if not kind:
        kind = "text" if _TEXTS.search(name) else "integer"
        kind = "date" if "date" in name and not _NUMBERS.search(name) else kind
    declared = {"integer": "INTEGER", "real": "REAL", "text": "TEXT", "date": "TEXT"}[kind]
    is_key = name == "id"
    parent = name.removesuffix("_id")
    parents = (parent, f"{parent}s", f"{parent}es", f"{parent.removesuffix('y')}ies")
    key = next(((table, "id") for table in parents if "id" in tables.get(table, ())), None)
    refers = key if name.endswith("_id") else None
    return SqlColumn(name, declared, kind, nullable=not is_key, unique=is_key, references=refers)
