"""Queries that a program sends to a database: which write, by their texts."""

from __future__ import annotations

import re

from ratchet.wire.facts import EffectKind
from ratchet.wire.looking.meanings import argument_of
from ratchet.wire.looking.method_words import words_of
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.syntax import (
    Alternatives,
    AttributeUse,
    BinaryOperation,
    BoundValue,
    CodeScope,
    ImportedName,
    Invocation,
    NameUse,
    SequenceLiteral,
    Syntax,
    TextTemplate,
    TextValue,
    chain_of,
    last_name,
    static_text,
)

_SQL = re.compile(
    r"^\s*(?:INSERT|REPLACE|UPSERT|UPDATE|DELETE|CREATE|DROP|ALTER|MERGE|TRUNCATE|COPY)\b",
    re.IGNORECASE,
)
_RUNNING = {
    *("execute", "executescript", "executemany", "query", "run", "raw", "execute_query"),
    *("sql", "executeQuery", "exec", "$executeRaw"),
    *("fetch", "fetchval", "fetchrow", "fetchone", "fetchall", "fetch_one", "fetch_all"),
}
_MEANING_MUCH = {"run", "query", "raw", "sql", "exec"}
"""Methods that run other texts than SQL too, such as what an agent is asked."""
_WHOLE_SQL = re.compile(
    r"\s*(?:(?:INSERT|UPSERT|REPLACE|MERGE)\s.*?\b(?:INTO|SET)\b|(?:DETACH\s+)?DELETE\s+(?:FROM\b|\w+\s*$)"
    r"|WITH\b.*?\)\s*(?:INSERT\s+INTO|DELETE\s+FROM|UPDATE\s+\S+\s+SET)\b|UPDATE\s.*?\bSET\b|(?:CREATE|DROP|ALTER|TRUNCATE)\s+(?:OR\s+REPLACE\s+|UNIQUE\s+|TEMP\w*\s+|VIRTUAL\s+|(?:FULLTEXT|VECTOR|RANGE)\s+)*"
    r"(?:TABLE|INDEX|VIEW|DATABASE|SCHEMA|EXTENSION|FUNCTION|TRIGGER|TYPE|ROLE|CONSTRAINT|MODEL)\b|(?:CREATE|MERGE)\s*\(|COPY\s.*?\b(?:FROM|TO)\b)",
    re.IGNORECASE | re.DOTALL,
)
_CYPHER = re.compile(
    r"^\s*(?:MATCH|UNWIND|WITH|CALL|FOREACH|OPTIONAL\s+MATCH)\b.*\b(?:CREATE|MERGE|SET|DELETE|REMOVE)\b(?!\s*['\"])",
    re.DOTALL,
)
_GRAPHQL = re.compile(r"^\s*mutation\b[^{]*\{")
_QUERY_WORDS = {"query", "sql", "cypher", "statement"}
"""Words of methods that take the text of a query."""
_TEXTS = {"sql", "cypher"}
"""Words of variables that hold a query."""
_RECEIVING = re.compile(
    r"(?:^|[._])(?:session|tx|transaction|driver|conn|connection|cursor|db|database|graph|client|engine)\d?\.\w+$"
)
"""What takes queries, by its name."""
_REQUESTING = {"execute", "execute_async", "request", "mutate", "query", "graphql"}
"""Methods that send GraphQL."""
_DATABASES = re.compile(
    r"(?:^|[._])(?:cur|cursor|conn|connection|session|engine|db|database)\d?\.execute$"
)
"""What runs SQL, by its name; a text that is not known may be any."""
_CLIENTS = re.compile(
    r"^(?:neo4j|neo4j-driver|psycopg\w*|asyncpg|sqlite3|aiosqlite|apsw|pymysql|mysql\w*|MySQLdb|aiomysql|pyodbc"
    r"|snowflake|google\.cloud\.(?:bigquery|spanner)|@google-cloud/(?:bigquery|spanner)|duckdb|@duckdb/[\w-]+"
    r"|clickhouse\w*|@clickhouse/client|databases|sqlalchemy|sqlmodel|trino|pyhive|oracledb|cx_Oracle|kuzu|pg"
    r"|@neondatabase/serverless|@vercel/postgres|better-sqlite3|postgres|knex|sequelize|typeorm|redshift_connector|databricks"
    r"|falkordb|memgraph|arango|surrealdb|cassandra)(?=[./]|$)"
    r"|(?:graph_stores|\.graphs|graph_store|sql_database|SQLDatabase|Neo4jGraph)\b|PropertyGraphStore|GraphStore\b"
)
"""Clients of databases that take queries as texts."""
_OBJECTS = re.compile(r"^(?:sqlalchemy|sqlmodel|flask_sqlalchemy|fastapi_sqlalchemy|typeorm)\b")
"""Clients whose `query` takes classes and columns."""
_COMPUTED = re.compile(
    r"^(?:a|async_?)?(?:execute(?:_?(?:query|sql|script|raw|async|many))*|structured_query|run(?:_?(?:query|sql|cypher))*"
    r"|query|raw|sql|cypher|exec|unsafe|executescript|executeQuery)$"
)
"""Methods of those that run any text."""
_STATEMENT = re.compile(r"(?:INSERT\s+INTO|DELETE\s+FROM|UPDATE\s+\S+\s+SET)\b", re.IGNORECASE)
_SELECTING = re.compile(r"^(?:\w+\.)?(?:select|exists|func|union|with_)\b")
_CHANGING = re.compile(r"^(?:\w+\.)?(?:\w+_)?(?:insert|update|delete)\b")
_PASSING = {"text", "gql", "SQL", "sql", "dedent", "str", "cleandoc", "Query", "fromString"}
"""Functions that hand on the text of a query."""
_KEPT = {"strip", "format", "replace", "where", "join", "limit", "order_by"}
"""Methods of a text or statement after which it does what it did."""
_DEPTH = 5


def query_effect(call: Invocation, scope: CodeScope, names: Names) -> tuple[EffectKind, str] | None:
    """The effect of a call that runs a query which writes, or one whose text is computed.

    A text that is not known may be any: often a model wrote it.
    """
    name = last_name(call.function)
    given = next(
        (call.keywords[one] for one in ("query", "sql", "statement") if one in call.keywords), None
    )
    given = call.arguments[0] if call.arguments else given
    if given is None:
        return None
    words = words_of(name)
    if name not in _REQUESTING | _RUNNING and _QUERY_WORDS.isdisjoint(words):
        return None
    written = chain_of(call.function)
    if written == "Prisma.sql" or "drizzle-orm.sql" in names.outside_names(call, scope):
        return None  # what is built here runs elsewhere
    texts: list[str] | None = None
    if name in _REQUESTING:
        texts = _texts(given, scope, names)
        if any(_GRAPHQL.match(one) for one in texts):
            return "post", written
    running = name in _RUNNING
    if running or not _QUERY_WORDS.isdisjoint(words):
        strict = not running or name in _MEANING_MUCH
        texts = texts if texts is not None else _texts(given, scope, names)
        if any((_WHOLE_SQL if strict else _SQL).match(one) or _CYPHER.match(one) for one in texts):
            return "database write", written
    if not _COMPUTED.match(name) or not isinstance(call.function, AttributeUse):
        return None
    texts = texts if texts is not None else _texts(given, scope, names)
    if "" in texts and not _is_class(given, scope, names):
        if name == "execute" and _DATABASES.search(written):
            return "database write", written
        outside = names.outside_names(call, scope)
        for one in [*outside, written]:
            if _CLIENTS.search(one) and not (name == "query" and _OBJECTS.match(one)):
                return "database write", one
        named = isinstance(given, NameUse) and not _TEXTS.isdisjoint(words_of(given.name))
        local = any(one.scope is not None for one in names.meanings(call.function, scope))
        if named and not local and _RECEIVING.search(written):
            return "database write", written
    return None


def _is_class(syntax: Syntax, scope: CodeScope, names: Names) -> bool:
    """Whether a class is asked for: `session.query(User)`."""
    return any(
        one.scope is not None and one.scope.kind == "class" for one in names.meanings(syntax, scope)
    )


def _texts(
    syntax: Syntax, scope: CodeScope, names: Names, depth: int = 0, name: str = ""
) -> list[str]:
    """Constant beginnings of what an expression stands for; one that is not known is empty."""
    if depth > _DEPTH:
        return [""]
    found: list[str] = []
    match syntax:
        case TextTemplate(parts=[first, *_]) if isinstance(first, Syntax):
            inside = _STATEMENT.search(static_text(syntax))
            if inside is not None:
                return [static_text(syntax)[inside.start() :]]
            return _texts(first, scope, names, depth + 1, name)
        case TextValue() | TextTemplate():
            return [_beginning(static_text(syntax))]
        case SequenceLiteral(items=[first, *_]):
            return _texts(first, scope, names, depth + 1, name)
        case BinaryOperation(left=left):
            return _texts(left, scope, names, depth + 1, name)
        case Alternatives(options=options):
            return [t for one in options for t in _texts(one, scope, names, depth + 1, name)]
        case NameUse(name=used) if used != name:
            bounds, function = names.bound(used, scope)
            for bound in bounds[:6]:
                if bound.how != "added":
                    found += _of_bound(bound, names, depth, used)
            if function is not None:
                found += _passed(function, used, names, depth)
            return found or [""]
        case NameUse():
            return []  # statement = statement.where(…)
        case AttributeUse(base=base, name=field):
            for one in names.meanings(base, scope)[:3]:
                if one.module is not None:
                    bounds = names.of_module(one.module, field)
                elif one.scope is not None and one.scope.kind == "class":
                    bounds = names.classes.attributes(one.scope, field)
                else:
                    continue
                for bound in bounds[:4]:
                    found += _of_bound(bound, names, depth, name)
            return found or [""]
        case Invocation():
            return _of_call(syntax, scope, names, depth, name)
    return [""]


def _beginning(text: str) -> str:
    """A query's text from its statement on; empty if it begins with what is computed."""
    if not text.lstrip().startswith("{…}"):
        return text
    found = _STATEMENT.search(text)
    return text[found.start() :] if found else ""


def _of_bound(bound: BoundValue, names: Names, depth: int, name: str) -> list[str]:
    if isinstance(bound.value, ImportedName):
        origin = names.imported(bound.scope.module, bound.value)
        if not isinstance(origin, list):
            return [""]
        return [t for one in origin[:4] for t in _of_bound(one, names, depth + 1, name)]
    if bound.how == "iterated":
        return [""]
    return _texts(bound.value, bound.scope, names, depth + 1, name)


def _passed(function: CodeScope, name: str, names: Names, depth: int) -> list[str]:
    """Texts that calls of a function pass for a parameter."""
    found: list[str] = [""] if names.calls.has_more(function) else []
    for call, scope in names.calls.of(function):
        given = argument_of(function, call, name)
        if given is not None:
            found += _texts(given, scope, names, depth + 1)
    return found


def _of_call(call: Invocation, scope: CodeScope, names: Names, depth: int, name: str) -> list[str]:
    root: Syntax = call
    while isinstance(root, (Invocation, AttributeUse)):
        if isinstance(root, Invocation) and root.arguments:
            called = root.function
            joined = isinstance(called, AttributeUse) and called.name == "join"
            if joined or last_name(called) in _PASSING:
                return _texts(root.arguments[0], scope, names, depth + 1, name)
        root = root.function if isinstance(root, Invocation) else root.base
    if isinstance(root, (TextValue, TextTemplate)):
        return [_beginning(static_text(root))]  # "…".format(…)
    if isinstance(root, NameUse) and root.name == name:
        return []
    chain = chain_of(call)
    if _SELECTING.match(chain):
        return ["SELECT"]
    if _CHANGING.match(chain):
        return ["INSERT INTO"]
    for one in names.meanings(call.function, scope)[:2]:
        if one.scope is not None and one.scope.kind == "function" and one.scope.returns:
            return [
                t for r in one.scope.returns[:4] for t in _texts(r, one.scope, names, depth + 1)
            ]
    handed = isinstance(call.function, AttributeUse) and call.function.name in _KEPT
    if handed and isinstance(root, NameUse):
        return _texts(root, scope, names, depth + 1, name)
    return [""]
