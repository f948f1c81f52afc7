"""Commands that the tools of `ratchet mcp` run in processes of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from ratchet.server.command_process import CommandProcess


def command_in(folder: Path, arguments: list[str]) -> CommandProcess:
    """A command with `--json`, before it starts."""
    return CommandProcess(folder, [arguments[0], "--json", *arguments[1:]])


async def run_command(
    folder: Path,
    arguments: list[str],
    on_line: Callable[[int, str], Awaitable[None]] | None = None,
) -> tuple[Any, str]:
    """Run a command to its end; it is interrupted if the caller is cancelled.

    Raises:
        RatchetError: It failed without a result.
    """
    process = command_in(folder, arguments)
    await process.start()
    try:
        await process.wait(None, on_line)
    finally:
        with anyio.CancelScope(shield=True):
            await process.stop()
    return process.result()
