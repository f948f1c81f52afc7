"""Datasets as JSON Lines, and as one JSON list."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ratchet.curate.importing import read_values
from ratchet.curate.task_file import json_of, lines_of
from ratchet.curate.text_file import open_text


def write(records: Iterable[dict[str, Any]], path: Path) -> None:
    """Write one record per line."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for record in records:
            file.write(_text(record) + "\n")


def read(path: Path, say: Callable[[str], None]) -> Iterator[tuple[int, Any, str]]:
    """Read one record per line; blank lines are skipped."""
    with open_text(path) as text:
        if text.encoding.note:
            say(text.encoding.note)
        for number, line in lines_of(text.stream):
            try:
                yield number, json_of(line), ""
            except ValueError as error:
                yield number, None, str(error)


def write_list(records: Iterable[dict[str, Any]], path: Path) -> None:
    """Write one JSON list."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        between = "["
        for record in records:
            file.write(f"{between}\n{_text(record)}")
            between = ","
        file.write("[]\n" if between == "[" else "\n]\n")


def read_list(path: Path, say: Callable[[str], None]) -> Iterator[tuple[int, Any, str]]:
    """Read a JSON list of any size, or one object."""
    for unit in read_values(path, say=say):
        error = unit.error or ("NaN and Infinity are not JSON" if unit.not_finite else "")
        yield unit.line, unit.value, error


def _text(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, allow_nan=False)
