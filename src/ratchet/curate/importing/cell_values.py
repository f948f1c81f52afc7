"""Values that a table holds as text: JSON, or Python's repr, as pandas writes to CSV."""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime
from typing import Any

from ratchet.observe.dialects import messages as form

MAX_LITERAL = 1_000_000
"""Maximum length of a text read as Python, in characters: its syntax tree takes a hundred times the
memory."""

MAX_DEPTH = 100

_TOKEN = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?P<space>\s+(?=['"{\[]))?"""
    r"""|(?P<closing>[}\])])(?P<gap>\s+(?=[{\[('"]))""",
    re.DOTALL,
)
"""A text, or a closing bracket, without a comma before what follows: so numpy prints arrays."""

_MISSING = frozenset({"nan", "NaN", "NaT", "inf", "NA"})
"""Names that pandas and numpy print for a missing value and infinity, which JSON does not have."""

_WRAPPERS = frozenset(
    {
        *("array", "Timestamp", "UUID", "Decimal", "ObjectId", "str_", "bool_"),
        *("float64", "float32", "int64", "int32"),
    }
)
"""Calls that print a value: that of their first argument."""


def structured(value: Any) -> Any:
    """The list or object that a text holds; anything else is returned unchanged."""
    if value.__class__ is not str:
        return value
    text = value.strip()
    if text[:1] + text[-1:] not in ("[]", "{}") and not text.startswith("array(["):
        return value
    decoded = form.decoded(text)
    if decoded is not text:
        return decoded
    try:
        return _literal(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return value


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list, or of the text of one; a single object is a list of one."""
    return form.objects(structured(value))


def _literal(text: str) -> Any:
    """The value of Python literals; nothing is run.

    Raises:
        ValueError, SyntaxError, RecursionError, MemoryError: It is none.
    """
    if len(text) > MAX_LITERAL:
        raise ValueError("it is too long")
    return _value(ast.parse(_TOKEN.sub(_with_comma, text), mode="eval").body, MAX_DEPTH)


def _with_comma(token: re.Match[str]) -> str:
    before, space = token["text"] or token["closing"], token["space"] or token["gap"]
    return f"{before}," if space else str(before)


def _value(node: ast.expr, depth: int) -> Any:
    if depth == 0:
        raise ValueError("it is nested too deeply")
    match node:
        case ast.Constant(value=str() | bool() | int() | float() | None as plain):
            return plain
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_value(item, depth - 1) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {
                _key(key, depth - 1): _value(item, depth - 1)
                for key, item in zip(keys, values, strict=True)
            }
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as size)):
            return -size
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id=name)) if name in _MISSING:
            return None
        case ast.Name(id=name) if name in _MISSING:
            return None
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]):
            if name == "datetime":
                return _moment(node)
            if name in _WRAPPERS:
                return _value(first, depth - 1)
    raise ValueError("it is not a literal")


def _key(node: ast.expr | None, depth: int) -> str:
    if node is None:
        raise ValueError("it is not a literal")
    return str(_value(node, depth))


def _moment(node: ast.Call) -> str:
    """The moment of `datetime.datetime(…)` in ISO 8601; in UTC if it states no zone."""
    if not all(ast.unparse(keyword.value).lower().endswith("utc") for keyword in node.keywords):
        raise ValueError("its zone is not UTC")
    parts = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    integers = [part for part in parts if isinstance(part, int)]
    if len(integers) < 3:
        raise ValueError("it is not a date")
    year, month, day, hour, minute, second, micro = (*integers, 0, 0, 0, 0)[:7]
    return datetime(year, month, day, hour, minute, second, micro, UTC).isoformat()
