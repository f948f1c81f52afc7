"""Rows of CSV with a header, each with its line number; a broken row does not end the file.

Rows are read strictly: what would be altered in reading is refused with its place.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ratchet.types.wording import counted

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""Characters that separate columns, with their names."""

_HEAD = 64 * 1024
"""Number of characters examined to find the delimiter."""

_ROWS = 50
"""Number of rows examined to find the delimiter."""

_STATED = re.compile(r"\s*sep=(.)\s*\Z", re.IGNORECASE)


class CsvRow(NamedTuple):
    """A row."""

    line: int
    """Line where the row begins, from 1."""
    cells: dict[str, str] = {}
    error: str = ""
    """Why there are no cells."""


class CsvRows:
    """The rows of a text with a header; empty rows are left out.

    A column without a name is named by its place: `column 4`. Two columns of one name are refused.

    Args:
        lines: Lines with their ends, as `open(…, newline="")` has them.
        usual: The delimiter where the text does not tell.
        longest: Maximum length of a cell, in characters.
    """

    def __init__(self, lines: Iterable[str], usual: str, longest: int) -> None:
        source = iter(lines)
        head: list[str] = []
        size = 0
        for line in source:
            head.append(line)
            size += len(line)
            if size >= _HEAD:
                break
        self._skipped = 0
        stated = _STATED.match(head[0]) if head else None
        if stated:  # a line of Excel
            self.delimiter = stated[1]
            self._skipped = 1
            del head[0]
        else:
            self.delimiter = _delimiter(head, usual)
        self.note = ""
        """A sentence for the user, if the delimiter is not a comma."""
        if self.delimiter != usual:
            name = DELIMITERS.get(self.delimiter, repr(self.delimiter))
            self.note = f"Its columns are separated by {name}."
        self._longest = longest
        self._lines = _Remembered(itertools.chain(head, source))

    def __iter__(self) -> Iterator[CsvRow]:
        limit = csv.field_size_limit(self._longest)
        try:
            yield from self._rows()
        finally:
            csv.field_size_limit(limit)

    def _rows(self) -> Iterator[CsvRow]:
        reader = csv.reader(self._lines, delimiter=self.delimiter, strict=True)
        header: list[str] | None = None
        while True:
            line = self._skipped + reader.line_num + 1
            self._lines.begin()
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield CsvRow(line, error=self._why(line, error))
                if header is None:
                    return
                continue
            if not any(row):
                continue
            if header is None:
                header = _names(row)
                if twice := [name for name, count in Counter(header).items() if count > 1]:
                    places = [str(at) for at, name in enumerate(header, 1) if name == twice[0]]
                    why = f"the columns {' and '.join(places)} are both named {twice[0]!r}"
                    yield CsvRow(line, error=why)
                    return
            elif len(row) != len(header):
                names = DELIMITERS.get(self.delimiter, repr(self.delimiter))
                yield CsvRow(
                    line,
                    error=f"the row has {counted(len(row), 'cell')}, but the header has"
                    f" {len(header)} (separated by {names})",
                )
            else:
                yield CsvRow(line, dict(zip(header, row, strict=True)))

    def _why(self, line: int, error: csv.Error) -> str:
        """The error in the last row read."""
        if "field limit" in str(error):
            return f"a cell has more than {self._longest} characters, or a quote is never closed"
        fault = _quote_fault(self._lines.seen, self.delimiter)
        if fault is None:
            return f"not CSV: {error}"
        number, column, why = fault
        where = f"column {column}" if number == 0 else f"line {line + number}, column {column}"
        return f"not CSV: at {where} {why}"


class _Remembered:
    """Iterates over lines, and remembers those of the current row."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.seen: list[str] = []

    def begin(self) -> None:
        """A row begins."""
        self.seen.clear()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.seen.append(line)
        return line


def _names(row: list[str]) -> list[str]:
    return [name.strip() or f"column {place}" for place, name in enumerate(row, 1)]


def _delimiter(head: list[str], usual: str) -> str:
    """The delimiter that gives the header several columns, and most rows the same number."""

    def fits(delimiter: str) -> tuple[float, bool, int]:
        counts: list[int] = []
        reader = csv.reader(head, delimiter=delimiter)
        while len(counts) < _ROWS:
            try:
                row = next(reader)
            except StopIteration:
                break
            except csv.Error:
                continue
            if any(row):
                counts.append(len(row))
        if not counts or counts[0] < 2:
            return (0.0, delimiter == usual, 0)
        agreeing = sum(count == counts[0] for count in counts) / len(counts)
        return (agreeing, delimiter == usual, counts[0])

    return max(dict.fromkeys((usual, *DELIMITERS)), key=fits)


def _quote_fault(lines: list[str], delimiter: str) -> tuple[int, int, str] | None:
    """Place and reason of wrong quotes in a row's lines: line from 0, column from 1."""
    quoted, at_start = False, True
    opened = (0, 0)
    for number, line in enumerate(lines):
        at = 0
        while at < len(line):
            sign = line[at]
            if quoted and sign == '"':
                after = line[at + 1 : at + 2]
                if after == '"':
                    at += 1
                elif after in ("", delimiter, "\r", "\n"):
                    quoted = False
                elif line[at - 1 : at] == "\\":
                    return number, at, 'a quote is written as \\"; CSV doubles it: ""'
                else:
                    return number, at + 2, 'text follows a closing quote; a quote in a cell is ""'
            elif at_start and sign == '"':
                quoted, opened = True, (number, at + 1)
            at_start = not quoted and sign == delimiter
            at += 1
    if quoted:
        return *opened, "a quote is opened but never closed"
    return None
