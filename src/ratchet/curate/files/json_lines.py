"""Datasets as JSON Lines, and as one JSON list."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ratchet.curate.importing import read_values
from ratchet.curate.task_file import MAX_LINE_BYTES, json_of
from ratchet.types import InputError

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def write(records: Iterable[dict[str, Any]], path: Path) -> None:
    """Write one record per line."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for record in records:
            file.write(_text(record) + "\n")


def read(path: Path) -> Iterator[tuple[int, Any, str]]:
    """Read one record per line; blank lines are skipped."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if number == 1 and line.startswith(_UTF_16):
                raise InputError(
                    f"The file {path} is encoded in UTF-16.",
                    hint="Convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > OTHER.",
                )
            if len(line) > MAX_LINE_BYTES:
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE_BYTES)
                yield number, None, f"the line has more than {MAX_LINE_BYTES} bytes"
                continue
            stripped = line.removeprefix(b"\xef\xbb\xbf").strip()
            if not stripped:
                continue
            try:
                yield number, json_of(stripped), ""
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


def read_list(path: Path) -> Iterator[tuple[int, Any, str]]:
    """Read a JSON list of any size, or one object."""
    for found in read_values(path):
        yield found.line, found.value, found.error


def _text(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, allow_nan=False)
