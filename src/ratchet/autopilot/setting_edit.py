"""Edits one key in the text of a TOML file; everything else stays byte by byte as it was.

tomlkit would be shorter, but puts a new key behind the comment of the next table, and a new table
before the next one without an empty line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ratchet.types import ConfigError

if TYPE_CHECKING:
    from tree_sitter import Node

KeyPath = tuple[str, ...]

OUT = b"# "
"""Makes a comment of a line."""


@dataclass(frozen=True)
class _Entry:
    """A `key = value` of the file, or of an inline table in it."""

    path: KeyPath
    """From the file's root."""
    node: Node
    table: Node | None
    """The `[table]` that it stands in; None at the top of the file."""
    base: KeyPath
    """Path of that table."""
    inline: KeyPath | None
    """Path of the outermost inline table that it stands in."""

    @property
    def value(self) -> Node:
        """Its value."""
        return self.node.children[[child.type for child in self.node.children].index("=") + 1]


def with_value(text: str, section: KeyPath, name: str, value: str | None) -> str:
    """The text with another value of a key.

    Args:
        text: TOML.
        section: Path of the table.
        name: The key in it; a bare one.
        value: The value as TOML writes it; None takes the key out.

    Returns:
        The text; the same one when the key that is to be taken out is not there.

    Raises:
        ConfigError: The key cannot be changed without touching what stands beside it.
    """
    start = text[: text.startswith("\ufeff")]
    data = text[len(start) :].encode()
    edit = _Edit(data)
    entry = next((existing for existing in edit.entries if existing.path == (*section, name)), None)
    if entry is not None:
        edit.check(entry, section)
        changed = edit.without(entry) if value is None else edit.replaced(entry, value)
    elif value is None:
        changed = data
    else:
        changed = edit.added(section, name, value)
    return start + changed.decode()


class _Edit:
    """One edit of a file.

    Args:
        data: The file, without its byte order mark.
    """

    def __init__(self, data: bytes) -> None:
        import tree_sitter_toml
        from tree_sitter import Language, Parser

        self.data = data
        self.newline = b"\r\n" if b"\r\n" in data else b"\n"
        self._root = Parser(Language(tree_sitter_toml.language())).parse(data).root_node
        self.entries = list(self._entries())

    def check(self, entry: _Entry, section: KeyPath) -> None:
        """Refuse a key in an inline table that also holds other sections."""
        if entry.inline is not None and len(entry.inline) < len(section):
            raise ConfigError(
                f"{'.'.join(entry.inline)} is written on one line, in braces, with more than"
                f" [{'.'.join(section)}] in it.",
                hint="Change it in the file.",
            )

    def replaced(self, entry: _Entry, value: str) -> bytes:
        """Another value."""
        node = entry.value
        return self.data[: node.start_byte] + value.encode() + self.data[node.end_byte :]

    def without(self, entry: _Entry) -> bytes:
        """The key taken out; a table at the end that it leaves empty goes, too.

        A line with a comment becomes one. `added` puts it back.
        """
        if entry.inline is not None:
            return self._without_inline(entry)
        begin, end = self._line(entry.node.start_byte), self._after_line(entry.node.end_byte)
        if self._has_comment(entry.node):
            at = entry.node.start_byte
            return self.data[:at] + OUT + self.data[at:]
        table = entry.table
        if table is not None and end == len(self.data) and self._holds_only(table, entry):
            begin = self._line(table.start_byte)
            if self.data[:begin].endswith(self.newline * 2):
                begin -= len(self.newline)  # the empty line before it
        return self.data[:begin] + self.data[end:]

    def added(self, section: KeyPath, name: str, value: str) -> bytes:
        """The key where the section is; a table of its own at the end if there is none."""
        line = f"{name} = {value}"
        out = self._commented_out((*section, name), value)
        if out is not None:
            return self.data[:out] + self.data[out + len(OUT) :]
        for table in self._root.children:
            if table.type == "table" and _header(table) == section:
                pairs = [child for child in table.children if child.type == "pair"]
                last = pairs[-1] if pairs else self._end_of_header(table)
                return self._insert_line(last, line, indent=pairs[-1] if pairs else table)
        for entry in self.entries:
            if entry.path == section and entry.value.type == "inline_table":
                self.check(entry, section)
                return self._insert_inline(entry.value, line)
        dotted = [
            entry
            for entry in self.entries
            if entry.path[: len(section)] == section
            and len(entry.base) < len(section)
            and entry.inline is None
        ]
        if dotted:  # budget.rollouts = 5 under [improve]: the table cannot be opened again
            beside = dotted[-1]
            prefix = "".join(f"{part}." for part in section[len(beside.base) :])
            return self._insert_line(beside.node, prefix + line, indent=beside.node)
        gap = b"" if not self.data else self.newline
        if self.data and not self.data.endswith(b"\n"):
            gap += self.newline
        table_text = f"[{'.'.join(section)}]".encode() + self.newline + line.encode()
        return self.data + gap + table_text + self.newline

    def _entries(self) -> Iterator[_Entry]:
        for child in self._root.children:
            if child.type == "pair":
                yield from _entries_of(child, (), None, (), None)
            elif child.type == "table":
                base = _header(child)
                for pair in child.children:
                    if pair.type == "pair":
                        yield from _entries_of(pair, base, child, base, None)

    def _commented_out(self, path: KeyPath, value: str) -> int | None:
        """Where a line begins that `without` made a comment, if it has this key and this value.

        Lines without a comment of their own are none: they are the user's.
        """
        base: KeyPath | None = ()
        for node in self._root.children:
            for child in (node, *node.children):
                if child.type == "comment" and base is not None:
                    line = (child.text or b"").removeprefix(OUT)
                    for entry in _Edit(line).entries if line != child.text else ():
                        same = (*base, *entry.path) == path and entry.value.text == value.encode()
                        if same and self._has_comment(entry.node):
                            return child.start_byte
                elif child.type == "]":
                    base = _header(node) if node.type == "table" else None
        return None

    def _has_comment(self, pair: Node) -> bool:
        return any(child.type == "comment" for child in pair.children)

    def _without_inline(self, entry: _Entry) -> bytes:
        assert entry.node.parent is not None
        pairs = [child for child in entry.node.parent.children if child.type == "pair"]
        at = next(i for i, pair in enumerate(pairs) if pair.start_byte == entry.node.start_byte)
        if at:
            begin, end = pairs[at - 1].end_byte, entry.node.end_byte
        elif len(pairs) > 1:
            begin, end = entry.node.start_byte, pairs[1].start_byte
        else:
            begin, end = entry.node.parent.start_byte + 1, entry.node.parent.end_byte - 1
        return self.data[:begin] + self.data[end:]

    def _insert_inline(self, table: Node, line: str) -> bytes:
        pairs = [child for child in table.children if child.type == "pair"]
        if pairs:
            at, added = pairs[-1].end_byte, f", {line}"
            return self.data[:at] + added.encode() + self.data[at:]
        inside = f"{{ {line} }}".encode()
        return self.data[: table.start_byte] + inside + self.data[table.end_byte :]

    def _insert_line(self, after: Node, line: str, indent: Node) -> bytes:
        begin = self._line(indent.start_byte)
        spaces = self.data[begin : indent.start_byte]
        at = self._after_line(after.end_byte)
        gap = b"" if self.data[:at].endswith(b"\n") else self.newline
        return self.data[:at] + gap + spaces + line.encode() + self.newline + self.data[at:]

    def _end_of_header(self, table: Node) -> Node:
        return next(child for child in table.children if child.type == "]")

    def _holds_only(self, table: Node, entry: _Entry) -> bool:
        """Whether a table has nothing else, and no comment that speaks of it."""
        siblings = [
            child
            for child in table.children
            if child.type in ("pair", "comment") and child.start_byte != entry.node.start_byte
        ]
        before = self.data[: self._line(table.start_byte)].rstrip(b"\r\n").rpartition(b"\n")[2]
        return not siblings and not before.lstrip().startswith(b"#")

    def _line(self, byte: int) -> int:
        """Where the line of a byte begins."""
        return self.data.rfind(b"\n", 0, byte) + 1

    def _after_line(self, byte: int) -> int:
        """Where the line after that of a byte begins."""
        if byte and self.data[byte - 1 : byte] == b"\n":
            return byte
        end = self.data.find(b"\n", byte)
        return len(self.data) if end < 0 else end + 1


def _entries_of(
    pair: Node, base: KeyPath, table: Node | None, of_table: KeyPath, inline: KeyPath | None
) -> Iterator[_Entry]:
    entry = _Entry((*base, *_key(pair.children[0])), pair, table, of_table, inline)
    yield entry
    if entry.value.type == "inline_table":
        for inner in entry.value.children:
            if inner.type == "pair":
                yield from _entries_of(inner, entry.path, table, of_table, inline or entry.path)


def _header(table: Node) -> KeyPath:
    return _key(table.children[1])


def _key(node: Node) -> KeyPath:
    if node.type == "dotted_key":
        return tuple(part for child in node.children if child.type != "." for part in _key(child))
    text = (node.text or b"").decode()
    if text[:1] == '"':
        try:
            return (str(json.loads(text)),)
        except ValueError:  # an escape that JSON does not have: none of our keys
            return (text,)
    return (text.strip("'"),)
