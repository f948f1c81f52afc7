"""Datasets as CSV with a header."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ratchet.curate.csv_rows import CsvRow, CsvRows
from ratchet.curate.files.columns import from_cells, to_columns
from ratchet.curate.task_file import MAX_LINE_BYTES
from ratchet.curate.text_file import is_undecoded, open_text


def write(records: Iterable[dict[str, Any]], path: Path) -> None:
    """Write a header and one row per record."""
    columns = to_columns(records, empty_is_none=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def read(path: Path, say: Callable[[str], None]) -> Iterator[tuple[int, Any, str]]:
    """Read the rows; an empty cell has no value."""
    with open_text(path) as text:
        if text.encoding.note:
            say(text.encoding.note)
        usual = "\t" if path.suffix.lower() == ".tsv" else ","
        rows = CsvRows(text.lines(), usual, MAX_LINE_BYTES)
        if rows.note:
            say(rows.note)
        yield from map(_record, rows)


def _record(row: CsvRow) -> tuple[int, Any, str]:
    if row.error:
        return row.line, None, row.error
    if any(is_undecoded(cell) for cell in row.cells.values()):
        return row.line, None, "the row contains bytes that are not text in the file's encoding"
    # A task needs an input, if only None; other columns may be meant for some tasks only.
    cells = {name: cell or None for name, cell in row.cells.items() if cell or name == "input"}
    try:
        return row.line, from_cells(cells), ""
    except ValueError as error:
        return row.line, None, str(error)
