"""JavaScript and TypeScript literals: strings, template literals, sums, and `join` on arrays."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from ratchet.source.literals.literal import Slot
from ratchet.source.literals.quotes import Quote, Token
from ratchet.source.literals.trees import Grammar, SourceText, is_simple

if TYPE_CHECKING:
    from tree_sitter import Node

_ESCAPE = re.compile(
    # Halves of a UTF-16 pair make one character.
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\(?:u\{[0-9a-fA-F]+\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[0-3]?[0-7]{1,2}|\r\n|[\s\S])"
)
_TEMPLATE_ESCAPE = re.compile(_ESCAPE.pattern + r"|\r\n?")
_SINGLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v"}
_CONTINUED = ("\n", "\r\n", "\r", "\u2028", "\u2029")


def decode(escape: str) -> str:
    """The text that a JavaScript escape sequence stands for."""
    body = escape[1:]
    if escape[0] == "\r":
        return "\n"
    if body in _CONTINUED:
        return ""
    if len(escape) == 12:
        return bytes.fromhex(escape[2:6] + escape[8:12]).decode("utf-16-be")
    if body[0] in "ux" and len(body) > 1:
        return chr(int(body[1:].strip("{}"), 16))
    if body[0] in "01234567":
        return chr(int(body, 8))
    return _SINGLE.get(body, body)


def spelled(character: str) -> str:
    """An invisible character as an escape sequence, so that a reviewer sees it."""
    if character.isprintable():
        return character
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _encode_string(quote: str, text: str) -> str:
    escapes = {"\\": "\\\\", quote: f"\\{quote}", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "".join(escapes.get(character) or spelled(character) for character in text)


def _encode_template(text: str) -> str:
    escapes = {"\\": "\\\\", "`": "\\`", "\n": "\n", "\t": "\t", "\r": "\\r"}
    encoded = "".join(escapes.get(character) or spelled(character) for character in text)
    # A dollar at the end might meet a brace that follows.
    return re.sub(r"\$(?=\{|$)", r"\\$", encoded)


def _encode_raw(text: str) -> str:
    return text


# An attribute of JSX has character references instead of escapes.
_REFERENCE = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|\w+);")


def _encode_attribute(quote: str, text: str) -> str:
    text = _REFERENCE.sub(lambda match: "&amp;" + match.group()[1:], text)
    text = text.replace(quote, "&quot;" if quote == '"' else "&#39;")
    return "".join(c if c.isprintable() else f"&#{ord(c)};" for c in text)


@functools.cache
def _attribute(quote: str) -> Quote:
    encode = functools.partial(_encode_attribute, quote)
    return Quote(quote, quote, _REFERENCE, html.unescape, encode)


@functools.cache
def _quote(opening: str, newline: str, raw: bool) -> Quote:
    if opening != "`":
        encode = functools.partial(_encode_string, opening)
        return Quote(opening, opening, _ESCAPE, decode, encode)
    if raw:
        returns = re.compile(r"\r\n?")
        return Quote("`", "`", returns, lambda _: "\n", _encode_raw, newline, raw_lines=True)
    return Quote("`", "`", _TEMPLATE_ESCAPE, decode, _encode_template, newline, raw_lines=True)


def _token(source: SourceText, node: Node) -> Token | None:
    if node.type not in ("string", "template_string"):
        return None
    start, end = source.span(node)
    if end - start < 2:
        return None
    before = source.text[max(0, start - 12) : start].rstrip()
    raw = node.type == "template_string" and before.endswith("String.raw")
    slots = []
    for child in node.named_children:
        if child.type == "template_substitution":
            expression = source.source(child)
            slot = Slot(expression, expression, simple=is_simple(expression[2:-1].strip()))
            slots.append((*source.span(child), slot))
    if node.parent is not None and node.parent.type == "jsx_attribute":
        quote = _attribute(source.text[start])
    else:
        quote = _quote(source.text[start], source.newline, raw)
    return Token((start, end), (start + 1, end - 1), quote, slots)


def _join(source: SourceText, node: Node) -> tuple[str, list[Node]] | None:
    """`[…].join("…")`."""
    function = node.child_by_field_name("function")
    arguments = node.child_by_field_name("arguments")
    if node.type != "call_expression" or function is None or arguments is None:
        return None
    array = function.child_by_field_name("object")
    name = function.child_by_field_name("property")
    if array is None or array.type != "array" or name is None or source.source(name) != "join":
        return None
    join_arguments = [child for child in arguments.named_children if child.type != "comment"]
    elements = [child for child in array.named_children if child.type != "comment"]
    if (
        len(join_arguments) != 1
        or not elements
        or any(e.type == "spread_element" for e in elements)
    ):
        return None
    token = _token(source, join_arguments[0])
    if token is None or token.slots:
        return None
    body = source.text[slice(*token.body)]
    separator = _ESCAPE.sub(lambda match: decode(match.group()), body)
    return (separator, elements) if separator else None


def _ignored(node: Node) -> bool:
    parent = node.parent
    if node.type != "string" or parent is None:
        return False
    if parent.type in ("import_statement", "export_statement"):
        return True
    return parent.type == "pair" and parent.child_by_field_name("key") == node


def _javascript() -> object:
    import tree_sitter_javascript

    return tree_sitter_javascript.language()


def _typescript() -> object:
    import tree_sitter_typescript

    return tree_sitter_typescript.language_typescript()


def _tsx() -> object:
    import tree_sitter_typescript

    return tree_sitter_typescript.language_tsx()


def _grammar(language: str, load: Callable[[], object]) -> Grammar:
    return Grammar(
        language=language,
        load=load,
        token=_token,
        sums="binary_expression",
        join=_join,
        ignored=_ignored,
    )


JAVASCRIPT = _grammar("JavaScript", _javascript)
TYPESCRIPT = _grammar("TypeScript", _typescript)
TSX = _grammar("TypeScript", _tsx)
