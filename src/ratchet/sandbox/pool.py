"""A pool of sandboxes with preloaded imports, which fork a process per request."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ratchet.sandbox.inside.landlock import version
from ratchet.sandbox.interpreter import Interpreter, this_interpreter
from ratchet.sandbox.launch import SandboxProcess, scrubbed_environment, start
from ratchet.sandbox.levels import resolve_level
from ratchet.sandbox.limits import Level, SandboxFailed, SandboxLimits, SandboxResult
from ratchet.sandbox.relay import RelayAddress, addresses
from ratchet.sandbox.view import file_view
from ratchet.sandbox.worker import SandboxWorker


class SandboxPool:
    """Runs a handler on requests, each in its own process inside a sandbox.

    The handler's module is imported once per sandbox, and its `prepare(setup: bytes)`, if defined,
    is
    called once. A request forks that process and calls `handler(state, body: bytes)`, which returns
    bytes; `state` is the return value of `prepare`. Processes that `prepare` leaves behind are
    ended. Requests do not see one another's changes.

    Args:
        handler: `module:function`.
        setup: Passed to `prepare`.
        path: Folders to import from, before those of this interpreter.
        root: The project's folder, which may be read except for files named like secrets.
        read: Additional folders and files that may be read.
        hide: Folders and files that must not be read, wherever they are.
        limits: Default limits of a request. Under bubblewrap the scratch folder has this size for
            all requests.
        slots: Maximum number of concurrent requests.
        level: `auto` for the strongest available.
        unsafe: Run with limits alone where no sandbox is available.
        environment: Variables in addition to the allowed ones.
        bare: Import from `path` and the standard library only.
        start_seconds: Timeout of the imports and `prepare`.
        connect: Hosts and ports that requests may reach; no others can be. Landlock supports only
            ports of this machine, which are then open on every host.
        landlock: The newest version of Landlock to use, to test the behaviour of older kernels.
        python: The interpreter that runs the handler; this one when left out.

    Raises:
        SandboxUnavailable: No sandbox is available on this machine.
        SandboxFailed: A path cannot be shown, or an address cannot be reached.
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
        python: Interpreter | None = None,
    ) -> None:
        self.level: Level = resolve_level(level, unsafe=unsafe)
        self._reached = addresses(connect, self.level, min(landlock, version()))
        self.limits = limits or SandboxLimits()
        self._handler = handler
        self._setup = setup
        self._python = python or this_interpreter()
        self._path = [os.path.abspath(folder) for folder in path]
        if not bare:
            self._path += [folder for folder in self._python.path if os.path.exists(folder)]
        if self._reached and self.level == "landlock":
            read = [*read, "/etc/hosts", "/etc/nsswitch.conf"]
        self._view = file_view(
            path=self._path, root=root, read=read, hide=hide, python=self._python
        )
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
        """End the sandboxes and the requests in them."""
        await self._close()

    async def request(self, body: bytes, limits: SandboxLimits | None = None) -> SandboxResult:
        """Run the handler once, as soon as a sandbox is free.

        Cancelling a request ends its process.

        Args:
            body: The handler's input.
            limits: Limits of this request.
        """
        if self._closed:
            raise SandboxFailed("This sandbox is closed.", hint="Use it inside `async with`.")
        worker = await self._free.get()
        stop = asyncio.Event()
        work = asyncio.create_task(self._ask(worker, body, limits or self.limits, stop))
        self._tasks.add(work)
        work.add_done_callback(lambda finished: self._release(worker, finished))
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

    def _release(self, worker: SandboxWorker, finished: asyncio.Task[SandboxResult]) -> None:
        self._tasks.discard(finished)
        if not finished.cancelled():
            finished.exception()  # it was raised where the request was awaited
        if worker.alive or self._closed:
            self._free.put_nowait(worker)
            return
        # Restart at once, so that the next request does not wait for the imports.
        again = asyncio.create_task(self._reopen(worker))
        self._tasks.add(again)
        again.add_done_callback(self._tasks.discard)

    async def _reopen(self, worker: SandboxWorker) -> None:
        try:
            await worker.open()
        except SandboxFailed:
            pass  # the next request retries and raises
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
            "listen": [(address.inside, address.port) for address in self._relayed()],
            "ports": [address.port for address in self._reached],
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
            python=self._python.executable,
        )

    def _relayed(self) -> list[RelayAddress]:
        """The addresses to relay; empty unless the sandbox has a network of its own."""
        return self._reached if self.level == "bubblewrap" else []
