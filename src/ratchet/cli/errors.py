"""How an error is told: a sentence, and what to do next, on standard error."""

from __future__ import annotations

from rich.console import Console

err = Console(stderr=True, highlight=False)


def fail(message: str, hint: str | None = None) -> None:
    """An error, in a sentence or two."""
    whole = not err.is_terminal  # a log or a pipe wants each sentence on a line of its own
    err.print("[bold red]error:[/] ", end="")
    err.print(message, markup=False, soft_wrap=whole)
    if hint:
        err.print(hint, style="dim", markup=False, soft_wrap=whole)
