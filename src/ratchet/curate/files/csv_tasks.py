"""Datasets as CSV with a header."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ratchet.curate.csv_rows import CsvRow, csv_rows
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
            yield from map(_record, csv_rows(csv.reader(file)))
    finally:
        csv.field_size_limit(limit)


def _record(row: CsvRow) -> tuple[int, Any, str]:
    if row.error:
        return row.line, None, row.error
    if any(not cell.isascii() and _is_undecoded(cell) for cell in row.cells.values()):
        return row.line, None, "the row contains bytes that are not UTF-8"
    # A task needs an input, if only None; other columns may be meant for some tasks only.
    cells = {name: cell or None for name, cell in row.cells.items() if cell or name == "input"}
    try:
        return row.line, from_cells(cells), ""
    except ValueError as error:
        return row.line, None, str(error)


def _is_undecoded(cell: str) -> bool:
    return any("\udc80" <= sign <= "\udcff" for sign in cell)
