"""Datasets as CSV with a header."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ratchet.curate.files.columns import from_cells, to_columns
from ratchet.curate.task_file import MAX_LINE_BYTES
from ratchet.types import InputError

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def write(records: Iterable[dict[str, Any]], path: Path) -> None:
    """Write a header and one row per record."""
    columns = to_columns(records, empty_is_none=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def read(path: Path) -> Iterator[tuple[int, Any, str]]:
    """Read the rows; an empty cell has no value."""
    with path.open("rb") as raw:
        if raw.read(2) in _UTF_16:
            raise InputError(
                f"The file {path} is encoded in UTF-16.",
                hint="Convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > OTHER.",
            )
    limit = csv.field_size_limit(MAX_LINE_BYTES)
    try:
        # Bytes that are not UTF-8 become lone surrogates, so that only their row is refused.
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            yield from _rows(csv.reader(file))
    finally:
        csv.field_size_limit(limit)


def _rows(rows: Any) -> Iterator[tuple[int, Any, str]]:
    header: list[str] | None = None
    line = 1
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, None, f"not CSV: {error}"
            line = rows.line_num + 1
            continue
        begun, line = line, rows.line_num + 1
        if not any(row):
            continue
        if header is None:
            header = [name.strip() for name in row]
            continue
        if len(row) != len(header):
            yield begun, None, f"the row has {len(row)} cells, and the header {len(header)}"
            continue
        if any(not cell.isascii() and _is_undecoded(cell) for cell in row):
            yield begun, None, "the row contains bytes that are not UTF-8"
            continue
        try:
            yield begun, from_cells(_cells(header, row)), ""
        except ValueError as error:
            yield begun, None, str(error)


def _cells(header: list[str], row: list[str]) -> dict[str, str | None]:
    cells = {name: cell or None for name, cell in zip(header, row, strict=True)}
    # A task needs an input, if only None; other columns may be meant for some tasks only.
    return {name: cell for name, cell in cells.items() if cell is not None or name == "input"}


def _is_undecoded(cell: str) -> bool:
    return any("\udc80" <= sign <= "\udcff" for sign in cell)
