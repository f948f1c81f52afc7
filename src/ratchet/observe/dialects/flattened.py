"""Rebuilds lists of objects from flattened attributes such as `prefix.0.message.role`.

Span attributes are not nested in practice, so instrumentations write a list of objects as many
attributes whose names contain the path of each value.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

Objects: TypeAlias = dict[int, dict[str, Any]]
"""Objects by their index; a nested list is such a dictionary, too."""

_LONGEST = 200
"""Maximum length of a flattened name."""

_KNOWN = 8_192
"""Cache size; the same few names recur in every span."""


class _Position(NamedTuple):
    group: str
    number: int
    field: str
    inner_number: int = -1
    inner_field: str = ""


class Layout:
    """The names by which a dialect flattens its lists.

    Indexes may have gaps and up to twelve digits; only existing entries cost memory.

    Args:
        lists: Names of the lists, each with the word between index and field, which may be empty:
            `{"llm.tools": "tool"}` for `llm.tools.0.tool.name`.
        inner: The same for lists nested in these objects.
    """

    def __init__(self, lists: Mapping[str, str], inner: Mapping[str, str]) -> None:
        self._outer = _pattern(lists.items())
        self._inner = _pattern(inner.items())
        # Names recur: a cached lookup costs a tenth of parsing one.
        self._position = functools.lru_cache(maxsize=_KNOWN)(self._parse)

    def gather(self, attributes: Mapping[str, Any]) -> dict[str, Objects]:
        """The lists in the attributes, by name."""
        lists: dict[str, Objects] = {}
        position_of = self._position
        for key, value in attributes.items():
            position = position_of(key) if len(key) <= _LONGEST else None
            if position is None:
                continue
            group, number, field, inner_number, inner_field = position
            objects = lists.get(group)
            if objects is None:
                objects = lists[group] = {}
            fields = objects.get(number)
            if fields is None:
                fields = objects[number] = {}
            if inner_number < 0:
                fields[field] = value
                continue
            inner = fields.get(field)
            # A plain value may have the same name as the list.
            if inner.__class__ is not dict:
                inner = fields[field] = {}
            inner.setdefault(inner_number, {})[inner_field] = value
        return lists

    def _parse(self, key: str) -> _Position | None:
        match = self._outer.fullmatch(key)
        if match is None:
            return None
        group, number, field = _read(match)
        inside = self._inner.fullmatch(field)
        if inside is None:
            return _Position(group, number, field)
        return _Position(group, number, *_read(inside))


def in_order(objects: Any) -> Iterable[dict[str, Any]]:
    """The objects of a gathered list, ordered by index."""
    if objects.__class__ is not dict:
        return ()
    return [objects[number] for number in sorted(objects)]


def _pattern(lists: Iterable[tuple[str, str]]) -> re.Pattern[str]:
    prefixes = (
        rf"({re.escape(name)})\.([0-9]{{1,12}})\.{re.escape(word + '.') if word else ''}"
        for name, word in lists
    )
    # One alternative for each list, with two groups: its name and the index.
    return re.compile(f"(?:{'|'.join(prefixes)})(?P<field>.+)", re.DOTALL)


def _read(match: re.Match[str]) -> tuple[str, int, str]:
    name, number = (group for group in match.groups()[:-1] if group is not None)
    return name, int(number), match["field"]
