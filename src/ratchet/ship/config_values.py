"""Finds values in YAML, TOML and JSON files by their keys, and replaces them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ratchet.ship.edit import PatchTarget, SourceEdit
from ratchet.ship.source_file import TextRange
from ratchet.source.literals.data_values import (
    Key,
    parse,
    place_of,
    replaced,
    same_value,
    value_at,
    with_value,
)
from ratchet.source.literals.search import byte_span
from ratchet.types import ShipError


@dataclass(frozen=True)
class ConfigSource:
    """A file as bytes with its data."""

    data: bytes
    path: str
    format: str
    """`yaml`, `json` or `toml`."""

    @property
    def newline(self) -> str:
        """The file's own line ending."""
        return "\r\n" if b"\r\n" in self.data else "\n"

    def text(self, span: TextRange) -> str:
        """The text of a byte span."""
        return self.data[span[0] : span[1]].decode()


@dataclass(frozen=True)
class ConfigSlot:
    """A value in a file."""

    key: str
    span: TextRange
    line: int
    """1-based."""
    value: Any
    problem: str = ""


def find_value(source: ConfigSource, keys: Sequence[Key], key: str) -> ConfigSlot | None:
    """The span of a number, boolean or string; None if it has no span of its own, like an alias.

    Args:
        source: The file.
        keys: What leads to the value.
        key: The slot's name.
    """
    try:
        text = source.data.decode()
    except ValueError:
        return None
    place = place_of(text, source.format, keys)
    if place is None:
        return None
    value = value_at(parse(text, source.format), keys)
    return ConfigSlot(key, byte_span(text, place), text.count("\n", 0, place[0]) + 1, value)


def value_edit(
    source: ConfigSource, target: PatchTarget, slot: ConfigSlot, before: Any, after: Any
) -> SourceEdit:
    """The edit of a value in a file.

    Raises:
        ShipError: There is none that reads back.
    """
    text = source.data.decode()
    start, stop = (len(source.data[:end].decode()) for end in slot.span)
    replacement = replaced(text, source.format, keys_of(target), (start, stop), after)
    if replacement is None:
        raise ShipError(
            f"{source.path}:{slot.line}: {target.name}.{slot.key} has no safe edit.",
            hint=f"Write this there by hand: {after!r}.",
        )
    span = byte_span(text, replacement[0])
    return SourceEdit(
        target=target,
        key=slot.key,
        span=span,
        line=slot.line,
        old=source.data[slice(*span)],
        new=replacement[1].encode(),
        before=before,
        after=after,
        reads=after,
    )


def keys_of(target: PatchTarget) -> tuple[Key, ...]:
    """The keys of a target's value."""
    return tuple(json.loads(target.keys))


def verify_config(source: ConfigSource, data: bytes, edits: Sequence[SourceEdit]) -> None:
    """Check that a file holds the new values, and that others are unchanged."""
    expected = parse(source.data.decode(), source.format)
    for edit in edits:
        expected = with_value(expected, keys_of(edit.target), edit.reads)
    try:
        actual = parse(data.decode(), source.format)
    except ValueError:
        raise ShipError(f"{source.path}: the edited file would not parse.") from None
    if not same_value(actual, expected):
        raise ShipError(f"{source.path}: the edit would change more than the resource.")
