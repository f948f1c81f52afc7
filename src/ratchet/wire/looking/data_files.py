"""Data files of a repository, with the names of their columns; no values are kept."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ratchet.curate.csv_rows import CsvRows
from ratchet.wire.looking.inventory import DataTable
from ratchet.wire.looking.listing import FileListing

MAX_TABLES = 400
"""Maximum number of data files that are opened, outermost first."""
HEAD_BYTES = 200_000
"""Bytes read of a table; a JSON list can only be read whole."""

_FORMS = {"csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "json"}


def find_data_files(listing: FileListing) -> Iterator[DataTable]:
    """Files of rows, outermost first; JSON that is not a list of objects is left out."""
    paths = [path for path in listing.paths if path.rpartition(".")[2].lower() in _FORMS]
    paths.sort(key=lambda path: (path.count("/"), path))
    for path in paths[:MAX_TABLES]:
        form = _FORMS[path.rpartition(".")[2].lower()]
        text, complete = listing.head(path, HEAD_BYTES)
        if form == "json" and text.lstrip()[:1] not in ("[", "{"):
            continue
        if form == "json" and not complete:
            text, complete = listing.text(path) or "", True
        rows = _rows(form, text, complete)
        if columns := _columns(rows):
            yield DataTable(path, form, columns, len(rows), complete)


def rows_of(root: Path, table: DataTable) -> list[dict[str, Any]]:
    """All rows of a table; none if it can no longer be read."""
    try:
        text = (root / table.path).read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return []
    return _rows(table.form, text, True)


def _rows(form: str, text: str, complete: bool) -> list[dict[str, Any]]:
    """Rows of a table; of a truncated one, those before the cut."""
    try:
        if form in ("csv", "tsv"):
            lines = list(io.StringIO(text, newline=""))
            usual = "\t" if form == "tsv" else ","
            table = CsvRows(lines if complete else lines[:-1], usual, HEAD_BYTES)
            return [dict(row.cells) for row in table if not row.error]
        if form == "jsonl":
            lines = [line for line in text.splitlines() if line.strip()]
            values = [json.loads(line) for line in (lines if complete else lines[:-1])]
        else:
            values = _list(json.loads(text))
    except (ValueError, RecursionError):
        return []
    return values if values and all(isinstance(value, dict) for value in values) else []


def _list(data: object) -> list[Any]:
    """A list of objects, alone or as the only list in an object."""
    if isinstance(data, dict):
        lists = [value for value in data.values() if isinstance(value, list) and value]
        data = lists[0] if len(lists) == 1 else None
    return data if isinstance(data, list) else []


def _columns(rows: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Keys that most rows have, with a value."""
    counts = Counter(
        key for row in rows for key, value in row.items() if value not in (None, "", [], {})
    )
    return tuple(key for key, count in counts.items() if 2 * count > len(rows))
