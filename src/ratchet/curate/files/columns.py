"""Records as columns of text, for formats with one type per column.

A column holds plain text if all its values are text. Otherwise all of them are JSON, and the name
of the column says so: `input_json`. A cell without a value is None.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ratchet.curate.task_file import json_of

JSON = "_json"
"""Suffix of the name of a column that holds JSON."""

_ALWAYS_JSON = ("metadata", "origin")


def to_columns(
    records: Iterable[Mapping[str, Any]], *, empty_is_none: bool
) -> dict[str, list[Any]]:
    """Columns by name.

    Args:
        records: Records of equal keys.
        empty_is_none: Whether the format has no other way to write None than the empty text.
    """
    rows = list(records)
    names = ("id", "input", "expected", "metadata", "split", "origin")
    columns: dict[str, list[Any]] = {}
    for name in names:
        values = [row[name] for row in rows]
        if name not in _ALWAYS_JSON and _is_text(values, empty_is_none):
            columns[name] = values
        else:
            columns[name + JSON] = [
                json.dumps(value, ensure_ascii=False, allow_nan=False) for value in values
            ]
    return columns


def from_cells(cells: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a row.

    Raises:
        ValueError: A cell of a column with JSON is none.
    """
    record: dict[str, Any] = {}
    for name, value in cells.items():
        if name.endswith(JSON) and isinstance(value, str):
            try:
                record[name.removesuffix(JSON)] = json_of(value.encode())
            except ValueError as error:
                raise ValueError(f"its {name}: {error}") from None
        else:
            record[name] = value
    return record


def _is_text(values: Sequence[Any], empty_is_none: bool) -> bool:
    # A carriage return is rewritten by some readers of CSV, and a NUL refused.
    return all(
        value is None
        or (
            isinstance(value, str)
            and not (empty_is_none and (not value or "\r" in value or "\0" in value))
        )
        for value in values
    )
