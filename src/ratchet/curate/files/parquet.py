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


def read(path: Path, _: object = None) -> Iterator[tuple[int, Any, str]]:
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
        names = batch.schema.names
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            yield number + 1, None, f"two columns are named {twice[0]!r}"
            return
        types = dict(zip(names, batch.schema.types, strict=True))
        for row in batch.to_pylist():
            number += 1
            try:
                cells = {name: _plain(cell, types[name]) for name, cell in row.items()}
                yield number, from_cells(cells), ""
            except ValueError as error:
                yield number, None, str(error)


def _plain(value: Any, kind: Any) -> Any:
    """A value of an Arrow type as JSON data; a map becomes an object.

    Raises:
        ValueError: It holds bytes, or a map has a key twice.
    """
    types = pyarrow().types
    if value is None:
        return None
    if types.is_dictionary(kind):
        return _plain(value, kind.value_type)
    if types.is_map(kind):
        entries = {
            str(_plain(key, kind.key_type)): _plain(item, kind.item_type) for key, item in value
        }
        if len(entries) < len(value):
            raise ValueError("it holds a map with a duplicate key")
        return entries
    if types.is_struct(kind):
        return {name: _plain(member, kind.field(name).type) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(item, kind.value_type) for item in value]
    if isinstance(value, bytes):
        raise ValueError("it holds bytes, such as an image or a sound")
    if isinstance(value, (str, int, float)):
        return value
    return str(value)  # a date, a time, a decimal number


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
