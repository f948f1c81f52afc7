"""The tool's side of an agent in its own interpreter, reached through a host process there."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import struct
import subprocess
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

import msgspec

from ratchet.observe.instruments.table import Misfit
from ratchet.sandbox.interpreter import Interpreter, install_command
from ratchet.types import AgentError, ConfigError, Declaration, InputError
from ratchet.worker.agent import AgentSpec
from ratchet.worker.environment import STORE_SECRETS, without
from ratchet.worker.host_messages import (
    HEADER,
    AgentDescription,
    AgentVersion,
    CheckInput,
    DescribeAgent,
    HostRefusal,
    HostRequest,
    Reply,
    Request,
    Text,
    decode_reply,
    frame,
)

LOAD_TIMEOUT_S = 300.0
"""Seconds that the import of an agent may take."""

SEND_TIMEOUT_S = 30
"""Seconds for which the process may leave requests unread."""

END_TIMEOUT_S = 5.0
"""Seconds that the process has to end once the connection is closed."""

_ERRORS = {"AgentError": AgentError, "ConfigError": ConfigError, "InputError": InputError}

Answer = TypeVar("Answer", bound=Reply)


class AgentHost:
    """A process in the agent's interpreter that answers requests; the first request starts it.

    Its methods may be called by any thread. The process ends with this one, or at `close`.

    Args:
        interpreter: The agent's interpreter.
    """

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Reply]] = {}
        """Pending replies by request number; they belong to the process that runs now."""
        self._agent: DescribeAgent | None = None
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def ask(
        self, request: Request, kind: type[Answer], timeout_s: float = LOAD_TIMEOUT_S
    ) -> Answer:
        """Ask, and wait for the reply.

        Raises:
            AgentError: The process ended or does not answer; or the agent is at fault.
            ConfigError: The request cannot be answered.
            InputError: The request cannot be answered.
        """
        try:
            reply = _checked(self.send(request).result(timeout_s))
        except FutureTimeout:
            self.close()
            raise AgentError(
                f"The agent's interpreter did not answer within {timeout_s:g} s."
            ) from None
        assert isinstance(reply, kind)
        return reply

    async def ask_async(self, request: Request, timeout_s: float) -> Reply:
        """Like `ask`, without blocking the event loop.

        Raises:
            TimeoutError: There is no reply in time; the process is ended.
        """
        try:
            async with asyncio.timeout(timeout_s):
                sent = await asyncio.to_thread(self.send, request)
                return _checked(await asyncio.wrap_future(sent))
        except TimeoutError:
            self.close()
            raise

    def send(self, request: Request) -> Future[Reply]:
        """Ask; the future is the reply."""
        future: Future[Reply] = Future()
        with self._lock:
            frames = b""
            if isinstance(request, DescribeAgent):
                self._agent = request
            elif self._connection is None and self._agent is not None:
                frames = frame(HostRequest(0, self._agent))  # a new process loads it first
            connection = self._connection or self._started()
            number = next(self._numbers)
            self._waiting[number] = future
            try:
                connection.sendall(frames + frame(HostRequest(number, request)))
            except BlockingIOError:
                del self._waiting[number]
                self._end()
                future.set_exception(
                    AgentError(f"The agent's interpreter has read nothing for {SEND_TIMEOUT_S} s.")
                )
            except OSError:  # it ended
                self._end()
        return future

    def close(self) -> None:
        """End the process; the next request starts another."""
        if (connection := self._connection) is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # or a sender holds the lock
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._connection is not None and self._process is not None:
            self._connection.close()
            self._connection = None
            _kill(self._process)

    def _started(self) -> socket.socket:
        mine, theirs = socket.socketpair()
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_TIMEOUT_S, 0))
        try:
            self._process = subprocess.Popen(
                [
                    *(self.interpreter.executable, "-P", "-m", "ratchet.worker.host"),
                    str(theirs.fileno()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what the agent prints is no part of this program's output
                env=without(os.environ, STORE_SECRETS),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            mine.close()
            raise AgentError(f"{self.interpreter.executable} cannot be started: {error}.") from None
        finally:
            theirs.close()
        self._connection = mine
        self._waiting = {}
        threading.Thread(
            target=self._read,
            args=(mine, self._process, self._waiting),
            name="ratchet-host",
            daemon=True,
        ).start()
        return mine

    def _read(
        self,
        connection: socket.socket,
        process: subprocess.Popen[bytes],
        waiting: dict[int, Future[Reply]],
    ) -> None:
        unreadable = False
        try:
            with connection.makefile("rb") as stream:
                while len(header := stream.read(HEADER.size)) == HEADER.size:
                    (size,) = HEADER.unpack(header)
                    if len(body := stream.read(size)) < size:
                        break
                    answered = decode_reply(body)
                    future = waiting.pop(answered.number, None)
                    if future is not None and future.set_running_or_notify_cancel():
                        future.set_result(answered.reply)
        except msgspec.DecodeError:
            unreadable = True
        except (OSError, ValueError):
            pass  # closed here, or cut off
        with self._lock:
            if self._connection is connection:
                self._connection = None
            left = list(waiting.values())
        try:
            code = process.wait(0 if unreadable else END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            _kill(process)
            code = process.wait()
        error = AgentError(f"The agent's interpreter ended with exit code {code}.")
        if unreadable:
            error = other_build(self.interpreter)
        for future in left:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that has not been waited for, with its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def other_build(interpreter: Interpreter) -> AgentError:
    """The error for a message from a different build of the same version of the SDK."""
    return AgentError(
        f"The agent's interpreter {interpreter.executable} has a different build of Ratchet's "
        "SDK: it sent a message that this build cannot read.",
        hint=f"Install this build there: {install_command(interpreter, again=True)}",
    )


def _checked(reply: Reply) -> Reply:
    if isinstance(reply, HostRefusal):
        raise _ERRORS[reply.kind](reply.message, hint=reply.hint)
    return reply


class HostedAgent:
    """An agent that is loaded in its own interpreter.

    Args:
        host: The process there.
        spec: The agent's location.

    Raises:
        AgentError: It does not load.
        InputError: A marker or a file of prompts cannot be used.
    """

    def __init__(self, host: AgentHost, spec: AgentSpec) -> None:
        self.spec = spec
        self._host = host
        description = host.ask(DescribeAgent(spec), AgentDescription)
        self.python = ".".join(map(str, host.interpreter.python))
        """Version of the Python that runs it."""
        self.kind = description.kind
        self.is_async = description.is_async
        self.declarations: dict[str, Declaration] = description.declarations
        """The resources declared in the agent's source and in its prompt files, by name."""
        self.prompts_in_calls = spec.prompts_in_calls
        self.optional = description.optional
        """Names of the parameters that have a default."""
        self.docstring = description.docstring
        self._loaded_version = description.loaded_version
        self._misfits = description.misfits

    def misfits(self) -> list[Misfit]:
        """Like `Agent.misfits`."""
        return self._misfits

    def check_input(self, value: Any) -> None:
        """Check that a task's input fits the agent's parameters.

        Raises:
            InputError: It does not.
        """
        if problem := self._host.ask(CheckInput(value), Text).text:
            raise InputError(problem)

    def source_version(self) -> str:
        """Like `Agent.source_version`."""
        return self._host.ask(AgentVersion(), Text).text

    def loaded_version(self) -> str:
        """Like `Agent.loaded_version`."""
        return self._loaded_version
