"""Rows of CSV with a header, each with its line; a broken row does not end the file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any, NamedTuple


class CsvRow(NamedTuple):
    """One row."""

    line: int
    """Line where it begins, from 1."""
    cells: dict[str, str] = {}
    error: str = ""
    """Why there are no cells."""


def csv_rows(reader: Any) -> Iterator[CsvRow]:
    """Name the cells of a `csv.reader` by its first row; empty rows are left out."""
    header: list[str] | None = None
    line = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield CsvRow(line, error=f"not CSV: {error}")
            line = reader.line_num + 1
            continue
        begun, line = line, reader.line_num + 1
        if not any(row):
            continue
        if header is None:
            header = [name.strip() for name in row]
        elif len(row) != len(header):
            why = f"the row has {len(row)} cells, and the header {len(header)}"
            yield CsvRow(begun, error=why)
        else:
            yield CsvRow(begun, dict(zip(header, row, strict=True)))
