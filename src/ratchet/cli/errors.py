"""Print errors to standard error: a sentence, and what to do next."""

from __future__ import annotations

from typing import IO, cast

from rich.console import Console

from ratchet._command_answer import teller_of_environment

TELLER = teller_of_environment()
"""Channel to the program that started this command; None if a person did. Opened before
any code of the project is imported."""

err = (
    Console(stderr=True, highlight=False)
    if TELLER is None
    else Console(file=cast(IO[str], TELLER), highlight=False, width=10_000, color_system=None)
)


def fail(message: str, hint: str | None = None, code: int = 1) -> None:
    """Print an error and a hint; a program also gets the exit code."""
    if TELLER is not None:
        TELLER.error(message, hint, code)
        return
    err.print("[bold red]error:[/] ", end="")
    err.print(message, markup=False, soft_wrap=True)
    if hint:
        err.print(hint, style="dim", markup=False, soft_wrap=True)
