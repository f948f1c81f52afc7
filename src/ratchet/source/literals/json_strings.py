"""JSON literals: the strings that are not keys. Comments are allowed."""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING

from ratchet.source.literals.javascript import decode, spelled
from ratchet.source.literals.quotes import Quote, Token
from ratchet.source.literals.trees import Grammar, SourceText

if TYPE_CHECKING:
    from tree_sitter import Node

_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\."
)


def _encode(ascii_only: bool, text: str) -> str:
    if ascii_only:
        return json.dumps(text)[1:-1]
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    return "".join(map(spelled, plain))


_AS_IT_IS = Quote('"', '"', _ESCAPE, decode, functools.partial(_encode, False))
_ASCII = Quote('"', '"', _ESCAPE, decode, functools.partial(_encode, True))


def _token(source: SourceText, node: Node) -> Token | None:
    if node.type != "string":
        return None
    start, end = source.span(node)
    spells = "\\u" in source.text and source.text.isascii()
    return Token((start, end), (start + 1, end - 1), _ASCII if spells else _AS_IT_IS)


def _ignored(node: Node) -> bool:
    parent = node.parent
    if node.type != "string" or parent is None or parent.type != "pair":
        return False
    return parent.child_by_field_name("key") == node


def parses(text: str) -> bool:
    """Whether a text is JSON without comments."""
    try:
        json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return False
    return True


def _load() -> object:
    import tree_sitter_json

    return tree_sitter_json.language()


JSON = Grammar(language="JSON", load=_load, token=_token, ignored=_ignored)
