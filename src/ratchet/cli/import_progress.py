"""How far `ratchet import` has come: a bar for people, and bookmarks for a run that is killed."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from ratchet.cli.failure import err

BOOKMARKS = "imports.json"
LONG_BYTES = 4 * 1024 * 1024
"""A larger file has a bar."""

PLAIN_EVERY_S = 10.0
"""How often a log that is no terminal hears of progress."""


class Meter:
    """A bar of how much of a file is read; a line now and then where there is no terminal."""

    def __init__(self, file: Path) -> None:
        self._name = file.name
        self._size = file.stat().st_size
        self._bar: Progress | None = None
        self._told = time.monotonic()

    def __enter__(self) -> Meter:
        if self._size > LONG_BYTES and err.is_terminal:
            self._bar = Progress(
                TextColumn("  {task.description}"),
                BarColumn(bar_width=28),
                DownloadColumn(),
                TimeRemainingColumn(),
                console=err,
                transient=True,
            )
            self._task = self._bar.add_task(self._name, total=self._size)
            self._bar.start()
        return self

    def at(self, read: int) -> None:
        """Tell how many bytes are read."""
        if self._bar is not None:
            self._bar.update(self._task, completed=min(read, self._size))
        elif time.monotonic() - self._told > PLAIN_EVERY_S:
            self._told = time.monotonic()
            share = read / self._size if self._size else 1.0
            err.print(f"  {self._name}: {share:.0%} read", markup=False, highlight=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


class Bookmarks:
    """Where in each file a run stands that has not come to its end.

    A bookmark holds for the same file, unchanged, into the same place, and only while what it says
    to be stored is there.

    Args:
        state: The state folder; None keeps none.
        target: Where it is stored.
    """

    def __init__(self, state: Path | None, target: Any) -> None:
        self._path = None if state is None else state / BOOKMARKS
        self._target = target
        self._key = ""

    def begin(self, file: Path, place: str) -> int:
        """How many values of the file are stored already."""
        status = file.stat()
        self._key = f"{file.resolve()} {status.st_size} {status.st_mtime_ns} {place}"
        found = self._read().get(self._key)
        if not isinstance(found, dict):
            return 0
        number, trace = found.get("values"), found.get("trace")
        if not isinstance(number, int) or number < 0 or not isinstance(trace, str) or not trace:
            return 0
        return number if self._target.spans.of_trace(trace) else 0

    def put(self, values: int, trace: str) -> None:
        """Note that so many values are stored, the last of them in that trace."""
        if trace:
            self._write({**self._read(), self._key: {"values": values, "trace": trace}})

    def end(self) -> None:
        """The file is read to its end."""
        known = self._read()
        if known.pop(self._key, None) is not None:
            self._write(known)

    def _read(self) -> dict[str, Any]:
        if self._path is None:
            return {}
        try:
            found = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, known: dict[str, Any]) -> None:
        if self._path is None:
            return
        fresh = self._path.with_suffix(f".{os.getpid()}.tmp")
        # Without a bookmark the next run reads what is stored again, and stores it once.
        with contextlib.suppress(OSError):
            fresh.write_text(json.dumps(known))
            fresh.replace(self._path)
