"""A worker process: runs one attempt at a time and hands its outcome to its parent to store.

It keeps each outcome until the parent has stored it. When the parent is killed, the worker finishes
what it is running, stores what is left itself, and ends: nothing that was paid for is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import select
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from ratchet.bind import BINDING_VARIABLE, Binding, bind_process
from ratchet.observe import carry_context, collect_process, warm_up
from ratchet.run.agent import Agent, load_agent
from ratchet.run.attempt import Recorder, call_async, call_sync
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
    decode_to_worker,
    frame,
)
from ratchet.store import Store
from ratchet.types import Outcome, RatchetError, Resource

BACKSTOP_S = 5.0
"""The parent stops an attempt at its time-out; when the parent is gone, the worker ends itself this
much later."""

LOG_BYTES = 4 * 1024 * 1024
"""The log of a worker's output is emptied when it grows past this."""


def main(descriptor: int) -> None:
    """Serve the parent at the other end of the socket until it goes away."""
    parent = _Parent(socket.socket(fileno=descriptor))
    setup = parent.receive()
    if not isinstance(setup, Setup):
        return
    faulthandler.enable(all_threads=False)
    try:
        agent = load_agent(setup.agent)
    except RatchetError as error:
        parent.send(Unusable(str(error)))
        return
    carry_context()
    warm_up()
    _limit_memory(setup.memory_bytes)
    with asyncio.Runner() as loop, _Scratch(setup.scratch) as scratch:
        parent.send(Ready())
        left = _serve(parent, setup, agent, loop, scratch)
    if left:
        with Store.open(setup.store_url) as store:
            store.rollouts.finish(left, now=time.time())


def _serve(
    parent: _Parent, setup: Setup, agent: Agent, loop: asyncio.Runner, scratch: _Scratch
) -> list[Outcome]:
    """Run what the parent sends until it is gone; return the outcomes that it has not stored."""
    resources: dict[str, Resource] = {}
    unstored: dict[tuple[str, int], Outcome] = {}
    while (message := parent.receive()) is not None:
        if isinstance(message, Stored):
            for key in message.keys:
                unstored.pop(key, None)
            continue
        if not isinstance(message, Work) or parent.gone():
            break
        if message.resources is not None:
            resources = message.resources
            rollout = message.claim.rollout
            scratch.publish(Binding(resources=resources, candidate_id=rollout.candidate_id))
        outcome = _attempt(agent, Recorder(agent, message.claim, resources), loop, setup.timeout_s)
        unstored[outcome.rollout_id, outcome.fence] = outcome
        if not parent.send(Done(outcome)):
            break
        if outcome.error.startswith("MemoryError"):
            return []  # a heap at its limit fails what comes next: the parent starts a fresh worker
        _trim_log()
    return list(unstored.values())


def _attempt(agent: Agent, recorder: Recorder, loop: asyncio.Runner, timeout_s: float) -> Outcome:
    # This watchdog of the interpreter needs no lock: it ends even a call that holds the GIL.
    faulthandler.dump_traceback_later(timeout_s + BACKSTOP_S, exit=True)
    bind_process(recorder.binding)
    collect_process(recorder.collector)
    try:
        if agent.is_async:
            return loop.run(call_async(recorder, timeout_s))
        return call_sync(recorder)
    finally:
        bind_process(None)
        collect_process(None)
        faulthandler.cancel_dump_traceback_later()


class _Parent:
    """The parent's end of the socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._hangup = select.poll()
        self._hangup.register(connection, 0)

    def receive(self) -> ToWorker | None:
        """The next message, or None when the parent went away."""
        header = self._read(HEADER.size)
        body = self._read(HEADER.unpack(header)[0]) if header else None
        return decode_to_worker(body) if body else None

    def send(self, message: FromWorker) -> bool:
        """Tell the parent; False when it is gone."""
        try:
            self._connection.sendall(frame(message))
        except OSError:
            return False
        return True

    def gone(self) -> bool:
        """Whether the parent's end is closed, even if it sent something before."""
        return bool(self._hangup.poll(0))

    def _read(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                chunk = self._connection.recv(size - len(data))
            except OSError:
                return None
            if not chunk:
                return None
            data += chunk
        return bytes(data)


class _Scratch:
    """The file through which the agent's own child processes find their binding."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / f"binding-{os.getpid()}.json"

    def __enter__(self) -> _Scratch:
        return self

    def publish(self, binding: Binding) -> None:
        """Make child processes started from now on inherit this binding."""
        try:
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                file.write(msgspec.json.encode(binding))
            os.replace(file.name, self._path)
        except OSError as error:
            print(
                f"ratchet: child processes will not inherit the candidate: {error}", file=sys.stderr
            )
            os.environ.pop(BINDING_VARIABLE, None)
        else:
            os.environ[BINDING_VARIABLE] = str(self._path)

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)


def _limit_memory(size: int) -> None:
    try:
        import resource

        # Private writable memory, not address space: mapped files and reserved arenas do not count.
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        limit = size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    except (ImportError, OSError, ValueError) as error:
        print(f"ratchet: memory is not limited here: {error}", file=sys.stderr)
    with contextlib.suppress(OSError):  # Linux: when memory runs out anyway, end this one first
        Path("/proc/self/oom_score_adj").write_text("800")


def _trim_log() -> None:
    flush: Callable[[], None]
    for flush in (sys.stdout.flush, sys.stderr.flush):
        with contextlib.suppress(OSError, ValueError):
            flush()
    with contextlib.suppress(OSError):
        if os.fstat(2).st_size > LOG_BYTES:
            os.ftruncate(2, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
