"""Fields of a TOML file that are text for a model, with the bytes of each."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ratchet.wire.facts import Place, PromptPart

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_TEXT = 500_000
"""Characters of a file; of a larger one no fields are told."""


def toml_parts(path: str, text: str) -> list[PromptPart]:
    """Strings that stand under a key, in the file's order; none if it does not parse.

    Args:
        path: The file.
        text: Its text.
    """
    import tree_sitter_toml
    from tree_sitter import Language, Parser

    if len(text) > MAX_TEXT:
        return []
    try:
        tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except (ValueError, RecursionError):
        return []
    data = text.encode()
    root = Parser(Language(tree_sitter_toml.language())).parse(data).root_node
    parts = []
    for names, node in _strings(root, ()):
        start, end = node.start_byte, node.end_byte
        while data[start : start + 1].isspace():
            start += 1
        literal = data[start:end].decode().replace("\r\n", "\n")
        value = tomllib.loads(f"text = {literal}")["text"]
        line = data.count(b"\n", 0, start) + 1
        parts.append(PromptPart(".".join(names), Place(path, line), start, end, value))
    return parts


def _strings(node: Node, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Strings in tables and inline tables, with their keys."""
    for child in node.named_children:
        if child.type in ("table", "table_array_element"):
            yield from _strings(child, (*names, *_keys(child.named_children[0])))
        elif child.type == "pair":
            key, value = child.named_children[0], child.named_children[-1]
            if value.type == "string":
                yield (*names, *_keys(key)), value
            elif value.type == "inline_table":
                yield from _strings(value, (*names, *_keys(key)))


def _keys(node: Node) -> tuple[str, ...]:
    """The names of a key, dotted or not."""
    if node.type == "dotted_key":
        return tuple(name for child in node.named_children for name in _keys(child))
    return ((node.text or b"").decode().strip("\"' \t\r\n"),)
