"""Compares query results as multisets, or in the order that the expected query requires."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ratchet.evaluate.sql_equivalence.execution import Row

_MATCHED = 300
"""Maximum number of rows matched pairwise, if sorting does not bring equal rows together."""


def is_empty(rows: Sequence[Row]) -> bool:
    """Whether a result is uninformative: no rows, or one with only NULL and 0, as from a count."""
    return not rows or (len(rows) == 1 and all(value in (None, 0) for value in rows[0]))


def same_rows(first: Sequence[Row], second: Sequence[Row], tolerance: float) -> bool:
    """Whether two results have the same rows equally often, in any order."""
    if len(first) != len(second):
        return False
    left, right = sorted(first, key=_key), sorted(second, key=_key)
    if same_sequence(left, right, tolerance):
        return True
    # Floats that differ by less than the tolerance may sort differently.
    if len(left) > _MATCHED or not any(type(value) is float for row in left for value in row):
        return False
    unmatched = list(right)
    for row in left:
        place = next(
            (at for at, two in enumerate(unmatched) if _same_row(row, two, tolerance)), None
        )
        if place is None:
            return False
        del unmatched[place]
    return True


def same_sequence(first: Sequence[Row], second: Sequence[Row], tolerance: float) -> bool:
    """Whether two results have the same rows in the same order."""
    return len(first) == len(second) and all(
        _same_row(left, right, tolerance) for left, right in zip(first, second, strict=True)
    )


def follows(
    rows: Sequence[Row], keyed: Sequence[Row], width: int, offset: int, tolerance: float
) -> bool:
    """Whether a result is possible for a query with ties in its order.

    Args:
        rows: The result.
        keyed: All rows of the ordered query without its limit, in order; each row of `width`
            columns is followed by its sort keys.
        width: Number of columns.
        offset: Number of rows that the query skips.
        tolerance: See `same_rows`.
    """
    at, matched, skip = 0, 0, offset
    while at < len(keyed) and matched < len(rows):
        end = at + 1
        while end < len(keyed) and keyed[end][width:] == keyed[at][width:]:
            end += 1
        group = [row[:width] for row in keyed[at:end]]
        skipped = min(skip, len(group))
        count = min(len(group) - skipped, len(rows) - matched)
        part = rows[matched : matched + count]
        if count == len(group):
            if not same_rows(part, group, tolerance):
                return False
        elif not _within(part, group, tolerance):
            return False
        skip -= skipped
        matched += count
        at = end
    return matched == len(rows)


def _within(part: Sequence[Row], group: Sequence[Row], tolerance: float) -> bool:
    unmatched = list(group)
    for row in part:
        place = next(
            (at for at, candidate in enumerate(unmatched) if _same_row(row, candidate, tolerance)),
            None,
        )
        if place is None:
            return False
        del unmatched[place]
    return True


def _same_row(first: Row, second: Row, tolerance: float) -> bool:
    return len(first) == len(second) and all(
        _same(left, right, tolerance) for left, right in zip(first, second, strict=True)
    )


def _same(first: Any, second: Any, tolerance: float) -> bool:
    if isinstance(first, float) or isinstance(second, float):
        if not (isinstance(first, (int, float)) and isinstance(second, (int, float))):
            return False
        return first == second or math.isclose(first, second, rel_tol=tolerance, abs_tol=tolerance)
    return type(first) is type(second) and bool(first == second)


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
