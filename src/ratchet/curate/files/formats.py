"""The formats of dataset files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ratchet.curate.files import csv_tasks, huggingface, json_lines, parquet
from ratchet.types import InputError


class FileFormat(NamedTuple):
    """A format's reader and writer."""

    write: Callable[[Iterable[dict[str, Any]], Path], None]
    read: Callable[[Path, Callable[[str], None]], Iterator[tuple[int, Any, str]]]
    """Yields each line's number, its value, and the error where there is no value. Its second
    argument is called with a sentence for each unusual way in which the file is read."""
    endings: tuple[str, ...]

    @staticmethod
    def replace(fresh: Path, path: Path) -> None:
        """Replace the old file with the new one."""
        if fresh.is_dir() and path.is_dir():
            old = path.with_name(f".{path.name}.old")
            shutil.rmtree(old, ignore_errors=True)
            path.rename(old)
            fresh.rename(path)
            shutil.rmtree(old)
        else:
            fresh.replace(path)

    @staticmethod
    def remove(fresh: Path) -> None:
        """Remove a partly written file."""
        if fresh.is_dir():
            shutil.rmtree(fresh, ignore_errors=True)
        else:
            fresh.unlink(missing_ok=True)


FORMATS: dict[str, FileFormat] = {
    "jsonl": FileFormat(json_lines.write, json_lines.read, (".jsonl", ".ndjson")),
    "json": FileFormat(json_lines.write_list, json_lines.read_list, (".json",)),
    "csv": FileFormat(csv_tasks.write, csv_tasks.read, (".csv", ".tsv")),
    "parquet": FileFormat(parquet.write, parquet.read, (".parquet", ".pq")),
    "huggingface": FileFormat(huggingface.write, huggingface.read, ()),
}
"""Formats by name."""


def format_of_file(path: Path, format: str | None = None) -> str:
    """The format of a file: the requested one, or by its extension; a folder is Hugging Face's.

    Raises:
        InputError: There is no such format, or the extension names none.
    """
    hint = f"Known: {', '.join(FORMATS)}."
    if format is not None:
        if format not in FORMATS:
            raise InputError(f"There is no format {format!r}.", hint=hint)
        return format
    for name, file_format in FORMATS.items():
        if path.suffix.lower() in file_format.endings:
            return name
    if path.is_dir():
        return "huggingface"
    raise InputError(
        f"The extension of {path} does not name a format.", hint=f"Select one with --format. {hint}"
    )
