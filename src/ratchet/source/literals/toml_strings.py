"""TOML literals: the strings that are not keys."""

from __future__ import annotations

import functools
import re
import tomllib
from typing import TYPE_CHECKING

from ratchet.source.literals.literal import Inexpressible
from ratchet.source.literals.quotes import Quote, Token
from ratchet.source.literals.trees import Grammar, SourceText

if TYPE_CHECKING:
    from tree_sitter import Node

_ESCAPE = re.compile(
    r"\\[ \t]*\r?\n\s*|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\x[0-9a-fA-F]{2}|\\.|\r\n"
)
_RETURN = re.compile(r"\r\n")
_SINGLE = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b"}


def _decode(escape: str) -> str:
    body = escape[1:]
    if escape == "\r\n":
        return "\n"
    if body[0] in "uUx":
        return chr(int(body[1:], 16))
    return _SINGLE.get(body, "" if body.isspace() else body)


def _encode(quote: str, text: str) -> str:
    pieces: list[str] = []
    for index, character in enumerate(text):
        if character == "\\":
            pieces.append("\\\\")
        elif character == '"':
            # Two may stand in a row; a third, or one at the end, would close the string.
            free = len(quote) == 3 and index < len(text) - 1 and pieces[-1:] != ['"']
            pieces.append('"' if free else '\\"')
        elif character == "\n":
            pieces.append("\n" if len(quote) == 3 else "\\n")
        elif (character == "\t" and len(quote) == 3) or character.isprintable():
            pieces.append(character)
        else:
            code = ord(character)
            escapes = {"\t": "\\t", "\r": "\\r"}
            wide = f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
            pieces.append(escapes.get(character) or wide)
    return "".join(pieces)


def _encode_raw(quote: str, text: str) -> str:
    plain = all(character.isprintable() or character in "\n\t" for character in text)
    if not plain or quote in text or text.endswith("'") or (len(quote) == 1 and "\n" in text):
        raise Inexpressible("a string in single quotes cannot contain it")
    return text


@functools.cache
def _quote(opening: str, newline: str) -> Quote:
    quote = opening.strip()
    multiline = len(quote) == 3
    if '"' in quote:
        encode = functools.partial(_encode, quote)
        return Quote(opening, quote, _ESCAPE, _decode, encode, newline, raw_lines=multiline)
    encode = functools.partial(_encode_raw, quote)
    escapes = _RETURN if multiline else None
    return Quote(opening, quote, escapes, lambda _: "\n", encode, newline, raw_lines=multiline)


def _token(source: SourceText, node: Node) -> Token | None:
    if node.type != "string":
        return None
    start, end = source.span(node)
    match = re.compile(r"(\"\"\"|''')(\r?\n)?|[\"']").match(source.text, start)
    if match is None:
        return None
    quote = _quote(match.group(), source.newline)
    return Token((start, end), (match.end(), end - len(quote.closing)), quote)


def _others(token: Token, newline: str) -> tuple[Quote, ...]:
    if '"' in token.quote.opening:
        return ()
    return (_quote(token.quote.opening.replace("'", '"'), newline),)


def parses(text: str) -> bool:
    """Whether a text is TOML."""
    try:
        tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return False
    return True


def _load() -> object:
    import tree_sitter_toml

    return tree_sitter_toml.language()


TOML = Grammar(language="TOML", load=_load, token=_token, others=_others)
