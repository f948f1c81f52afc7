"""Detects globals that cannot be staged: service clients, connections, open files."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from ratchet.source.tree import Module, imports_of

_SERVICES = frozenset(
    {
        "anthropic", "chromadb", "cohere", "discord", "elasticsearch", "groq", "kafka",
        "langchain_anthropic", "langchain_openai", "litellm", "mistralai", "ollama", "openai",
        "opensearchpy", "paramiko", "pika", "pinecone", "pymongo", "qdrant_client", "redis",
        "slack_sdk", "stripe", "supabase", "telegram", "twilio", "weaviate", "websocket",
    }
)  # fmt: skip
"""Packages whose classes are service clients."""

_OPENS = frozenset(
    {
        "aiohttp.ClientSession", "asyncpg.connect", "asyncpg.create_pool", "boto3.client",
        "boto3.resource", "boto3.Session", "ftplib.FTP", "grpc.insecure_channel",
        "grpc.secure_channel", "http.client.HTTPConnection", "http.client.HTTPSConnection",
        "httpx.AsyncClient", "httpx.Client", "io.open", "mysql.connector.connect",
        "psycopg.connect", "psycopg2.connect", "pymysql.connect", "requests.Session",
        "requests.session", "smtplib.SMTP", "smtplib.SMTP_SSL", "socket.create_connection",
        "socket.socket", "sqlalchemy.create_engine", "sqlalchemy.ext.asyncio.create_async_engine",
        "sqlite3.connect", "subprocess.Popen", "urllib.request.urlopen", "urllib3.PoolManager",
        "websockets.connect",
    }
)  # fmt: skip

_NAMED_LIKE_ONE = re.compile(
    r"[A-Z]\w*(Client|Connection|ConnectionPool|Channel|Producer|Consumer)"
)

_FETCHES = re.compile(
    r"(requests|httpx)\.(get|post|put|patch|delete|head|request)|urllib\.request\.urlretrieve"
)


def held_open(module: Module, statement: ast.stmt) -> str:
    """The kind of value that a statement assigns and that cannot be staged; empty if it can be."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
        return ""
    origins = origins_of(module)
    node: ast.expr = statement.value
    while isinstance(node, (ast.Await, ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Call):
            origin = origin_of(node.func, origins)
            if isinstance(node.func, ast.Name) and node.func.id == "open" and not origin:
                return "an open file"
            kind = _kind(origin)
            if kind:
                return f"{kind}, {origin}(…)"
            node = node.func
        else:
            node = node.value
    return ""


def _kind(origin: str) -> str:
    head, _, _ = origin.partition(".")
    last = origin.rpartition(".")[2]
    if origin == "subprocess.Popen":
        return "another process"
    if _FETCHES.fullmatch(origin):
        return "a value fetched from the network"
    if origin in _OPENS:
        return "an open connection"
    if head in _SERVICES and last[:1].isupper() and not last.endswith(("Error", "Exception")):
        return "a service client"
    if "." in origin and _NAMED_LIKE_ONE.fullmatch(last):
        return "a service client"
    return ""


def origins_of(module: Module) -> Mapping[str, str]:
    """Dotted origin of each local name bound by a top-level import."""
    top = [
        s
        for s in module.tree.body
        if not isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    ]
    return {
        imported.bound: f"{imported.module}.{imported.name}" if imported.name else imported.module
        for imported in imports_of(module, top)
        if imported.bound
    }


def origin_of(node: ast.expr, origins: Mapping[str, str]) -> str:
    """Dotted origin of an imported expression; empty if it was not imported."""
    if isinstance(node, ast.Name):
        return origins.get(node.id, "")
    if isinstance(node, ast.Attribute):
        base = origin_of(node.value, origins)
        return f"{base}.{node.attr}" if base else ""
    return ""
