"""Python literals: strings, f-strings, their concatenations, and `"…".join([…])`."""

from __future__ import annotations

import ast
import functools
import re
import warnings
from typing import TYPE_CHECKING

from ratchet.source.literals.literal import Inexpressible, Slot
from ratchet.source.literals.quotes import Quote, Token
from ratchet.source.literals.trees import Grammar, SourceText, is_simple

if TYPE_CHECKING:
    from tree_sitter import Node

_OPENING = re.compile(r"(?P<prefix>[A-Za-z]*)(?P<quote>'''|\"\"\"|'|\")")
_ESCAPE = (
    r"\\(?:\r\n|N\{[^}]+\}|U[0-9a-fA-F]{8}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[0-7]{1,3}|[\s\S])|\r\n?"
)
_RAW_ESCAPE = r"\r\n?"
_DOUBLED = r"|\{\{|\}\}"


def _decode(escape: str) -> str:
    if escape[0] == "\r":
        return "\n"
    if escape in ("{{", "}}"):
        return escape[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an unknown escape stands for itself
        return str(ast.literal_eval(f'"""{escape}"""' if '"' not in escape else f"'{escape}'"))


def _encode(quote: str, formatted: bool, text: str) -> str:
    pieces: list[str] = []
    run = 0
    for index, character in enumerate(text):
        run = run + 1 if character == quote[0] else 0
        if character == "\\":
            pieces.append("\\\\")
        elif character == quote[0]:
            # Three in a row, and one at the end, would close the literal.
            if len(quote) == 1 or run == 3 or index == len(text) - 1:
                pieces.append("\\" + character)
                run = 0
            else:
                pieces.append(character)
        elif character == "\n":
            pieces.append("\n" if len(quote) == 3 else "\\n")
        elif formatted and character in "{}":
            pieces.append(character * 2)
        elif (character == "\t" and len(quote) == 3) or character.isprintable():
            pieces.append(character)
        else:
            pieces.append(character.encode("unicode_escape").decode("ascii"))
    return "".join(pieces)


def _encode_raw(quote: str, formatted: bool, text: str) -> str:
    plain = all(character.isprintable() or character in "\n\t" for character in text)
    if not plain or quote in text or (len(quote) == 1 and "\n" in text):
        raise Inexpressible("a raw string cannot contain it")
    return text.replace("{", "{{").replace("}", "}}") if formatted else text


@functools.cache
def _quote(opening: str, newline: str) -> Quote:
    match = _OPENING.fullmatch(opening)
    assert match is not None
    prefix, quote = match["prefix"].lower(), match["quote"]
    formatted, raw = "f" in prefix, "r" in prefix
    escapes = re.compile((_RAW_ESCAPE if raw else _ESCAPE) + (_DOUBLED if formatted else ""))
    encode = functools.partial(_encode_raw if raw else _encode, quote, formatted)
    multiline = len(quote) == 3
    return Quote(opening, quote, escapes, _decode, encode, newline, raw_lines=multiline)


def _token(source: SourceText, node: Node) -> Token | None:
    if node.type != "string" or not node.children:
        return None
    start, end = source.span(node)
    opening = source.source(node.children[0])
    match = _OPENING.fullmatch(opening)
    if match is None or set(match["prefix"].lower()) & {"b", "t"}:
        return None
    slots = []
    for child in node.named_children:
        if child.type == "interpolation":
            expression = source.source(child)
            slot = Slot(expression, expression, simple=is_simple(expression[1:-1].strip()))
            slots.append((*source.span(child), slot))
    body = (start + len(opening), end - len(match["quote"]))
    return Token((start, end), body, _quote(opening, source.newline), slots)


def _others(token: Token, newline: str) -> tuple[Quote, ...]:
    """Quotes for a text that a raw string cannot contain."""
    match = _OPENING.fullmatch(token.quote.opening)
    assert match is not None
    if "r" not in match["prefix"].lower():
        return ()
    return (_quote(match["quote"], newline),)


def _join(source: SourceText, node: Node) -> tuple[str, list[Node]] | None:
    """`"…".join([…])`."""
    function = node.child_by_field_name("function")
    arguments = node.child_by_field_name("arguments")
    if node.type != "call" or function is None or arguments is None:
        return None
    separator = function.child_by_field_name("object")
    name = function.child_by_field_name("attribute")
    if separator is None or name is None or source.source(name) != "join":
        return None
    join_arguments = [child for child in arguments.named_children if child.type != "comment"]
    token = _token(source, separator)
    if (
        token is None
        or token.slots
        or len(join_arguments) != 1
        or join_arguments[0].type not in ("list", "tuple")
    ):
        return None
    elements = [child for child in join_arguments[0].named_children if child.type != "comment"]
    if not elements or any(e.type in ("list_splat", "concatenated_string") for e in elements):
        return None
    body = source.text[slice(*token.body)]
    text = re.sub(_ESCAPE, lambda match: _decode(match.group()), body)
    return (text, elements) if text else None


def parses(text: str) -> bool:
    """Whether this interpreter can parse a text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _load() -> object:
    import tree_sitter_python

    return tree_sitter_python.language()


PYTHON = Grammar(
    language="Python",
    load=_load,
    token=_token,
    sums="binary_operator",
    adjacent="concatenated_string",
    join=_join,
    others=_others,
)
