"""Parses queries with sqlglot, and finds queries that differ only in notation."""

from __future__ import annotations

import re
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from ratchet.llm.answer_text import code_blocks

_QUERY = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(?:select|with|values|from|table|insert|update|delete|create|drop"
    r"|alter|replace|merge|truncate|pragma|explain)\b",
    re.IGNORECASE | re.DOTALL,
)
_DEFAULT_SCHEMAS = frozenset({"main", "public", "dbo"})
"""Schemas of SQLite, Postgres and SQL Server whose tables need no qualified name."""

_FLIPPED = {exp.GT: exp.LT, exp.GTE: exp.LTE}


def query_in(text: str) -> str:
    """The query in a text: its last code block that begins like SQL, or all of it."""
    blocks = [block.text for block in code_blocks(text)]
    queries = [block for block in blocks if _QUERY.match(block)]
    return [text, *blocks[-1:], *queries[-1:]][-1].strip().rstrip(";").strip()


def parse(query: str, dialect: str) -> exp.Expr | None:
    """The syntax tree of one query; None if sqlglot cannot read it as one."""
    try:
        statements = [
            statement for statement in sqlglot.parse(query, read=dialect) if statement is not None
        ]
    except (SqlglotError, RecursionError, ValueError, IndexError, KeyError, TypeError):
        return None
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        return None
    return statements[0]


def in_sqlite(tree: exp.Expr) -> str:
    """A query in SQLite's dialect.

    Raises:
        ValueError: It uses what SQLite does not have.
    """
    try:
        return tree.sql(dialect="sqlite", comments=False, unsupported_level=ErrorLevel.RAISE)
    except (SqlglotError, RecursionError) as error:
        raise ValueError(str(error).splitlines()[0] if str(error) else "unknown") from None


def schemas_of(tree: exp.Expr) -> dict[str, str]:
    """Schema named in a query, by table name, except default schemas.

    Raises:
        ValueError: It reads tables of the same name in different schemas.
    """
    schemas: dict[str, str] = {}
    for table in tree.find_all(exp.Table):
        schema = table.db.lower()
        if schema in ("", *_DEFAULT_SCHEMAS):
            continue
        if schemas.setdefault(table.name.lower(), schema) != schema:
            raise ValueError(f"it reads tables {table.name} of different schemas")
    return schemas


def unqualified(tree: exp.Expr) -> exp.Expr:
    """A statement without the schemas of its tables, since SQLite has none.

    It stays as it is where a name without a schema would be another: that of a CTE.
    """
    places = [node for node in tree.find_all(exp.Table, exp.Column) if node.args.get("db")]
    tables = {node.name.lower() for node in places if isinstance(node, exp.Table)}
    if not places or tables & {cte.alias.lower() for cte in tree.find_all(exp.CTE)}:
        return tree
    plain = tree.copy()
    for node in plain.find_all(exp.Table, exp.Column):
        node.set("db", None)
        node.set("catalog", None)
    return plain


def same_notation(first: exp.Expr, second: exp.Expr) -> bool:
    """Whether two queries differ only in white space, comments, upper case of names and keywords,
    needless parentheses, the order of AND and OR, and the side of a comparison.

    sqlglot's own rewriting and difference are not used: both have called different queries equal.
    """
    try:
        return repr(_canonical(first)) == repr(_canonical(second))
    except RecursionError:
        return False


def _canonical(node: Any) -> Any:
    if isinstance(node, list):
        return tuple(_canonical(child) for child in node)
    if not isinstance(node, exp.Expr):
        return node
    if isinstance(node, exp.Paren):
        return _canonical(node.this)
    if isinstance(node, exp.Identifier):
        # A quoted name may be a text to SQLite, so its case counts.
        return ("quoted", node.this) if node.quoted else node.this.lower()
    if isinstance(node, exp.Literal):
        return ("literal", node.is_string, node.this)
    kind: type[Any] = type(node)
    if isinstance(node, (exp.And, exp.Or)):
        # The same type only: an inner OR of an AND stays as it is.
        return (kind.__name__, tuple(sorted(map(repr, map(_canonical, _operands(node, kind))))))
    values = {key: _canonical(value) for key, value in node.args.items() if _says(value)}
    if isinstance(node, (exp.EQ, exp.NEQ)):
        sides = sorted((repr(values["this"]), repr(values["expression"])))
        return (kind.__name__, tuple(sides))
    if kind in _FLIPPED:
        kind = _FLIPPED[kind]
        values["this"], values["expression"] = values["expression"], values["this"]
    if isinstance(node, exp.Join) and values.get("kind") == "INNER":
        del values["kind"]
    return (kind.__name__, tuple(sorted((key, repr(value)) for key, value in values.items())))


def _operands(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    operands: list[exp.Expr] = []
    left = [node.args["this"], node.args["expression"]]
    while left:
        operand = left.pop()
        while isinstance(operand, exp.Paren):
            operand = operand.this
        if type(operand) is kind:
            left += [operand.args["this"], operand.args["expression"]]
        else:
            operands.append(operand)
    return operands


def _says(value: Any) -> bool:
    return value is not None and value is not False and value != []
