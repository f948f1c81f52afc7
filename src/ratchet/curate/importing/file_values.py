"""Iterates over the values of a file, whatever its container format.

JSON Lines, a JSON list of any size, one JSON object (possibly wrapping a list), or CSV with a
header. One value at a time is in memory. A broken value is reported with its line, and reading
continues after it.
"""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ratchet.curate.csv_rows import CsvRows
from ratchet.curate.json_text import JsonReader
from ratchet.curate.text_file import Broken, is_undecoded, open_text
from ratchet.types import InputError

MAX_VALUE_LENGTH = 64 * 1024 * 1024
"""Maximum length of a line in bytes, or of a value in a list in characters."""

_PIECE = 1024 * 1024
WRAPPERS = (
    "resourceSpans",
    "data",
    "traces",
    "spans",
    "observations",
    "conversations",
)
"""Keys of objects that only wrap a list."""

_KEPT_WRAPPED = ("resourceSpans",)
"""Wrapper keys that the items' readers need."""

NOT_TEXT = "it contains bytes that are not text in the file's encoding"

_OPENS = re.compile(r'\s*\{\s*"(' + "|".join(WRAPPERS) + r')"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")


class FileValue(NamedTuple):
    """One value of a file."""

    line: int
    """Line where it begins, from 1; in a list on a single line, its position."""
    end: int
    """Approximate bytes of the file read after this value."""
    value: Any = None
    error: str = ""
    """Why there is no value."""
    not_finite: bool = False
    """Whether it holds NaN or infinity, as floats. They are common, and not JSON."""


def _say_nothing(_: str) -> None:
    """Report nothing."""


def read_values(
    path: Path, skip: int = 0, say: Callable[[str], None] = _say_nothing
) -> Iterator[FileValue]:
    """Iterate over the values of a file.

    Args:
        path: The file.
        skip: Number of values to skip, including broken ones.
        say: Takes a sentence on how the file is read, where that is not as usual.

    Raises:
        InputError: The file cannot be read.
    """
    name = Path(path.stem) if path.suffix.lower() == ".gz" else path
    end = 0
    try:
        with open_text(path) as text:
            if text.encoding.note:
                say(text.encoding.note)
            head, file = text.head, text.stream
            if _is_csv(name):
                units = _rows(file, "\t" if name.suffix.lower() == ".tsv" else ",", say)
            elif _is_lines(head):
                units, skip = _lines(file, skip), 0  # skips lines without parsing them
            else:
                units = _documents(file)
            for unit in itertools.islice(units, skip, None):
                end = unit.end
                yield unit
    except Broken as error:
        yield FileValue(0, end, error=str(error))
    except OSError as error:
        raise InputError(f"The file {path} cannot be read: {error.strerror or error}.") from None


def unwrapped(value: Any) -> list[Any]:
    """Items of the lists in a wrapper object."""
    if not isinstance(value, Mapping):
        return []
    return [
        record
        for key in WRAPPERS
        if isinstance(value.get(key), list)
        for record in value[key]
        if isinstance(record, Mapping)
    ]


def rows_of(value: Any) -> list[Any]:
    """Rows of a data frame serialised by column; empty when it is not one."""
    if not isinstance(value, Mapping) or len(value) < 2:
        return []
    columns = list(value.values())
    if not all(isinstance(column, Mapping) for column in columns):
        return []
    rows = columns[0].keys()
    if not rows or not all(row.isdigit() for row in rows):
        return []
    if any(column.keys() != rows for column in columns):
        return []
    return [{name: column[row] for name, column in value.items()} for row in rows]


def _is_csv(path: Path) -> bool:
    return path.suffix.lower() in (".csv", ".tsv")


def _is_lines(head: bytes) -> bool:
    """Whether each line is a separate value."""
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    first, newline, tail = head.partition(b"\n")
    first = first.strip()
    if not first or first in (b"[", b"{"):
        return False
    if _value(first) is not None:
        # A single line with a list is a list, not JSON Lines; otherwise the line is the first of
        # many.
        return bool(tail.strip()) or not first.startswith(
            (b"[", b'{"resource', b'{"data', b'{"trac')
        )
    if not newline or first.startswith(b"["):
        return False
    # Broken, or the beginning of a multi-line value.
    return first.startswith(b"{") != first.endswith((b",", b"{", b"[", b":")) or any(
        _value(line.strip()) is not None and line.strip().startswith((b"{", b"["))
        for line in tail.split(b"\n")[:20]
    )


def _value(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _lines(file: BinaryIO, skip: int) -> Iterator[FileValue]:
    end = count = 0
    reader = JsonReader(float)
    for number in itertools.count(1):
        line = file.readline(MAX_VALUE_LENGTH + 1)
        if not line:
            return
        end += len(line)
        if len(line) > MAX_VALUE_LENGTH:
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_VALUE_LENGTH)
                end += len(line)
            count += 1
            if count > skip:
                yield FileValue(
                    number, end, error=f"the line is longer than {MAX_VALUE_LENGTH} bytes"
                )
            continue
        line = line.strip()
        if line:
            count += 1
            if count > skip:
                yield _parsed(reader, number, end, line)


def _parsed(reader: JsonReader, number: int, end: int, line: bytes) -> FileValue:
    try:
        value = reader.parse(line.decode("utf-8"))
        return FileValue(number, end, value, not_finite=reader.constants > 0)
    except UnicodeDecodeError as error:
        return FileValue(number, end, error=f"byte {error.start + 1} of the line is not UTF-8")
    except RecursionError:
        return FileValue(number, end, error="nested too deeply")
    except ValueError as error:
        return FileValue(number, end, error=str(error))


class _Text:
    """Buffered text of a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = io.TextIOWrapper(file, "utf-8", errors="surrogateescape", newline="\n")
        self.text = ""
        self.at = 0
        self.line = 1
        self.ended = False
        self.passed = 0

    def more(self) -> bool:
        """Read more; False at the end."""
        piece = self._file.read(max(_PIECE, len(self.text) - self.at))
        self.text = self.text[self.at :] + piece
        self.at = 0
        self.ended = not piece
        return not self.ended

    def skip(self, to: int) -> None:
        """Advance to a position."""
        self.line += self.text.count("\n", self.at, to)
        self.passed += to - self.at
        self.at = to

    def skip_blank(self) -> None:
        """Advance past white space."""
        while True:
            between = _BETWEEN.match(self.text, self.at)
            assert between is not None
            self.skip(between.end())
            if self.at < len(self.text) or not self.more():
                return


def _documents(file: BinaryIO) -> Iterator[FileValue]:
    source = _Text(file)
    source.more()
    reader = JsonReader(float)
    source.skip_blank()
    while source.at < len(source.text):
        yield from _document(source, reader)
        source.skip_blank()


def _document(source: _Text, reader: JsonReader) -> Iterator[FileValue]:
    """Values of one of the concatenated documents in a file."""
    wrap: Callable[[Any], Any] = _as_it_is
    closing = ""
    opened = _OPENS.match(source.text, source.at)
    if opened is not None:
        source.skip(opened.end())
        key, closing = opened[1], "]"
        if key in _KEPT_WRAPPED:
            wrap = lambda value: {key: [value]}  # noqa: E731 - what it closes over is here
    elif source.text.startswith("[", source.at):
        source.skip(source.at + 1)
        closing = "]"
    if not closing:
        yield _next(source, reader, wrap)
        return
    first = True
    while True:
        source.skip_blank()
        if source.at >= len(source.text):
            yield FileValue(source.line, source.passed, error="the file ends within its list")
            return
        if source.text[source.at] == closing:
            source.skip(source.at + 1)
            if opened is not None:
                yield from _behind(source, reader)
            return
        unit = _next(source, reader, wrap)
        if first and _is_message(unit.value):
            yield _conversation(unit, source, reader)
            source.skip_blank()
            if source.text.startswith("]", source.at):
                source.skip(source.at + 1)
            return
        first = False
        yield unit


def _behind(source: _Text, reader: JsonReader) -> Iterator[FileValue]:
    """Values after the list in a wrapper object: further lists only."""
    while True:
        source.skip_blank()
        if source.text.startswith("}", source.at):
            source.skip(source.at + 1)
            return
        if not source.text.startswith('"', source.at):
            return
        name = _next(source, reader, _as_it_is)
        source.skip_blank()
        if name.error or not source.text.startswith(":", source.at):
            yield FileValue(name.line, name.end, error=name.error or "not JSON: a colon is missing")
            return
        source.skip(source.at + 1)
        source.skip_blank()
        value = _next(source, reader, _as_it_is)
        if value.error:
            yield value
        elif name.value in WRAPPERS and isinstance(value.value, list):
            yield FileValue(value.line, value.end, {name.value: value.value})


def _is_message(value: Any) -> bool:
    """Whether a list item is a message of a conversation rather than a separate value."""
    return isinstance(value, dict) and "role" in value and "messages" not in value


def _conversation(unit: FileValue, source: _Text, reader: JsonReader) -> FileValue:
    """Combine the messages of a list into one value; broken ones are omitted."""
    messages = [unit.value]
    end = unit.end
    while end - unit.end < MAX_VALUE_LENGTH:
        source.skip_blank()
        if source.at >= len(source.text) or source.text[source.at] == "]":
            break
        following = _next(source, reader, _as_it_is)
        end = following.end
        if not following.error:
            messages.append(following.value)
    return FileValue(unit.line, end, messages)


def _as_it_is(value: Any) -> Any:
    return value


def _next(source: _Text, reader: JsonReader, wrap: Callable[[Any], Any]) -> FileValue:
    line = source.line
    while True:
        try:
            value, end = reader.parse_at(source.text, source.at)
        except RecursionError:
            _resume(source)
            return FileValue(line, source.passed, error="nested too deeply")
        except json.JSONDecodeError as error:
            length = len(source.text) - source.at
            # An error at the end of the buffer may only mean that more must be read.
            unfinished = error.msg.startswith("Unterminated") or error.pos > len(source.text) - 64
            if unfinished and not source.ended and length < MAX_VALUE_LENGTH and source.more():
                continue
            why = (
                "longer than " + str(MAX_VALUE_LENGTH)
                if length >= MAX_VALUE_LENGTH
                else f"not JSON: {error.msg}"
            )
            where = source.line + source.text.count("\n", source.at, error.pos)
            _resume(source)
            return FileValue(line, source.passed, error=f"{why}, at line {where}")
        except ValueError as error:
            _resume(source)
            return FileValue(line, source.passed, error=f"not JSON: {error}")
        if end == len(source.text) and not source.ended and source.more():
            continue  # a number may continue
        fault = _fault(source, reader, end)
        source.skip(end)
        if fault:
            return FileValue(line, source.passed, error=fault)
        return FileValue(line, source.passed, wrap(value), not_finite=reader.constants > 0)


def _fault(source: _Text, reader: JsonReader, end: int) -> str:
    """The problem with a value that is valid JSON; empty if there is none."""
    try:
        reader.check(source.text, source.at)
    except ValueError as error:
        return str(error)
    text = source.text[source.at : end]
    return NOT_TEXT if is_undecoded(text) else ""


_BEGINS = re.compile(r"\n\s{0,8}(?:,\s{0,8})?(?=[\[{])|\n(?=\])")


def _resume(source: _Text) -> None:
    """Continue at the next line that may begin a value."""
    start = source.at + 1
    while True:
        match = _BEGINS.search(source.text, start)
        if match is not None:
            source.skip(match.end())
            return
        source.skip(max(len(source.text) - 32, source.at))
        if not source.more():
            source.skip(len(source.text))
            return
        start = source.at


def _rows(file: BinaryIO, usual: str, say: Callable[[str], None]) -> Iterator[FileValue]:
    end = 0

    def lines() -> Iterator[str]:
        nonlocal end
        for line in io.TextIOWrapper(file, "utf-8", errors="surrogateescape", newline=""):
            end += len(line)
            yield line

    rows = CsvRows(lines(), usual, MAX_VALUE_LENGTH)
    if rows.note:
        say(rows.note)
    for row in rows:
        error = row.error
        if any(is_undecoded(cell) for cell in row.cells.values()):
            error = NOT_TEXT
        cells = {name: cell for name, cell in row.cells.items() if cell != ""}
        yield FileValue(row.line, end, None if error else cells, error)
