"""Writes a file of training data completely or not at all, after checking each row."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from ratchet.types import InputError
from ratchet.weights.export import openai, parquet, sharegpt, trl
from ratchet.weights.export.checks import fault_of_example, fault_of_pair
from ratchet.weights.recorded_chat import ChatExample, ChatPair, NotTrainable

Method: TypeAlias = Literal["sft", "dpo"]
"""Supervised fine-tuning on conversations, or direct preference optimisation on pairs."""

Item = TypeVar("Item", ChatExample, ChatPair)
Row: TypeAlias = dict[str, Any]


class ExportFormat(NamedTuple):
    """A format of training data."""

    rows_of_example: Callable[[ChatExample], Iterator[Row]]
    rows_of_pair: Callable[[ChatPair], Iterator[Row]]
    write: Callable[[Iterable[Row], Path], None]


def _write_lines(rows: Iterable[Row], path: Path) -> None:
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for row in rows:
            file.write(encoder.encode(row) + b"\n")


FORMATS: dict[str, ExportFormat] = {
    "openai": ExportFormat(openai.rows_of_example, openai.rows_of_pair, _write_lines),
    "trl": ExportFormat(trl.rows_of_example, trl.rows_of_pair, _write_lines),
    "sharegpt": ExportFormat(sharegpt.rows_of_example, sharegpt.rows_of_pair, _write_lines),
    "parquet": ExportFormat(parquet.rows_of_example, parquet.rows_of_pair, parquet.write),
}
"""Format by name."""


def write_examples(
    examples: Iterable[ChatExample], path: Path, format: str, left_out: Counter[str]
) -> int:
    """Write conversations; see `write_pairs`."""
    writer = _format(format)
    return _write(examples, path, writer.rows_of_example, fault_of_example, writer.write, left_out)


def write_pairs(pairs: Iterable[ChatPair], path: Path, format: str, left_out: Counter[str]) -> int:
    """Write pairs.

    Args:
        pairs: The pairs.
        path: The file; an existing one is replaced once the new one is complete. Without rows
            there is no file.
        format: A name in `FORMATS`.
        left_out: Counts what cannot be written, by reason.

    Returns:
        Number of rows.

    Raises:
        InputError: There is no such format or folder.
    """
    writer = _format(format)
    return _write(pairs, path, writer.rows_of_pair, fault_of_pair, writer.write, left_out)


def _format(name: str) -> ExportFormat:
    if name not in FORMATS:
        formats = ", ".join(FORMATS)
        raise InputError(f"There is no training data format {name!r}; there are {formats}.")
    return FORMATS[name]


def _write(
    items: Iterable[Item],
    path: Path,
    rows_of: Callable[[Item], Iterator[Row]],
    fault_of: Callable[[Item], str],
    write: Callable[[Iterable[Row], Path], None],
    left_out: Counter[str],
) -> int:
    count = 0

    def rows() -> Iterator[Row]:
        nonlocal count
        for item in items:
            if fault := fault_of(item):
                left_out[fault] += 1
                continue
            try:
                new_rows = list(rows_of(item))
            except NotTrainable as reason:
                left_out[str(reason)] += 1
                continue
            count += len(new_rows)
            yield from new_rows

    if not path.parent.is_dir():
        raise InputError(f"The folder {path.parent} does not exist.", hint="Create it first.")
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(descriptor)
    unfinished = Path(name)
    try:
        write(rows(), unfinished)
        if count:
            unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return count
