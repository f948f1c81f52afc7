"""Flattened lists: `prefix.0.message.role` and the like, gathered into objects by their numbers.

Attributes of spans have no nested objects in practice, so instrumentations write lists of objects
as many attributes whose names hold the way to each value.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

Objects: TypeAlias = dict[int, dict[str, Any]]
"""Objects by their number in the list; a list inside of one is again such a dictionary."""

_LONGEST = 200
"""Characters of a name; a longer one is none of these."""

_KNOWN = 8_192
"""Names whose places are remembered: few are ever used, in every span anew."""


class _Position(NamedTuple):
    group: str
    number: int
    field: str
    inner_number: int = -1
    inner_field: str = ""


class Layout:
    """How a dialect names the values of its lists.

    Numbers may have holes and be of any size up to twelve digits; only what is there costs.

    Args:
        lists: Names of the lists, each with the word that stands between number and field, or an
            empty one: `{"llm.tools": "tool"}` for `llm.tools.0.tool.name`.
        inner: The same for lists inside of these objects.
    """

    def __init__(self, lists: Mapping[str, str], inner: Mapping[str, str]) -> None:
        self._outer = _pattern(lists.items())
        self._inner = _pattern(inner.items())
        # Attributes' names recur: to look one up costs a tenth of what taking it apart does.
        self._position = functools.lru_cache(maxsize=_KNOWN)(self._parse)

    def gather(self, attributes: Mapping[str, Any]) -> dict[str, Objects]:
        """The lists that there are, by name."""
        found: dict[str, Objects] = {}
        position_of = self._position
        for key, value in attributes.items():
            position = position_of(key) if len(key) <= _LONGEST else None
            if position is None:
                continue
            group, number, field, inner_number, inner_field = position
            objects = found.get(group)
            if objects is None:
                objects = found[group] = {}
            one = objects.get(number)
            if one is None:
                one = objects[number] = {}
            if inner_number < 0:
                one[field] = value
                continue
            inner = one.get(field)
            # A value may stand where others have a list.
            if inner.__class__ is not dict:
                inner = one[field] = {}
            inner.setdefault(inner_number, {})[inner_field] = value
        return found

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
    """The objects of a gathered list, by their numbers."""
    if objects.__class__ is not dict:
        return ()
    return [objects[number] for number in sorted(objects)]


def _pattern(lists: Iterable[tuple[str, str]]) -> re.Pattern[str]:
    each = (
        rf"({re.escape(name)})\.([0-9]{{1,12}})\.{re.escape(word + '.') if word else ''}"
        for name, word in lists
    )
    # One alternative for each list: its name, its number.
    return re.compile(f"(?:{'|'.join(each)})(?P<field>.+)", re.DOTALL)


def _read(match: re.Match[str]) -> tuple[str, int, str]:
    name, number = (group for group in match.groups()[:-1] if group is not None)
    return name, int(number), match["field"]
