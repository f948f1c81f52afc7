"""Worker process: runs attempts and sends their outcomes to its parent, which stores them.

It retains each outcome until the parent has stored it. When the parent is killed, the worker
finishes its attempts, sends the outcomes to the server or leaves them on disk for the next parent,
and ends: nothing that was paid for is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import functools
import io
import os
import select
import signal
import socket
import sys
from pathlib import Path

import msgspec

from ratchet.bind import BINDING_VARIABLE, SEED_VARIABLE, Binding, bind_process
from ratchet.observe import capture_rollouts, carry_context, warm_up
from ratchet.types import Outcome, RatchetError, Resource
from ratchet.worker.agent import Agent, load_agent
from ratchet.worker.attempt import Recorder, call_alone
from ratchet.worker.environment import (
    PROVIDER_KEYS,
    BindingFile,
    binding_file_name,
    gateway_variables,
)
from ratchet.worker.inprocess import AsyncExecutor
from ratchet.worker.messages import (
    HEADER,
    KNOWN_CANDIDATES,
    OTHER_BUILD,
    AgentUnusable,
    AttemptDone,
    AttemptKey,
    FromWorker,
    OutcomesStored,
    RunAttempt,
    StopAttempt,
    ToWorker,
    WorkerReady,
    WorkerSetup,
    decode_to_worker,
    frame,
)
from ratchet.worker.outbox import leave

BACKSTOP_S = 5.0
"""How long after a time-out the worker ends itself, in case the parent is gone."""

ORPHAN_PATIENCE_S = 60.0
"""How long an orphaned worker retries when the server is unreachable."""

TICK_INTERVAL_S = 1.0
"""Interval at which the event loop resets the watchdog."""

LOG_BYTES = 4 * 1024 * 1024
"""Size in bytes at which the log of the worker's output is truncated."""


def main(descriptor: int, *kept_open: int) -> None:
    """Serve the parent at the other end of the socket until it disconnects."""
    connection = socket.socket(fileno=descriptor)
    # Child processes and forks of the agent may outlive this process. They must not hold the socket
    # or the lock open.
    for inherited in (descriptor, *kept_open):
        os.set_inheritable(inherited, False)
    os.register_at_fork(after_in_child=functools.partial(_close_in_fork, connection, kept_open))
    parent = _Parent(connection)
    try:
        setup = parent.receive()
    except msgspec.DecodeError:
        parent.send(AgentUnusable(OTHER_BUILD))
        return
    if not isinstance(setup, WorkerSetup):
        return
    if setup.niceness:
        os.nice(setup.niceness)
    if setup.gateway:
        for name in PROVIDER_KEYS:
            os.environ.pop(name, None)
        os.environ.update(setup.import_variables)
    os.environ.update(setup.agent.variables)
    path = list(sys.path)
    faulthandler.enable(all_threads=False)
    # Error messages show the last output, and a crash flushes nothing.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    capture_rollouts()
    binding = setup.binding
    try:
        if binding is not None:
            bind_process(binding)
        agent = load_agent(setup.agent)
    except RatchetError as error:
        parent.send(AgentUnusable(str(error)))
        return
    carry_context()
    warm_up()
    _limit_memory(setup.memory_bytes)
    with asyncio.Runner() as loop, BindingFile(setup.scratch) as binding_file:
        if binding is not None:
            binding_file.publish(binding)
        parent.send(WorkerReady())
        if setup.capacity > 1:
            left = loop.run(_WorkerLoop(parent, setup, agent).run())
        else:
            files = {} if binding is None else binding.files
            left = _serve(parent, setup, agent, loop, binding_file, files)
        if left:
            sys.path[:] = path
            _store(setup, left)
        # Tasks and threads of the agent that do not end must not keep this process alive.
        faulthandler.dump_traceback_later(BACKSTOP_S, exit=True)
        _end_children()


def _store(setup: WorkerSetup, left: list[Outcome]) -> None:
    _limit_memory(sys.maxsize)
    left = _redacted(setup, left)
    if not setup.server:
        leave(left, Path(setup.outbox))
        return
    from ratchet.client import Client  # imported by orphaned workers only

    with Client(setup.server, setup.server_key, patience_s=ORPHAN_PATIENCE_S) as client:
        client.rollouts.finish(left)


def _redacted(setup: WorkerSetup, left: list[Outcome]) -> list[Outcome]:
    from ratchet.observe.redaction import RedactionRules, redactor_of
    from ratchet.types import ConfigError

    try:
        redactor = redactor_of(msgspec.convert(setup.redaction, RedactionRules), os.environ)
    except ConfigError as error:
        # The rules were valid in the parent: the agent has changed the environment since.
        print(f"ratchet: contents cannot be stored: {error}", file=sys.stderr)
        redactor = redactor_of(RedactionRules(capture_content=False), {})
    return [redactor.outcome(outcome) for outcome in left]


def _close_in_fork(connection: socket.socket, kept_open: tuple[int, ...]) -> None:
    connection.close()
    for descriptor in kept_open:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _end_children() -> None:
    """Terminate child processes that the agent left in this worker's session."""
    if os.getpgrp() == os.getpid():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(os.getpid(), signal.SIGTERM)


def _serve(
    parent: _Parent,
    setup: WorkerSetup,
    agent: Agent,
    loop: asyncio.Runner,
    binding_file: BindingFile,
    files: dict[str, bytes],
) -> list[Outcome]:
    """Run attempts one after another until the parent is gone; return the unstored outcomes."""
    resources: dict[str, Resource] = {}
    unstored: dict[AttemptKey, Outcome] = {}
    place = os.getcwd()
    while (message := parent.receive()) is not None:
        if isinstance(message, OutcomesStored):
            for key in message.keys:
                unstored.pop(key, None)
            continue
        if not isinstance(message, RunAttempt) or parent.gone():
            break
        if message.resources is not None:
            resources = message.resources
            rollout = message.claim.rollout
            binding_file.publish(
                Binding(resources=resources, candidate_id=rollout.candidate_id, files=files)
            )
        if setup.contained:
            os.chdir(place)
        os.environ[SEED_VARIABLE] = str(message.claim.rollout.seed)
        if setup.gateway:
            os.environ.update(gateway_variables(setup.gateway, message.claim))
        outcome = _attempt(Recorder(agent, message.claim, resources), loop, setup.timeout_s)
        outcome = binding_file.judge(outcome)
        _trim_log()
        unstored[outcome.rollout_id, outcome.fence] = outcome
        if not parent.send(AttemptDone(outcome)):
            break
        if outcome.cause == "memory":
            return []  # the next attempt would fail too: the parent starts a new worker
    return list(unstored.values())


def _attempt(recorder: Recorder, loop: asyncio.Runner, timeout_s: float) -> Outcome:
    own = os.getpid()
    # The interpreter's watchdog needs no lock, so it ends even a call that holds the GIL.
    faulthandler.dump_traceback_later(timeout_s + BACKSTOP_S, exit=True)
    try:
        return call_alone(recorder, loop, timeout_s)
    finally:
        if os.getpid() != own:
            os._exit(0)  # the agent's fork returned: only the worker reports the outcome
        faulthandler.cancel_dump_traceback_later()


class _Parent:
    """Connection to the parent process."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._hangup = select.poll()
        self._hangup.register(connection, 0)

    def receive(self) -> ToWorker | None:
        """The next message, or None if the parent is gone."""
        header = self._read(HEADER.size)
        body = self._read(HEADER.unpack(header)[0]) if header else None
        return decode_to_worker(body) if body else None

    def send(self, message: FromWorker) -> bool:
        """Send a message; return False if the parent is gone."""
        try:
            self.connection.sendall(frame(message))
        except OSError:
            return False
        return True

    def gone(self) -> bool:
        """Whether the parent has disconnected, even if messages are unread."""
        return bool(self._hangup.poll(0))

    def _read(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                chunk = self.connection.recv(size - len(data))
            except OSError:
                return None
            if not chunk:
                return None
            data += chunk
        return bytes(data)


def _limit_memory(size: int) -> None:
    try:
        import resource

        # Private writable memory: mapped files and reserved arenas do not count.
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        limit = size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    except (ImportError, OSError, ValueError) as error:
        print(f"ratchet: memory cannot be limited: {error}", file=sys.stderr)
    with contextlib.suppress(OSError):  # Linux: the OOM killer chooses this process first
        Path("/proc/self/oom_score_adj").write_text("800")


def _trim_log() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    with contextlib.suppress(OSError):
        if os.fstat(2).st_size > LOG_BYTES:
            os.ftruncate(2, 0)


class _WorkerLoop:
    """Runs many attempts at once, as tasks of one event loop, until the parent is gone.

    Args:
        parent: The other end of the socket.
        setup: First message of the parent.
        agent: The loaded agent.
    """

    def __init__(self, parent: _Parent, setup: WorkerSetup, agent: Agent) -> None:
        self._parent = parent
        self._limit_s = setup.timeout_s + BACKSTOP_S
        self._executor = AsyncExecutor(agent, slots=setup.capacity, timeout_s=setup.timeout_s)
        self._resources: dict[str, dict[str, Resource]] = {}
        self._running: dict[AttemptKey, asyncio.Task[None]] = {}
        self._unstored: dict[AttemptKey, Outcome] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._own = os.getpid()
        # Attempts share the environment, so child processes cannot learn their candidate. They
        # learn that they are part of a rollout, in which tools with side effects are blocked.
        os.environ[BINDING_VARIABLE] = os.path.join(setup.scratch, binding_file_name(self._own))

    async def run(self) -> list[Outcome]:
        """Serve the parent; return the unstored outcomes."""
        await self._executor.start()
        self._parent.connection.setblocking(False)
        reader, self._writer = await asyncio.open_connection(sock=self._parent.connection)
        ticking = asyncio.create_task(self._tick())
        try:
            while (message := await _next(reader)) is not None:
                if isinstance(message, RunAttempt):
                    if self._parent.gone():
                        break
                    self._begin(message)
                elif isinstance(message, StopAttempt):
                    if (task := self._running.get(message.key)) is not None:
                        task.cancel()
                elif isinstance(message, OutcomesStored):
                    for key in message.keys:
                        self._unstored.pop(key, None)
            # Each attempt ends by its time-out.
            await asyncio.gather(*self._running.values(), return_exceptions=True)
        finally:
            ticking.cancel()
            faulthandler.cancel_dump_traceback_later()
        return list(self._unstored.values())

    def _begin(self, work: RunAttempt) -> None:
        candidate = work.claim.rollout.candidate_id
        if work.resources is not None:
            self._resources[candidate] = work.resources
            while len(self._resources) > KNOWN_CANDIDATES:
                del self._resources[next(iter(self._resources))]
        key = (work.claim.rollout.id, work.claim.fence)
        task = asyncio.create_task(self._attempt(work, self._resources[candidate]))
        self._running[key] = task
        task.add_done_callback(lambda _: self._running.pop(key, None))

    async def _attempt(self, work: RunAttempt, resources: dict[str, Resource]) -> None:
        try:
            outcome = await self._executor.execute(work.claim, resources)
        finally:
            if os.getpid() != self._own:
                os._exit(0)  # the agent's fork returned: only the worker reports the outcome
        self._unstored[outcome.rollout_id, outcome.fence] = outcome
        _trim_log()
        assert self._writer is not None
        with contextlib.suppress(OSError):  # the read loop detects that the parent is gone
            self._writer.write(frame(AttemptDone(outcome)))
            await self._writer.drain()

    async def _tick(self) -> None:
        """Reset the interpreter's watchdog, which ends this process if the loop is blocked."""
        while True:
            faulthandler.dump_traceback_later(self._limit_s, exit=True)
            await asyncio.sleep(TICK_INTERVAL_S)


async def _next(reader: asyncio.StreamReader) -> ToWorker | None:
    """The next message, or None if the parent is gone."""
    try:
        size = HEADER.unpack(await reader.readexactly(HEADER.size))[0]
        return decode_to_worker(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, OSError):
        return None


if __name__ == "__main__":
    main(*(int(descriptor) for descriptor in sys.argv[1:]))
