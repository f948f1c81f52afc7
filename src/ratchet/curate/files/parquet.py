"""Datasets as Parquet, read and written by pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ratchet.curate.files.columns import from_cells, to_columns
from ratchet.types import InputError

_ROWS = 1_000
"""Rows in memory at once while reading."""


def pyarrow() -> Any:
    """The package.

    Raises:
        InputError: It is not installed.
    """
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            "Parquet files and folders of Hugging Face need pyarrow, which is not installed.",
            hint="Install it with: pip install 'agent-ratchet[parquet]'.",
        ) from None
    return pyarrow


def write(records: Iterable[dict[str, Any]], path: Path) -> None:
    """Write one row per record."""
    arrow = pyarrow()
    columns = to_columns(records, empty_is_none=False)
    text = arrow.large_string()
    table = arrow.table({name: arrow.array(values, text) for name, values in columns.items()})
    arrow.parquet.write_table(table, path, compression="zstd")


def read(path: Path) -> Iterator[tuple[int, Any, str]]:
    """Read the rows, numbered from 1."""
    arrow = pyarrow()
    try:
        with arrow.parquet.ParquetFile(path) as file:
            yield from rows_of(file.iter_batches(_ROWS), 0)
    except arrow.ArrowException as error:
        raise InputError(f"{path} is not a Parquet file: {_first_line(error)}.") from None


def rows_of(batches: Iterable[Any], before: int) -> Iterator[tuple[int, Any, str]]:
    """The records of batches of rows, numbered after those before."""
    number = before
    for batch in batches:
        for cells in batch.to_pylist():
            number += 1
            try:
                yield number, _plain(from_cells(cells)), ""
            except ValueError as error:
                yield number, None, str(error)


def _plain(value: Any) -> Any:
    """A value as JSON data.

    Raises:
        ValueError: It holds bytes.
    """
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        raise ValueError("it holds bytes, such as an image or a sound")
    if isinstance(value, (str, int, float)) or value is None:
        return value
    return str(value)  # a date, a time, a decimal number


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
