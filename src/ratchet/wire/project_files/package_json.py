"""A package in `package.json`, with the file's formatting kept."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ratchet.wire.changes import Piece

if TYPE_CHECKING:
    from tree_sitter import Node


def in_package_json(data: bytes, section: str, package: str, version: str) -> Piece | None:
    """The piece that adds a package; None if the file names it already, or is no object.

    Args:
        data: The file.
        section: `dependencies` or `devDependencies`.
        package: Its name.
        version: Its constraint.
    """
    import tree_sitter_json
    from tree_sitter import Language, Parser

    tree = Parser(Language(tree_sitter_json.language())).parse(data)
    whole = next((one for one in tree.root_node.named_children if one.type == "object"), None)
    if whole is None or tree.root_node.has_error:
        return None
    tables = {_key(one): one.child_by_field_name("value") for one in _pairs(whole)}
    for name in ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies"):
        table = tables.get(name)
        if table is not None and package in map(_key, _pairs(table)):
            return None
    newline = "\r\n" if b"\r\n" in data else "\n"
    indent = re.search(rb"\n([ \t]+)\"", data)
    step = indent.group(1).decode() if indent else ""
    gap, space = (newline, " ") if step else ("", " " if b'": ' in data else "")
    line = f'"{package}":{space}"{version}"'
    table = tables.get(section)
    if table is not None and table.type == "object":
        pairs = _pairs(table)
        if not pairs:
            text = f"{{{gap}{step * 2}{line}{gap}{step}}}"
            return Piece(table.start_byte, table.end_byte, text)
        before = [one for one in pairs if _key(one) < package]
        if not before:
            at = pairs[0].start_byte
            return Piece(at, at, f"{line},{gap}{step * 2}")
        at = before[-1].end_byte
        return Piece(at, at, f",{gap}{step * 2}{line}")
    made = f'"{section}":{space}{{{gap}{step * 2}{line}{gap}{step}}}'
    members = _pairs(whole)
    if not members:
        return Piece(whole.start_byte, whole.end_byte, f"{{{gap}{step}{made}{gap}}}")
    at = members[-1].end_byte
    return Piece(at, at, f",{gap}{step}{made}")


def nearest_package(root: Path, path: str) -> PurePosixPath | None:
    """The nearest folder above a file that has a `package.json`; None if none has."""
    above = PurePosixPath(path).parents
    return next((one for one in above if (root / one / "package.json").is_file()), None)


def _pairs(table: Node) -> list[Node]:
    return [one for one in table.named_children if one.type == "pair"]


def _key(pair: Node) -> str:
    key = pair.child_by_field_name("key")
    return (key.text or b"").decode()[1:-1] if key is not None else ""
