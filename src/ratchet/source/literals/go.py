"""Go literals: interpreted and raw strings, and their sums."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from ratchet.source.literals.literal import Inexpressible
from ratchet.source.literals.quotes import Quote, Token
from ratchet.source.literals.trees import Grammar, SourceText

if TYPE_CHECKING:
    from tree_sitter import Node

_ESCAPE = re.compile(r"(?:\\[0-7]{3}|\\x[0-9a-fA-F]{2})+|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\.")
_SINGLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_RETURN = re.compile(r"\r")


def _decode(escape: str) -> str:
    body = escape[1:]
    if body[0] in "uU":
        return chr(int(body[1:], 16))
    if body[0] in "x01234567":
        # These name bytes of UTF-8, not characters.
        codes = re.findall(r"\\(x..|...)", escape)
        data = bytes(int(c[1:], 16) if c[0] == "x" else int(c, 8) for c in codes)
        return data.decode(errors="surrogateescape")
    return _SINGLE.get(body, body)


def _encode(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "".join(escapes.get(character) or _spelled(character) for character in text)


def _spelled(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _encode_raw(text: str) -> str:
    if "`" in text or not all(c.isprintable() or c in "\n\t" for c in text):
        raise Inexpressible("a raw string cannot contain it")
    return text


_INTERPRETED = Quote('"', '"', _ESCAPE, _decode, _encode)


@functools.cache
def _raw(newline: str) -> Quote:
    return Quote("`", "`", _RETURN, lambda _: "", _encode_raw, newline, raw_lines=True)


def _token(source: SourceText, node: Node) -> Token | None:
    if node.type not in ("interpreted_string_literal", "raw_string_literal"):
        return None
    start, end = source.span(node)
    quote = _INTERPRETED if source.text[start] == '"' else _raw(source.newline)
    return Token((start, end), (start + 1, end - 1), quote)


def _ignored(node: Node) -> bool:
    return node.parent is not None and node.parent.type in ("import_spec", "field_declaration")


def _load() -> object:
    import tree_sitter_go

    return tree_sitter_go.language()


GO = Grammar(
    language="Go",
    load=_load,
    token=_token,
    sums="binary_expression",
    others=lambda token, newline: (_INTERPRETED,) if token.quote.raw_lines else (),
    ignored=_ignored,
)
