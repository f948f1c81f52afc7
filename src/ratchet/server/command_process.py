"""Commands that import the agent's code, each in its own process.

A server lives long: in its own process the agent's modules would stay as they were first imported,
and what the agent prints or breaks would be the server's. Such a process can also be stopped. What
the command tells comes on a descriptor of its own (`_command_answer.py`): what the agent prints is
kept apart and is never taken for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from ratchet._command_answer import VARIABLE, CommandAnswer
from ratchet.types import RatchetError

STOP_TIMEOUT_S = 20.0
"""Time for a command to save its work after an interrupt, in seconds."""

QUIET_S = 5.0
"""After this many seconds without news, the last message is repeated with the elapsed time."""

PRINTED = 4_000
"""How many of the newest characters of output are kept."""

_CHUNK = 1 << 16
_DRAIN_S = 1.0
"""Seconds to read output from before the end: what the agent left behind may print for ever."""

OnLine = Callable[[int, str], Awaitable[None]]
"""Called with the number and the text of a line of progress."""


class CommandProcess:
    """A running command that reports JSON.

    Args:
        folder: Where it runs.
        arguments: Of `ratchet`, with `--json`.
        environ: Its environment; by default that of this process.
    """

    def __init__(
        self,
        folder: Path,
        arguments: list[str],
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder
        self._arguments = arguments
        self._environ = environ
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._printed = bytearray()
        self.told = CommandAnswer()
        """What the command has reported so far."""

    @property
    def running(self) -> bool:
        """Whether the command has not ended yet."""
        return self._reading is not None and not self._reading.done()

    @property
    def printed(self) -> str:
        """The end of what the agent's code printed."""
        return self._printed.decode(errors="replace")[-PRINTED:].strip()

    async def start(self) -> None:
        """Start it."""
        # Pipes of our own: asyncio waits for those that it makes, which a process that the agent
        # leaves behind keeps open.
        answer_pipe, tells = os.pipe()
        printed, prints = os.pipe()
        try:
            environ = os.environ if self._environ is None else self._environ
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # the folder's own modules are none of Ratchet's
                "-m",
                "ratchet",
                *self._arguments,
                cwd=self._folder,
                env={**environ, VARIABLE: str(tells)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=prints,
                stderr=prints,
                start_new_session=True,
                pass_fds=(tells,),
            )
        except BaseException:
            os.close(answer_pipe)
            os.close(printed)
            raise
        finally:
            os.close(tells)
            os.close(prints)
        self._reading = asyncio.create_task(self._read(answer_pipe, printed))

    async def wait(self, seconds: float | None = None, on_line: OnLine | None = None) -> bool:
        """Wait for its end.

        Args:
            seconds: At most; None for as long as it takes.
            on_line: Told the newest line of progress when it is new, and again after a silence.

        Returns:
            Whether it has ended.
        """
        assert self._reading is not None
        return await wait_for_end(
            self.told, lambda: self.running, seconds, on_line, ended=self._reading
        )

    def result(self) -> tuple[Any, str]:
        """Its answer, and its error; empty if there was none.

        Raises:
            RatchetError: It gave no answer.
        """
        if self.told.answered:
            return self.told.answer, self.told.problem
        raise RatchetError(self.told.problem or self.ended)

    @property
    def ended(self) -> str:
        """How a command that reported nothing ended."""
        assert self._process is not None
        return f"The command ended with code {self._process.returncode} without an answer."

    async def stop(self) -> None:
        """Interrupt it, and wait until it has saved its work."""
        if self._process is None or self._reading is None or not self.running:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        await asyncio.wait([self._reading], timeout=STOP_TIMEOUT_S)
        # Itself, if it does not end; or what it started and left in its group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await asyncio.wait([self._reading])

    async def _read(self, answer_pipe: int, printed: int) -> None:
        assert self._process is not None
        reads = [
            asyncio.create_task(_read_pipe(answer_pipe, self.told.feed)),
            asyncio.create_task(_read_pipe(printed, self._print)),
        ]
        await self._process.wait()
        _, late = await asyncio.wait(reads, timeout=_DRAIN_S)
        for read in late:
            read.cancel()

    def _print(self, data: bytes) -> None:
        self._printed += data
        del self._printed[: -4 * PRINTED]


async def _read_pipe(descriptor: int, take: Callable[[bytes], None]) -> None:
    stream = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(descriptor, "rb", 0)
    )
    try:
        while data := await stream.read(_CHUNK):
            take(data)
    finally:
        pipe.close()


async def wait_for_end(
    answer: CommandAnswer,
    running: Callable[[], bool],
    seconds: float | None,
    on_line: OnLine | None,
    *,
    ended: asyncio.Future[None] | None = None,
    refresh: Callable[[], None] = lambda: None,
) -> bool:
    """Wait for the command's end, and pass its progress on.

    Args:
        answer: What the command reports.
        running: Whether it is still running.
        seconds: At most; None for as long as it takes.
        on_line: Told the newest line of progress when it is new, and again after a silence.
        ended: Done when it has ended, to wait no longer than that.
        refresh: Reads what is new into `answer`.

    Returns:
        Whether it has ended.
    """
    loop = asyncio.get_running_loop()
    begun = said_at = loop.time()
    end = None if seconds is None else begun + seconds
    reported = number = 0
    while True:
        refresh()
        now = loop.time()
        if on_line is not None and (answer.count > reported or now - said_at >= QUIET_S):
            number = max(number + 1, answer.count)
            newest = answer.lines[-1] if answer.lines else "The command is running"
            waited = "" if answer.count > reported else f" ({now - begun:.0f} s)"
            reported, said_at = answer.count, now
            await on_line(number, newest + waited)
        if not running():
            return True
        left = 0.2 if end is None else min(0.2, end - now)
        if left <= 0:
            return False
        if ended is None:
            await asyncio.sleep(left)
        else:
            await asyncio.wait([ended], timeout=left)
