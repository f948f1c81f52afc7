"""The process executor: attempts run in worker processes, one at a time in each."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ratchet.run.agent import AgentSpec
from ratchet.run.attempt import timed_out
from ratchet.run.ends import Clock, cut_off
from ratchet.run.environment import SECRETS, without
from ratchet.run.messages import (
    HEADER,
    Done,
    FromWorker,
    Ready,
    Setup,
    Stored,
    ToWorker,
    Unusable,
    Work,
    binding_file,
    decode_from_worker,
    frame,
)
from ratchet.types import AgentError, AttemptStatus, Claim, Outcome, Resource

if TYPE_CHECKING:
    from ratchet.observe.redaction import Rules

START_S = 120.0
"""How long a worker may take to load the agent."""

KILL_AFTER_S = 0.5
"""How long past its time-out an attempt may end by itself before its worker is killed."""

WATCH_S = 0.5
"""How often the sizes of the logs are looked at."""

LOG_BYTES = 64 * 1024 * 1024
"""A log that grows past this while an attempt runs is emptied."""

TAIL_BYTES = 1_500
"""How much of its last output is shown of a worker that crashed."""

START_TRIES = 3
"""Workers in a row that may fail to start before the executor gives up."""


class ProcessExecutor:
    """Runs attempts in worker processes: a hang, a crash or a memory hog stays alone.

    Args:
        agent: Where the agent is; each worker loads it itself.
        store_url: The store that workers write to when their parent is gone, or a server's address.
        store_key: The server's key; the agent does not get to see it.
        gateway: Address of a server whose gateway the agent's model calls are to go through. The
            variables that lead there change with each attempt: a library's client that was made
            while the agent was imported does not notice.
        state: Folder for logs and scratch files.
        slots: How many workers.
        timeout_s: Seconds that one attempt may take.
        memory_bytes: Private memory that one worker may use.
        keep_open: A file descriptor that workers hold open while they live, such as a lock's.
        redaction: What workers whose parent is gone take out of what they store; what is built in
            when left out.
    """

    def __init__(
        self,
        agent: AgentSpec,
        *,
        store_url: str,
        store_key: str = "",
        gateway: str = "",
        state: Path,
        slots: int,
        timeout_s: float,
        memory_bytes: int,
        keep_open: int | None = None,
        redaction: Rules | None = None,
    ) -> None:
        self._setup = Setup(
            agent=agent,
            store_url=store_url,
            store_key=store_key,
            gateway=gateway,
            timeout_s=timeout_s,
            memory_bytes=memory_bytes,
            scratch=str(state / "tmp"),
            redaction={} if redaction is None else msgspec.to_builtins(redaction),
        )
        self._logs = state / "logs"
        self._slots = slots
        self._keep_open = keep_open
        self._idle: asyncio.LifoQueue[_Worker | int] = asyncio.LifoQueue()
        self._all: set[_Worker] = set()
        self._kept: dict[tuple[str, int], _Worker] = {}
        """Which worker keeps an outcome that is not stored yet, by rollout id and fence."""
        self._watch: asyncio.Task[None] | None = None

    @property
    def slots(self) -> int:
        """How many attempts run at once."""
        return self._slots

    async def start(self) -> None:
        """Start the workers; the first tells whether the agent loads.

        Raises:
            AgentError: It does not.
        """
        for folder in (self._setup.scratch, self._logs):
            os.makedirs(folder, exist_ok=True)
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._slots):
                    group.create_task(self._start_into_idle(number))
        except BaseExceptionGroup as errors:
            await self.close()
            reasons, others = errors.split(AgentError)
            if reasons is None or others is not None:
                raise
            raise reasons.exceptions[0] from None
        except BaseException:
            await self.close()
            raise
        self._watch = asyncio.create_task(self._watch_logs())

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Run one attempt to its end in the next free worker."""
        free = await self._idle.get()
        try:
            if not isinstance(free, int) and free.gone():
                # It ended between two attempts, which is not the fault of the next one.
                await self._end(free)
                free = free.number
            worker = await self._start_worker(free) if isinstance(free, int) else free
        except BaseException:
            self._idle.put_nowait(free)
            raise
        try:
            ended = await self._run_in(worker, claim, resources)
        except BaseException:
            await self._end(worker)
            self._idle.put_nowait(worker.number)
            raise
        if worker.usable:
            self._idle.put_nowait(worker)
        else:
            await self._end(worker)
            self._idle.put_nowait(worker.number)
        return ended

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Tell the workers that these outcomes are in the store, so that they forget them."""
        keys: dict[_Worker, list[tuple[str, int]]] = {}
        for outcome in outcomes:
            key = (outcome.rollout_id, outcome.fence)
            worker = self._kept.pop(key, None)
            if worker is not None and worker in self._all:
                keys.setdefault(worker, []).append(key)
        for worker, known in keys.items():
            worker.post(Stored(known))

    async def close(self) -> None:
        """End every worker."""
        if self._watch is not None:
            self._watch.cancel()
        await asyncio.gather(*(self._end(worker) for worker in list(self._all)))

    async def _watch_logs(self) -> None:
        """Keep an agent that prints without end from filling the disk."""
        while True:
            await asyncio.sleep(WATCH_S)
            for worker in self._all:
                worker.trim_log()

    async def _run_in(
        self, worker: _Worker, claim: Claim, resources: Mapping[str, Resource]
    ) -> Outcome:
        clock, log_from = Clock(), worker.mark_log()
        known = worker.candidate == claim.rollout.candidate_id
        worker.candidate = claim.rollout.candidate_id

        def stopped(status: AttemptStatus, error: str) -> Outcome:
            worker.usable = False
            return cut_off(claim, status, error, clock)

        try:
            async with asyncio.timeout(self._setup.timeout_s + KILL_AFTER_S):
                await worker.send(Work(claim, None if known else dict(resources)))
                message = await worker.receive()
        except TimeoutError:
            worker.kill()
            return stopped("timed_out", timed_out(self._setup.timeout_s))
        except OSError:
            message = None
        if isinstance(message, Done):
            worker.usable = not message.outcome.error.startswith("MemoryError")
            self._kept[message.outcome.rollout_id, message.outcome.fence] = worker
            return message.outcome
        how = await worker.ended()
        return stopped(
            "crashed", f"The process running the agent {how}.{worker.log_tail(log_from)}"
        )

    async def _start_into_idle(self, number: int) -> None:
        self._idle.put_nowait(await self._start_worker(number))

    async def _start_worker(self, number: int) -> _Worker:
        how = ""
        for _ in range(START_TRIES):
            worker = _Worker(number, self._logs / f"worker-{number}.log", self._keep_open)
            self._all.add(worker)
            try:
                async with asyncio.timeout(START_S):
                    await worker.open()
                    await worker.send(self._setup)
                    message = await worker.receive()
            except TimeoutError:
                worker.kill()
                message, how = None, f"did not load the agent within {START_S:g} s"
            except OSError as error:
                message, how = None, f"could not be reached: {error}"
            except BaseException:
                await self._end(worker)
                raise
            if isinstance(message, Ready):
                return worker
            if isinstance(message, Unusable):
                await self._end(worker)
                raise AgentError(message.error)
            how = how or await worker.ended()
            tail = worker.log_tail(0)
            await self._end(worker)
        raise AgentError(
            f"A worker process for the agent {self._setup.agent.entry!r} {how} while starting."
            f"{tail}",
            hint=f"Its output is in {self._logs}.",
        )

    async def _end(self, worker: _Worker) -> None:
        self._all.discard(worker)
        worker.kill()
        await worker.ended()
        worker.close()
        self._sweep(worker)

    def _sweep(self, worker: _Worker) -> None:
        """Delete the scratch files that a worker left because it was killed."""
        for file in Path(self._setup.scratch).glob(f"{binding_file(worker.pid)}*"):
            file.unlink(missing_ok=True)


class _Worker:
    """One worker process as its parent sees it."""

    def __init__(self, number: int, log: Path, keep_open: int | None) -> None:
        self.number = number
        self.usable = True
        self.candidate: str | None = None
        self._log = log
        self._trimmed = b""
        """The end of what was cut from the log during this attempt."""
        self._keep_open = keep_open
        self._process: subprocess.Popen[bytes] | None = None
        self._swept = False
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Start the process, in a session of its own: a terminal's Ctrl-C is for the parent."""
        mine, theirs = socket.socketpair()
        held = [theirs.fileno(), *([] if self._keep_open is None else [self._keep_open])]
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - returns at once
                # -P: a module of the user's in this folder must not stand in for one of Python's.
                [sys.executable, "-P", "-m", "ratchet.run.worker", *map(str, held)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=without(os.environ, SECRETS),
                pass_fds=held,
                start_new_session=True,
            )
        finally:
            os.close(log)
            theirs.close()
        self._reader, self._writer = await asyncio.open_connection(sock=mine)

    async def send(self, message: ToWorker) -> None:
        """Send a message.

        Raises:
            OSError: The worker has gone.
        """
        self.post(message)
        assert self._writer is not None
        await self._writer.drain()

    def post(self, message: ToWorker) -> None:
        """Send a message without waiting for room in the socket."""
        assert self._writer is not None
        self._writer.write(frame(message))

    async def receive(self) -> FromWorker | None:
        """The next message, or None when the worker has gone."""
        assert self._reader is not None
        try:
            header = await self._reader.readexactly(HEADER.size)
            return decode_from_worker(await self._reader.readexactly(HEADER.unpack(header)[0]))
        except (asyncio.IncompleteReadError, OSError):
            return None

    @property
    def pid(self) -> int:
        """Its process id; 0 before it started."""
        return self._process.pid if self._process is not None else 0

    def gone(self) -> bool:
        """Whether the process has ended."""
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        """Kill the process and what it started in its session, even after its own end."""
        if self._process is not None and not self._swept:
            # Once only, and at once: the number may name somebody else's process later.
            self._swept = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def ended(self) -> str:
        """Wait for the process, a bounded while, and say how it ended."""
        if self._process is None:
            return "never started"
        for _ in range(200):
            code = self._process.poll()
            if code is not None:
                self.kill()
                if code < 0:
                    return f"was killed by {signal.Signals(-code).name}"
                return f"ended with exit code {code}"
            await asyncio.sleep(0.01)
        self.kill()
        return "stopped answering"

    def close(self) -> None:
        """Give the socket back."""
        if self._writer is not None:
            self._writer.close()

    def log_size(self) -> int:
        """Bytes in the log of the worker's output."""
        with contextlib.suppress(OSError):
            return self._log.stat().st_size
        return 0

    def mark_log(self) -> int:
        """An attempt begins: the position after which what is printed is its own."""
        self._trimmed = b""
        return self.log_size()

    def trim_log(self) -> None:
        """Empty the log when it has grown large."""
        if self.log_size() > LOG_BYTES:
            # Kept here and not written back: the worker may have printed more by then.
            self._trimmed = self._last(0)
            with contextlib.suppress(OSError):
                os.truncate(self._log, 0)

    def log_tail(self, since: int) -> str:
        """The last lines that the worker printed after position `since`, as a paragraph."""
        last = (self._trimmed + self._last(since))[-TAIL_BYTES:]
        text = last.decode("utf-8", "replace").strip()
        return f" Its last output:\n{text}" if text else ""

    def _last(self, since: int) -> bytes:
        with contextlib.suppress(OSError), open(self._log, "rb") as file:
            size = self.log_size()
            # Trimmed meanwhile: all that it holds now is newer.
            file.seek(max(since if since <= size else 0, size - TAIL_BYTES))
            return file.read(TAIL_BYTES)
        return b""
