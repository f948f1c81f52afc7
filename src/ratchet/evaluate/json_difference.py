"""Compares JSON values field by field."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ratchet.types import InputError

MAX_DEPTH = 100
"""Deepest nesting that is compared."""

MAX_UNORDERED = 300
"""Maximum number of items of a list that are matched in any order."""


@dataclass
class JsonDifference:
    """The differences between two values."""

    equal: int = 0
    """Number of fields that are equal."""
    fields: int = 0
    """Number of fields in the union of both values."""
    notes: list[str] = field(default_factory=list)
    """The differences, each with its place."""

    def add(self, part: JsonDifference) -> None:
        """Add the difference of a part."""
        self.equal += part.equal
        self.fields += part.fields
        self.notes += part.notes


@dataclass(frozen=True)
class JsonComparison:
    """Rules of a comparison."""

    tolerance: float = 0.0
    """Largest difference between numbers that count as equal."""
    relative: bool = False
    """The tolerance is a share of the expected number."""
    ignore: tuple[str, ...] = ()
    """Places that are not compared, such as `meta.id` or `items.*.at`; a name alone matches at any
    place."""
    ordered: bool = True
    """Whether the order of lists matters."""
    extra: bool = True
    """Whether unexpected fields are differences."""

    def difference(self, expected: Any, got: Any) -> JsonDifference:
        """Compare two JSON values.

        Raises:
            InputError: They are nested too deep, or an unordered list is too long.
        """
        return self._compare(expected, got, ())

    def same(self, expected: Any, got: Any) -> bool:
        """Whether two values have no difference."""
        return not self.difference(expected, got).notes

    def _compare(self, expected: Any, got: Any, place: tuple[str, ...]) -> JsonDifference:
        if len(place) > MAX_DEPTH:
            raise InputError(f"The values are nested deeper than {MAX_DEPTH}.")
        if isinstance(expected, dict) and isinstance(got, dict) and (expected or got):
            return self._compare_objects(expected, got, place)
        if isinstance(expected, list) and isinstance(got, list) and (expected or got):
            if self.ordered:
                return self._compare_lists(expected, got, place)
            return self._compare_unordered(expected, got, place)
        if self._same_leaf(expected, got):
            return JsonDifference(1, 1)
        note = f"{_path(place)}: {value_note(expected, got)}"
        return JsonDifference(0, max(1, self._leaves(expected, place)), [note])

    def _compare_objects(
        self, expected: dict[str, Any], got: dict[str, Any], place: tuple[str, ...]
    ) -> JsonDifference:
        difference = JsonDifference()
        for key in dict.fromkeys((*expected, *got)):
            inner = (*place, str(key))
            if self._ignores(inner):
                continue
            if key not in got:
                count = self._leaves(expected[key], inner)
                difference.add(
                    JsonDifference(0, count, [f"{_path(inner)}: {_missing(expected[key])}"])
                )
            elif key in expected:
                difference.add(self._compare(expected[key], got[key], inner))
            elif self.extra:
                count = self._leaves(got[key], inner)
                difference.add(JsonDifference(0, count, [f"{_path(inner)}: {_extra(got[key])}"]))
        return difference

    def _compare_lists(
        self, expected: list[Any], got: list[Any], place: tuple[str, ...]
    ) -> JsonDifference:
        difference = JsonDifference()
        for at, (expected_item, got_item) in enumerate(zip(expected, got, strict=False)):
            difference.add(self._compare(expected_item, got_item, (*place, str(at))))
        for at in range(len(got), len(expected)):
            difference.add(self._alone(expected[at], (*place, str(at)), _missing))
        for at in range(len(expected), len(got) if self.extra else 0):
            difference.add(self._alone(got[at], (*place, str(at)), _extra))
        return difference

    def _compare_unordered(
        self, expected: list[Any], got: list[Any], place: tuple[str, ...]
    ) -> JsonDifference:
        """Match equal items first, then the least different ones."""
        if max(len(expected), len(got)) > MAX_UNORDERED:
            raise InputError(
                f"{_path(place)} has more than {MAX_UNORDERED} items without an order."
            )
        difference = JsonDifference()
        left = dict(enumerate(got))
        open_ones = []
        for at, item in enumerate(expected):
            differences = (
                (n, self._compare(item, got_item, (*place, str(at))))
                for n, got_item in left.items()
            )
            match = next(
                (
                    (n, item_difference)
                    for n, item_difference in differences
                    if not item_difference.notes
                ),
                None,
            )
            if match is None:
                open_ones.append((at, item))
            else:
                del left[match[0]]
                difference.add(match[1])
        for at, item in open_ones:
            inner = (*place, str(at))
            if not left:
                difference.add(self._alone(item, inner, _missing))
                continue
            compared = {n: self._compare(item, got_item, inner) for n, got_item in left.items()}
            best = max(compared, key=lambda n: compared[n].equal)
            del left[best]
            difference.add(compared[best])
        for at, item in left.items() if self.extra else ():
            difference.add(self._alone(item, (*place, str(at)), _extra))
        return difference

    def _alone(
        self, value: Any, place: tuple[str, ...], words: Callable[[Any], str]
    ) -> JsonDifference:
        if self._ignores(place):
            return JsonDifference()
        return JsonDifference(0, self._leaves(value, place), [f"{_path(place)}: {words(value)}"])

    def _same_leaf(self, expected: Any, got: Any) -> bool:
        # Python equates True and 1; JSON does not.
        if isinstance(expected, bool) or isinstance(got, bool):
            return expected is got
        if isinstance(expected, (int, float)) and isinstance(got, (int, float)):
            if expected == got:
                return True
            if not self.tolerance:
                return False
            try:
                limit = self.tolerance * abs(expected) if self.relative else self.tolerance
                rounding = 2 * math.ulp(max(abs(float(got)), abs(float(expected))))
                return abs(got - expected) <= limit + rounding
            except OverflowError:  # integers too large for a float
                return False
        return type(expected) is type(got) and bool(expected == got)

    def _leaves(self, value: Any, place: tuple[str, ...]) -> int:
        """Number of fields of a value; an empty object or list counts as one."""
        if len(place) > MAX_DEPTH:
            raise InputError(f"The values are nested deeper than {MAX_DEPTH}.")
        if isinstance(value, dict) and value:
            inner = ((str(key), member) for key, member in value.items())
        elif isinstance(value, list) and value:
            inner = ((str(at), item) for at, item in enumerate(value))
        else:
            return 1
        return sum(
            self._leaves(part, (*place, key))
            for key, part in inner
            if not self._ignores((*place, key))
        )

    def _ignores(self, place: tuple[str, ...]) -> bool:
        return any(_matches(pattern, place) for pattern in self.ignore)


def short_notes(notes: list[str], most: int = 10) -> str:
    """The first notes, and the number of further ones."""
    more = f"; and {len(notes) - most} more" if len(notes) > most else ""
    return "; ".join(notes[:most]) + more


def value_note(expected: Any, got: Any) -> str:
    """How one value differs from the expected one."""
    return f"expected {_short(expected)}, got {_short(got)}"


def _missing(value: Any) -> str:
    return f"expected {_short(value)}, got nothing"


def _extra(value: Any) -> str:
    return f"expected nothing, got {_short(value)}"


def _matches(pattern: str, place: tuple[str, ...]) -> bool:
    parts = pattern.split(".")
    if len(parts) == 1:
        return place[-1] == pattern
    return len(parts) == len(place) and all(
        part in ("*", step) for part, step in zip(parts, place, strict=True)
    )


def _path(place: tuple[str, ...]) -> str:
    return ".".join(place)[:200] if place else "the value"


def _short(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
