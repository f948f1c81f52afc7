"""Compares results of queries: as multisets, or in the order that the expected query demands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ratchet.evaluate.sql_equivalence.execution import Row

_MATCHED = 300
"""Most rows that are matched with one another where sorting does not bring equals together."""


def is_empty(rows: Sequence[Row]) -> bool:
    """Whether a result says nothing: no row, or one of nothing but NULL and 0, as a count has."""
    return not rows or (len(rows) == 1 and all(value in (None, 0) for value in rows[0]))


def same_rows(one: Sequence[Row], other: Sequence[Row], tolerance: float) -> bool:
    """Whether two results have the same rows equally often, in any order."""
    if len(one) != len(other):
        return False
    left, right = sorted(one, key=_key), sorted(other, key=_key)
    if same_sequence(left, right, tolerance):
        return True
    # Floats that differ by less than the tolerance may sort differently.
    if len(left) > _MATCHED or not any(type(value) is float for row in left for value in row):
        return False
    rest = list(right)
    for row in left:
        found = next((at for at, two in enumerate(rest) if _same_row(row, two, tolerance)), None)
        if found is None:
            return False
        del rest[found]
    return True


def same_sequence(one: Sequence[Row], other: Sequence[Row], tolerance: float) -> bool:
    """Whether two results have the same rows in the same order."""
    return len(one) == len(other) and all(
        _same_row(left, right, tolerance) for left, right in zip(one, other, strict=True)
    )


def follows(
    rows: Sequence[Row], keyed: Sequence[Row], width: int, offset: int, tolerance: float
) -> bool:
    """Whether a result is one of those that a query with ties in its order may give.

    Args:
        rows: The result.
        keyed: All rows of the ordered query without its limit, in order; each row of `width`
            columns is followed by its sort keys.
        width: Number of columns.
        offset: Number of rows that the query skips.
        tolerance: See `same_rows`.
    """
    at, taken, skip = 0, 0, offset
    while at < len(keyed) and taken < len(rows):
        end = at + 1
        while end < len(keyed) and keyed[end][width:] == keyed[at][width:]:
            end += 1
        group = [row[:width] for row in keyed[at:end]]
        skipped = min(skip, len(group))
        count = min(len(group) - skipped, len(rows) - taken)
        part = rows[taken : taken + count]
        if count == len(group):
            if not same_rows(part, group, tolerance):
                return False
        elif not _within(part, group, tolerance):
            return False
        skip -= skipped
        taken += count
        at = end
    return taken == len(rows)


def _within(part: Sequence[Row], group: Sequence[Row], tolerance: float) -> bool:
    rest = list(group)
    for row in part:
        found = next((at for at, one in enumerate(rest) if _same_row(row, one, tolerance)), None)
        if found is None:
            return False
        del rest[found]
    return True


def _same_row(one: Row, other: Row, tolerance: float) -> bool:
    return len(one) == len(other) and all(
        _same(left, right, tolerance) for left, right in zip(one, other, strict=True)
    )


def _same(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        if not (isinstance(one, (int, float)) and isinstance(other, (int, float))):
            return False
        return one == other or math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
    return type(one) is type(other) and bool(one == other)


def _key(row: Row) -> tuple[Any, ...]:
    # Exact values first, so that floats decide only between rows that are otherwise equal.
    exact = [_exact_key(value) for value in row]
    floats = [float(value) for value in row if isinstance(value, (int, float))]
    return (*exact, *floats)


def _exact_key(value: Any) -> tuple[int, Any]:
    if value is None:
        return (0, 0)
    if isinstance(value, (int, float)):
        return (1, 0)
    return (2, value) if isinstance(value, str) else (3, value)
