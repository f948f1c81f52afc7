"""Writes readable TOML: comments, a paragraph for each table, short lines."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH = 88


def toml_text(tables: Mapping[str, Any], comments: Mapping[str, str]) -> str:
    """Format tables as TOML.

    Args:
        tables: As TOML has them; keys without a table come first.
        comments: A sentence for each table by its dotted name, and for each key as `table.key`.
            One as `table.` stands alone at the table's top.

    Raises:
        TypeError: A value has no form in TOML.
    """
    own, inner = _paragraphs("", tables, comments)
    return "\n".join([*([own] if own else []), *inner])


def _paragraphs(
    path: str, table: Mapping[str, Any], comments: Mapping[str, str]
) -> tuple[str, list[str]]:
    """Lines of a table's own keys, and a paragraph for each table in it."""
    own, inner = f"# {comments[f'{path}.']}\n" if f"{path}." in comments else "", []
    for key, value in table.items():
        dotted = f"{path}.{_key(key)}" if path else _key(key)
        plain = dotted.replace('"', "")
        comment = f"# {comments[plain]}\n" if plain in comments else ""
        if isinstance(value, Mapping):
            keys, tables = _paragraphs(dotted, value, comments)
            # A table that only holds tables needs no header of its own.
            if keys or not tables or comment:
                inner.append(f"{comment}[{dotted}]\n{keys}")
            inner += tables
        elif _is_tables(value):
            for number, row in enumerate(value):
                keys, tables = _paragraphs(dotted, row, {} if number else comments)
                inner += [f"{'' if number else comment}[[{dotted}]]\n{keys}", *tables]
        else:
            own += f"{comment}{_key(key)} = {_value(value)}\n"
    return own, inner


def _is_tables(value: Any) -> bool:
    listed = isinstance(value, Sequence) and not isinstance(value, str) and bool(value)
    return listed and all(isinstance(row, Mapping) for row in value)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return {math.inf: "inf", -math.inf: "-inf"}.get(value, repr(value))
        case str():
            return _text(value)
        case Mapping():
            items = ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items())
            return f"{{ {items} }}" if items else "{}"
        case Sequence():
            parts = [_value(inner) for inner in value]
            short = f"[{', '.join(parts)}]"
            if len(short) <= _WIDTH:
                return short
            return "[\n" + "".join(f"    {part},\n" for part in parts) + "]"
    raise TypeError(f"TOML has no form for a value of type {type(value).__name__}")
