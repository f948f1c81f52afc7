"""A pool of sandboxes with the imports loaded, each of which forks a process for a request."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ratchet.sandbox.inside.landlock import version
from ratchet.sandbox.launch import SandboxProcess, scrubbed_environment, start
from ratchet.sandbox.levels import resolve_level
from ratchet.sandbox.limits import Level, SandboxFailed, SandboxLimits, SandboxResult
from ratchet.sandbox.relay import RelayAddress, addresses
from ratchet.sandbox.view import file_view
from ratchet.sandbox.worker import SandboxWorker


class SandboxPool:
    """Runs a handler on requests, each in a process of its own inside a sandbox.

    The handler's module is imported once in each sandbox, and its `prepare(setup: bytes)`, if it
    has one, is called once. A request forks that process and calls `handler(state, body: bytes)`,
    which returns bytes, with what `prepare` returned. Processes that `prepare` leaves behind are
    ended; what a request changes, no other request sees.

    Args:
        handler: `module:function`.
        setup: Handed to `prepare`.
        path: Folders to import from, before those of this interpreter.
        root: The folder of the project, which may be read, but for what holds secrets by its name.
        read: More folders and files that may be read.
        hide: Folders and files that must not be read, wherever they lie.
        limits: For each request that brings no others. The scratch folder of bubblewrap has this
            size for all.
        slots: How many requests run at a time.
        level: `auto` for the strongest that this machine can make.
        unsafe: Run with limits alone where there is no sandbox.
        environment: Variables beside the few that are passed on.
        bare: Import from `path` and the standard library only.
        start_seconds: How long the imports and `prepare` may take.
        connect: Hosts and ports that requests may reach; nothing else can be. With Landlock only
            those of this machine can, and their ports then are open on every host.
        landlock: The newest version of Landlock to use, to try what an older kernel would do.

    Raises:
        SandboxUnavailable: No sandbox can be made here.
        SandboxFailed: It cannot show or reach what it should.
    """

    def __init__(
        self,
        handler: str,
        *,
        setup: bytes = b"",
        path: Sequence[str | Path] = (),
        root: Path | None = None,
        read: Iterable[str | Path] = (),
        hide: Iterable[str | Path] = (),
        limits: SandboxLimits | None = None,
        slots: int = 2,
        level: Level | str = "auto",
        unsafe: bool = False,
        environment: Mapping[str, str] | None = None,
        bare: bool = False,
        start_seconds: float = 60.0,
        connect: Sequence[tuple[str, int]] = (),
        landlock: int = 99,
    ) -> None:
        self.level: Level = resolve_level(level, unsafe=unsafe)
        self._reached = addresses(connect, self.level, min(landlock, version()))
        self.limits = limits or SandboxLimits()
        self._handler = handler
        self._setup = setup
        self._path = [os.path.abspath(each) for each in path]
        if not bare:
            self._path += [each for each in sys.path if each and os.path.exists(each)]
        if self._reached and self.level == "landlock":
            read = [*read, "/etc/hosts", "/etc/nsswitch.conf"]
        self._view = file_view(path=self._path, root=root, read=read, hide=hide)
        self._environment = scrubbed_environment(environment)
        self._slots = slots
        self._start_seconds = start_seconds
        self._landlock = landlock
        self._free: asyncio.Queue[SandboxWorker] = asyncio.Queue()
        self._workers: list[SandboxWorker] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = True

    async def __aenter__(self) -> Self:
        """Start the sandboxes.

        Raises:
            SandboxFailed: One does not start, or its imports or `prepare` fail.
        """
        self._workers = [
            SandboxWorker(self._start, start_seconds=self._start_seconds, reached=self._relayed())
            for _ in range(self._slots)
        ]
        self._closed = False
        opened = await asyncio.gather(*(s.open() for s in self._workers), return_exceptions=True)
        if failed := [error for error in opened if error is not None]:
            await self._close()
            raise failed[0]
        for worker in self._workers:
            self._free.put_nowait(worker)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the sandboxes, and requests that still run."""
        await self._close()

    async def request(self, body: bytes, limits: SandboxLimits | None = None) -> SandboxResult:
        """Run the handler once, as soon as a sandbox is free.

        A cancelled request ends the process that ran it.

        Args:
            body: What the handler gets.
            limits: For this request.
        """
        if self._closed:
            raise SandboxFailed("This sandbox is closed.", hint="Use it inside `async with`.")
        worker = await self._free.get()
        stop = asyncio.Event()
        work = asyncio.create_task(self._ask(worker, body, limits or self.limits, stop))
        self._tasks.add(work)
        work.add_done_callback(lambda done: self._release(worker, done))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            stop.set()
            raise

    async def _ask(
        self, worker: SandboxWorker, body: bytes, limits: SandboxLimits, stop: asyncio.Event
    ) -> SandboxResult:
        try:
            return await worker.request(body, limits, stop)
        except SandboxFailed as error:
            return SandboxResult(status="refused", error=str(error))

    def _release(self, worker: SandboxWorker, done: asyncio.Task[SandboxResult]) -> None:
        self._tasks.discard(done)
        if not done.cancelled():
            done.exception()  # it was raised where the request was awaited
        if worker.alive or self._closed:
            self._free.put_nowait(worker)
            return
        # The next request should not wait for the imports.
        again = asyncio.create_task(self._reopen(worker))
        self._tasks.add(again)
        again.add_done_callback(self._tasks.discard)

    async def _reopen(self, worker: SandboxWorker) -> None:
        try:
            await worker.open()
        except SandboxFailed:
            pass  # the next request tries again, and tells
        finally:
            self._free.put_nowait(worker)

    async def _close(self) -> None:
        self._closed = True
        running = [task for task in self._tasks if not task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.gather(*(worker.close() for worker in self._workers))

    def _start(self) -> SandboxProcess:
        config = {
            "mode": "serve",
            "handler": self._handler,
            "setup": self._setup,
            "path": self._path,
            "landlock": self._landlock,
            "listen": [(each.inside, each.port) for each in self._relayed()],
            "ports": [each.port for each in self._reached],
            "start_data": 4 * self.limits.memory_bytes + 1024**3,
        }
        return start(
            config,
            level=self.level,
            view=self._view,
            scratch_bytes=self.limits.scratch_bytes,
            environ=self._environment,
            network="relay" if self._reached else "none",
            reached=self._relayed(),
        )

    def _relayed(self) -> list[RelayAddress]:
        """The addresses that are relayed; elsewhere than in a network of its own none has to be."""
        return self._reached if self.level == "bubblewrap" else []
