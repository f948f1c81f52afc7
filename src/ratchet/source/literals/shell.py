"""Shell script literals: quoted strings and here-documents."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from ratchet.source.literals.literal import Inexpressible, Slot
from ratchet.source.literals.quotes import Quote, Token
from ratchet.source.literals.trees import Grammar, SourceText

if TYPE_CHECKING:
    from tree_sitter import Node

_EXPANSIONS = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"}
)
_DOUBLE = re.compile(r'\\(?:\r?\n|[$`"\\])')
_HEREDOC = re.compile(r"\\(?:\r?\n|[$`\\])")
_PLAIN_NAME = re.compile(r"\$\{\w+\}")


def _decode(escape: str) -> str:
    return "" if escape.endswith("\n") else escape[1:]


def _encode(special: str, text: str) -> str:
    _check(text)
    return "".join("\\" + character if character in special else character for character in text)


def _encode_single(text: str) -> str:
    _check(text)
    if "'" in text:
        raise Inexpressible("a string in single quotes cannot contain an apostrophe")
    return text


def _encode_heredoc(end: str, quoted: bool, text: str) -> str:
    if end in text.split("\n"):
        raise Inexpressible(f"one of its lines is {end}, which ends the here-document")
    if quoted:
        _check(text)
        return text
    return _encode("\\$`", text)


def _check(text: str) -> None:
    if "\0" in text:
        raise Inexpressible("a shell script cannot contain the character NUL")


_DOUBLE_QUOTES = Quote(
    '"', '"', _DOUBLE, _decode, functools.partial(_encode, '\\$`"'), raw_lines=True
)
_SINGLE_QUOTES = Quote("'", "'", None, _decode, _encode_single, raw_lines=True)


def _token(source: SourceText, node: Node) -> Token | None:
    start, end = source.span(node)
    if node.type == "raw_string":
        return Token((start, end), (start + 1, end - 1), _SINGLE_QUOTES)
    if node.type == "string":
        slots = _slots(source, node)
        return Token((start, end), (start + 1, end - 1), _DOUBLE_QUOTES, slots)
    return _heredoc(source, node) if node.type == "heredoc_body" else None


def _heredoc(source: SourceText, node: Node) -> Token | None:
    redirect = node.parent
    if redirect is None:
        return None
    children_by_type = {child.type: child for child in redirect.children}
    first, last = children_by_type.get("heredoc_start"), children_by_type.get("heredoc_end")
    if first is None or last is None or "<<-" in children_by_type:
        return None
    # The grammar's body omits white space at its beginning, and may begin late.
    head = source.text.find("\n", source.span(first)[1]) + 1
    tail = source.span(last)[0]
    if not head or tail < head:
        return None
    word = source.source(first)
    end = word.strip("'\"\\")
    quoted = word != end
    encode = functools.partial(_encode_heredoc, end, quoted)
    quote = Quote("", "", None if quoted else _HEREDOC, _decode, encode, raw_lines=True)
    return Token((head, tail), (head, tail), quote, () if quoted else _slots(source, node))


def _slots(source: SourceText, node: Node) -> list[tuple[int, int, Slot]]:
    slots = []
    for child in node.named_children:
        if child.type in _EXPANSIONS:
            expression = source.source(child)
            if re.fullmatch(r"\$\w+", expression):
                # Where it is moved, a letter may follow.
                expression = f"${{{expression[1:]}}}"
            slot = Slot(
                expression, expression, simple=_PLAIN_NAME.fullmatch(expression) is not None
            )
            slots.append((*source.span(child), slot))
    return slots


def _load() -> object:
    import tree_sitter_bash

    return tree_sitter_bash.language()


SHELL = Grammar(
    language="shell",
    load=_load,
    token=_token,
    others=lambda token, newline: (_DOUBLE_QUOTES,) if token.quote is _SINGLE_QUOTES else (),
)
