"""Console output: text for people, JSON for machines, errors on standard error."""

from __future__ import annotations

import contextlib
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

from ratchet._command_answer import INTERRUPTED
from ratchet.autopilot import Project
from ratchet.cli.errors import TELLER
from ratchet.cli.project_server import project_server
from ratchet.types import RatchetError, dollars_text

Result = TypeVar("Result")


_PIPE_WIDTH = 240
"""Columns that a table may take if the output is not a terminal."""


class _Output(Console):
    """Prints sentences without line breaks, so that a command in one can be copied whole."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As `Console.print`."""
        is_table = any(isinstance(part, Table) for part in objects)
        if is_table and not self.is_terminal:
            options.setdefault("width", max(self.width, _PIPE_WIDTH))
        options.setdefault("soft_wrap", not is_table)
        super().print(*objects, **options)


out = _Output(highlight=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text.")]
Folder = Annotated[
    Path,
    typer.Option(
        "--project",
        "-C",
        help="The project's folder or one inside it; by default the current folder.",
    ),
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip malformed lines of the task file.")]

DatasetOption = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="NAME[@VERSION]",
        help="Use the tasks of this dataset instead of the task file.",
    ),
]


def project_in(folder: Path) -> Project:
    """The project that a folder belongs to."""
    return Project.find(folder, project_server)


def print_json(value: Any) -> None:
    """Print a JSON object on one line, or pass it to the program that started this command."""
    plain = msgspec.to_builtins(value, str_keys=True)
    if TELLER is not None:
        TELLER.answer(plain)
        return
    sys.stdout.write(json.dumps(plain, ensure_ascii=False, allow_nan=False) + "\n")


class Interrupted(RatchetError):
    """Raised when the user pressed Ctrl-C."""

    exit_code = INTERRUPTED


def wait_for(
    work: Coroutine[Any, Any, Result], *, quiet: bool = False, paid_by: Project | None = None
) -> Result:
    """Run a coroutine to its end.

    Args:
        work: The coroutine.
        paid_by: The project whose budget pays for the model calls of the command.
        quiet: Keep standard output for JSON: what evaluators and agents print in this process goes
            to standard error.

    Raises:
        BudgetExhausted: The budget does not cover the model calls.
        Interrupted: On Ctrl-C, after running work has been stopped and returned to the queue.
    """
    try:
        import asyncio

        from ratchet.autopilot.run_spending import command_account
        from ratchet.llm import ACCOUNT, paid_from

        account = ACCOUNT.get() if paid_by is None else command_account(paid_by)
        with (
            paid_from(account),
            contextlib.redirect_stdout(sys.stderr) if quiet else contextlib.nullcontext(),
        ):
            return asyncio.run(work)
    except KeyboardInterrupt:
        raise Interrupted(
            "Interrupted. Finished work is saved; run the same command again to continue."
        ) from None


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table in Ratchet's style; columns named in `right` are right-aligned."""
    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        grid.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return grid


def display_path(path: str | Path) -> str:
    """A path, relative to the current folder if that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)


def short(identity: str) -> str:
    """The first digits of an id, enough to identify the object."""
    return identity[:8]


def number(value: float | None, digits: int = 3) -> str:
    """Format a number; a dash for None."""
    return "-" if value is None else f"{value:.{digits}f}"


_CONTROL = dict.fromkeys((*range(32), 127, *range(128, 160)), "\ufffd") | {9: "\t", 10: "\n"}


def printable(text: str) -> str:
    """Strip control characters that could drive a terminal; tabs and newlines stay."""
    return text if text.isprintable() else text.translate(_CONTROL)


def one_line(value: Any, width: int = 72) -> str:
    """A value as one line of text."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(printable(text).split())
    return text if len(text) <= width else text[: width - 1] + "…"


def format_time(ns: int) -> str:
    """Format a time as local time."""
    try:
        return f"{datetime.fromtimestamp(ns / 1e9).astimezone():%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"{ns} ns"


def format_recent_time(ns: int, now: float) -> str:
    """Format a time as short as possible: without the date if it is today."""
    full = format_time(ns)
    today = format_time(int(now * 1e9))
    if full[:10] == today[:10]:
        return full[11:]
    return full[5:16] if full[:4] == today[:4] else full[:10]


def format_duration(seconds: float) -> str:
    """Format a duration."""
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
    """Format a cost in dollars; empty for None."""
    return "" if cost is None else dollars_text(cost)


def format_count(number: int) -> str:
    """Format a large number."""
    if number < 10_000:
        return str(number)
    return f"{number / 1e3:.1f}k" if number < 1_000_000 else f"{number / 1e6:.1f}M"


def format_feedback(value: Any) -> str:
    """Format the worst feedback value of a trace."""
    if value is None:
        return ""
    return {0.0: "down", 1.0: "up"}.get(value, f"{value:.2g}")
