"""Print errors to standard error: a sentence, and what to do next."""

from __future__ import annotations

from rich.console import Console

err = Console(stderr=True, highlight=False)


def fail(message: str, hint: str | None = None) -> None:
    """Print an error and a hint."""
    whole = not err.is_terminal  # in a log or pipe each sentence goes on its own line
    err.print("[bold red]error:[/] ", end="")
    err.print(message, markup=False, soft_wrap=whole)
    if hint:
        err.print(hint, style="dim", markup=False, soft_wrap=whole)
