"""What commands print: text for people, JSON for machines, errors on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Coroutine
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from ratchet.autopilot import Project
from ratchet.types import RatchetError, dollars_text

Result = TypeVar("Result")

out = Console(highlight=False, soft_wrap=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text.")]
Folder = Annotated[
    Path,
    typer.Option("--project", "-C", help="A folder of the project; by default the one you are in."),
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave bad lines of the task file out.")]


def project_in(folder: Path) -> Project:
    """The project that a folder belongs to."""
    return Project.find(folder)


def print_json(value: Any) -> None:
    """One JSON object on one line."""
    plain = msgspec.to_builtins(value, str_keys=True)
    sys.stdout.write(json.dumps(plain, ensure_ascii=False, allow_nan=False) + "\n")


class Interrupted(RatchetError):
    """Ctrl-C."""

    exit_code = 130


def wait_for(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end.

    Raises:
        Interrupted: By Ctrl-C; what runs has been stopped and given back by then.
    """
    try:
        import asyncio

        return asyncio.run(work)
    except KeyboardInterrupt:
        raise Interrupted(
            "Interrupted. What had ended is kept; the same command goes on from there."
        ) from None


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table in the house's style; columns named in `right` hold numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


WIDEST = 240


def print_table(rows: Table) -> None:
    """Print a table; a file or another program has room for all of it."""
    width = out.width
    if not out.is_terminal:
        out.width = max(width, WIDEST)
    try:
        out.print(rows)
    finally:
        out.width = width


def display_path(path: str | Path) -> str:
    """A path as seen from here, when that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)


def short(identity: str) -> str:
    """The first digits of an id, enough to name it."""
    return identity[:8]


def number(value: float | None, digits: int = 3) -> str:
    """A number for people; a dash when there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


_CONTROL = dict.fromkeys((*range(32), 127, *range(128, 160)), "\ufffd") | {9: "\t", 10: "\n"}


def printable(text: str) -> str:
    """A text that cannot drive a terminal, wherever it comes from; tabs and line ends stay."""
    return text if text.isprintable() else text.translate(_CONTROL)


def counted(count: int, thing: str) -> str:
    """A number of things in words, such as `1 span` or `2 spans`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def one_line(value: Any, width: int = 72) -> str:
    """A value on one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(printable(text).split())
    return text if len(text) <= width else text[: width - 1] + "…"


def format_time(ns: int) -> str:
    """A moment for people, in local time."""
    try:
        return f"{datetime.fromtimestamp(ns / 1e9).astimezone():%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"{ns} ns"


def format_recent_time(ns: int, now: float) -> str:
    """A moment for people, as short as it can be: of today the time alone."""
    full = format_time(ns)
    today = format_time(int(now * 1e9))
    if full[:10] == today[:10]:
        return full[11:]
    return full[5:16] if full[:4] == today[:4] else full[:10]


def format_duration(seconds: float) -> str:
    """How long something took, for people."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 120:
        return f"{seconds:.2f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def format_dollars(cost: float | None) -> str:
    """Dollars for people; nothing where they are not known."""
    return "" if cost is None else dollars_text(cost)


def format_count(number: int) -> str:
    """A number for people."""
    if number < 10_000:
        return str(number)
    return f"{number / 1e3:.1f}k" if number < 1_000_000 else f"{number / 1e6:.1f}M"


def format_feedback(value: Any) -> str:
    """A worst value of feedback, for people."""
    if value is None:
        return ""
    return {0.0: "down", 1.0: "up"}.get(value, f"{value:.2g}")
