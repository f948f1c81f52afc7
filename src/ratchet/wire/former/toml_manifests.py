"""The requirement in manifests of TOML: pyproject.toml of any manager, and Pipfile."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ratchet.wire.changes import Piece
from ratchet.wire.former.requirement import (
    PACKAGE,
    TOO_OLD,
    allows_older,
    constraint,
    excludes_all,
    requirement,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


def in_pyproject(data: bytes) -> Piece | str | None:
    """Where the requirement goes in a pyproject.toml.

    Returns:
        The piece; why there is none, in a sentence; or None where the file declares no
        dependencies.

    Raises:
        ValueError: It is not TOML.
    """
    tables = _loaded(data)
    project = tables.get("project", {})
    poetry = tables.get("tool", {}).get("poetry", {})
    if "dependencies" in project:
        python = str(project.get("requires-python", ""))
        if excludes_all(python):
            return TOO_OLD
        array = _value(data, "project", "dependencies")
        if array is None or array.type != "array":
            return "Its dependencies are written in a way that is not edited here."
        return _in_array(data, array, requirement(python))
    if "dependencies" in poetry:
        python = poetry["dependencies"].get("python", "")
        return _in_table(
            data, "tool.poetry.dependencies", python if isinstance(python, str) else ""
        )
    if project and "dependencies" not in project.get("dynamic", ()):
        python = str(project.get("requires-python", ""))
        return TOO_OLD if excludes_all(python) else _new_array(data, python)
    return None


def in_pipfile(data: bytes) -> Piece | str | None:
    """Where the requirement goes in a Pipfile; as `in_pyproject`."""
    tables = _loaded(data)
    if "packages" not in tables:
        return None
    return _in_table(data, "packages", str(tables.get("requires", {}).get("python_version", "")))


def _loaded(data: bytes) -> dict[str, Any]:
    return tomllib.loads(data.decode("utf-8-sig").replace("\r\n", "\n"))


def _in_array(data: bytes, array: Node, wanted: str) -> Piece:
    """A new first element: those after it keep their commas and comments."""
    elements = [node for node in array.named_children if node.type != "comment"]
    first = elements[0] if elements else None
    quote = '"'
    if first is not None and data[first.start_byte : first.start_byte + 1] == b"'":
        quote = "'" if "'" not in wanted else '"'
    written = f"{quote}{wanted}{quote}"
    if first is None:
        return Piece(array.start_byte + 1, array.start_byte + 1, written)
    line = data.rfind(b"\n", 0, first.start_byte) + 1
    indent = data[line : first.start_byte]
    if indent.strip() or line <= array.start_byte:
        return Piece(first.start_byte, first.start_byte, f"{written}, ")
    return Piece(line, line, f"{indent.decode()}{written},{_newline(data)}")


def _new_array(data: bytes, python: str) -> Piece | None:
    table = next((node for node in _tables(data) if _name(node) == "project"), None)
    if table is None:
        return None
    pairs = [node for node in table.named_children if node.type == "pair"]
    at = pairs[-1].end_byte if pairs else table.end_byte
    written = f'{_newline(data)}dependencies = ["{requirement(python)}"]'
    return Piece(at, at, written)


def _in_table(data: bytes, name: str, python: str) -> Piece | str:
    if excludes_all(python):
        return TOO_OLD
    table = next((node for node in _tables(data) if _name(node) == name), None)
    if table is None:
        return "Its dependencies are written in a way that is not edited here."
    version = constraint() or "*"
    written = f'{PACKAGE} = "{version}"'
    if name == "tool.poetry.dependencies" and allows_older(python):
        written = f'{PACKAGE} = {{ version = "{version}", python = ">=3.11" }}'
    pairs = [node for node in table.named_children if node.type == "pair"]
    # Before the first package: what stands before it, such as Python itself, is none.
    after = next((node for node in pairs if _key(node) != "python"), None)
    if after is not None:
        at = data.rfind(b"\n", 0, after.start_byte) + 1
        return Piece(at, at, written + _newline(data))
    at = (pairs[-1] if pairs else table.named_children[0]).end_byte
    at += 0 if pairs else 1  # the bracket that closes the header
    return Piece(at, at, _newline(data) + written)


def _value(data: bytes, table: str, key: str) -> Node | None:
    for node in _tables(data):
        if _name(node) == table:
            for pair in node.named_children:
                if pair.type == "pair" and _key(pair) == key:
                    return pair.named_children[-1]
    return None


def _tables(data: bytes) -> Iterator[Node]:
    tree = _parser().parse(data)
    yield from (node for node in tree.root_node.named_children if node.type == "table")


def _name(table: Node) -> str:
    return re.sub(r"[\s\"']", "", (table.named_children[0].text or b"").decode())


def _key(pair: Node) -> str:
    return re.sub(r"[\s\"']", "", (pair.named_children[0].text or b"").decode())


def _newline(data: bytes) -> str:
    return "\r\n" if b"\r\n" in data else "\n"


@functools.cache
def _parser() -> Parser:
    import tree_sitter_toml
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_toml.language()))
