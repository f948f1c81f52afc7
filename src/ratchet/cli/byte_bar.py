"""A progress bar for bytes that are read or fetched."""

from __future__ import annotations

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from ratchet.cli.errors import err


def byte_bar() -> Progress:
    """A bar on standard error that vanishes at the end; each task's total is in bytes."""
    return Progress(
        TextColumn("  {task.description}"),
        BarColumn(bar_width=28),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )
