"""A sandboxed zygote: started, sent one request at a time, and replaced when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ratchet.sandbox.inside import protocol
from ratchet.sandbox.launch import SandboxProcess
from ratchet.sandbox.limits import SandboxFailed, SandboxLimits, SandboxResult, SandboxStatus
from ratchet.sandbox.pipe_reader import PipeReader
from ratchet.sandbox.relay import RelayAddress, TcpRelay
from ratchet.types.wording import size_text

_GRACE_S = 2.0
"""Seconds past the sandbox's own timeout after which the outer process ends a request."""
_END_S = 5.0
"""Seconds that a sandbox may take to end when asked to."""
_STRAY_OUTPUT_BYTES = 16_384


class _Ended(NamedTuple):
    """A zygote's report of an ended request."""

    verdict: int
    code: int
    cpu_seconds: float
    last: bool
    """Whether the zygote could not clean up after the request, and must be replaced."""


class SandboxWorker:
    """Runs one zygote at a time.

    Args:
        start: Starts the first process of a sandbox.
        start_seconds: Timeout of the imports and `prepare`.
        reached: Destinations of the listeners that the zygote passes out.
    """

    def __init__(
        self,
        start: Callable[[], SandboxProcess],
        *,
        start_seconds: float,
        reached: Sequence[RelayAddress] = (),
    ) -> None:
        self._reached = reached
        self._relay: TcpRelay | None = None
        self._start = start
        self._start_seconds = start_seconds
        self._started: SandboxProcess | None = None
        self._stray_output: PipeReader | None = None
        self._number = 0

    @property
    def alive(self) -> bool:
        """Whether it accepts requests."""
        return self._started is not None

    async def open(self) -> None:
        """Start the zygote and wait until it has loaded the handler.

        Raises:
            SandboxFailed: It did not start, or the handler did not load.
        """
        started = self._started = self._start()
        self._stray_output = PipeReader(
            started.output, _STRAY_OUTPUT_BYTES, asyncio.Event(), tail=True
        )
        try:
            async with asyncio.timeout(self._start_seconds):
                kind, content = await self._first(started)
        except TimeoutError:
            await self.close()
            raise SandboxFailed(
                f"The imports in the sandbox did not finish within {self._start_seconds:g} s.",
                hint="Allow more time, or import less.",
            ) from None
        except (OSError, EOFError, ValueError):
            raise SandboxFailed(f"The sandbox did not start: {await self._exit_report()}") from None
        except BaseException:
            await self.close()
            raise
        if kind != protocol.READY:
            reason = content.decode(errors="replace") or "it gave no reason"
            printed = self._stray_output.content().decode(errors="replace").strip()
            await self.close()
            tail = f"\n{printed[-2000:]}" if printed else ""
            raise SandboxFailed(f"The handler cannot be loaded in the sandbox: {reason}{tail}")

    async def _first(self, started: SandboxProcess) -> tuple[int, bytes]:
        """Receive the first frame, and the listeners sent with it."""
        if not self._reached:
            return await _receive(started.control)
        await _readable(started.control)
        head, fds, _, _ = socket.recv_fds(started.control, protocol.HEADER.size, len(self._reached))
        listeners = [socket.socket(fileno=fd) for fd in fds]
        kind, length = protocol.HEADER.unpack(head)
        if kind == protocol.READY and len(listeners) == len(self._reached):
            self._relay = TcpRelay()
            await self._relay.open(listeners, self._reached)
        return kind, await _exactly(started.control, min(length, protocol.MAX_TEXT_BYTES))

    async def request(
        self, body: bytes, limits: SandboxLimits, stop: asyncio.Event
    ) -> SandboxResult:
        """Run the handler once.

        Args:
            body: Its input.
            limits: Its limits.
            stop: Ends the request when set; it is set here when the output exceeds its limit.

        Raises:
            SandboxFailed: There is no zygote, and none can be started.
        """
        if self._started is not None and self._started.process.poll() is not None:
            await self.close()  # it was killed while idle
        if self._started is None:
            await self.open()
        begun = time.monotonic()
        nonce = secrets.token_bytes(16)
        answer_in, answer_out = os.pipe()
        output_in, output_out = os.pipe()
        request_fd = os.memfd_create("ratchet-request", os.MFD_ALLOW_SEALING)
        answer = PipeReader(_reading(answer_in), limits.result_bytes + protocol.FRAME.size, stop)
        output = PipeReader(_reading(output_in), limits.output_bytes, stop)
        try:
            try:
                _fill(request_fd, body)
                await self._send(nonce, limits, [answer_out, output_out, request_fd])
            finally:
                for fd in (answer_out, output_out, request_fd):
                    os.close(fd)
            ended = await self._until_ended(limits.seconds, stop)
            if ended is not None:
                # All writers are gone, so these are at their ends.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1.0):
                        await asyncio.gather(answer.ended(), output.ended())
        except (OSError, EOFError, ValueError):
            ended = None
        finally:
            answer.close()
            output.close()
        status, content, error = (
            await self._lost(begun, limits)
            if ended is None
            else _judged(ended, answer.content(), nonce, limits)
        )
        if ended is not None and ended.last:
            await self.close()
        if len(output.content()) >= limits.output_bytes and stop.is_set():
            status, content = "flooded", b""
            error = f"It printed more than {size_text(limits.output_bytes)}."
        elif len(answer.content()) > limits.result_bytes and stop.is_set():
            status, content = "flooded", b""
            error = f"Its answer is longer than {size_text(limits.result_bytes)}."
        return SandboxResult(
            status=status,
            body=content,
            error=error,
            output=output.content().decode(errors="replace"),
            seconds=time.monotonic() - begun,
        )

    async def close(self) -> None:
        """End the sandbox and everything in it."""
        started, self._started = self._started, None
        if started is None:
            return
        if self._relay is not None:
            await self._relay.close()
            self._relay = None
        started.end()
        if not await _has_exited(started, _END_S):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.process.pid, signal.SIGKILL)
            await _has_exited(started, _END_S)
        if self._stray_output is not None:
            self._stray_output.close()
        started.ended()

    async def _send(self, nonce: bytes, limits: SandboxLimits, fds: list[int]) -> None:
        assert self._started is not None
        self._number += 1
        request = {
            "number": self._number,
            "nonce": nonce,
            "limits": {
                "seconds": limits.seconds,
                "cpu": max(1, int(-(-_cpu_seconds(limits) // 1))),
                "memory": limits.memory_bytes,
                "processes": limits.processes,
                "scratch": limits.scratch_bytes,
            },
        }
        content = marshal.dumps(request, protocol.MARSHAL)
        control = self._started.control
        # A header is 5 bytes on an idle socket: it is sent whole, with the descriptors.
        socket.send_fds(control, [protocol.HEADER.pack(protocol.RUN_REQUEST, len(content))], fds)
        await asyncio.get_running_loop().sock_sendall(control, content)

    async def _until_ended(self, seconds: float, stop: asyncio.Event) -> _Ended | None:
        """Wait for the request's end, enforcing the timeout and `stop`; None if the zygote died."""
        assert self._started is not None
        control = self._started.control
        receiving = asyncio.create_task(_receive(control))
        stopping = asyncio.create_task(stop.wait())
        try:
            async with asyncio.timeout(seconds + _GRACE_S):
                await asyncio.wait({receiving, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if not receiving.done():
                    await asyncio.get_running_loop().sock_sendall(
                        control, protocol.HEADER.pack(protocol.STOP_REQUEST, 0)
                    )
                kind, content = await receiving
        except TimeoutError:
            return None
        finally:
            for task in (receiving, stopping):
                task.cancel()
            await asyncio.gather(receiving, stopping, return_exceptions=True)
        if kind != protocol.REQUEST_ENDED or len(content) != protocol.END_LAYOUT.size:
            return None
        number, verdict, code, cpu_seconds, last = protocol.END_LAYOUT.unpack(content)
        return _Ended(verdict, code, cpu_seconds, last) if number == self._number else None

    async def _lost(self, begun: float, limits: SandboxLimits) -> tuple[SandboxStatus, bytes, str]:
        """The result of a request whose end the zygote did not report."""
        late = time.monotonic() - begun >= limits.seconds
        words = await self._exit_report()
        if late:
            return "timed_out", b"", f"It did not finish within {limits.seconds:g} s."
        return "crashed", b"", f"The sandbox ended during the request: {words}"

    async def _exit_report(self) -> str:
        """Clean up after the sandbox; return how it ended and its last output, as text."""
        started, stray_output = self._started, self._stray_output
        assert started is not None
        assert stray_output is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await stray_output.ended()
        printed = stray_output.content().decode(errors="replace").strip()
        await self.close()
        code = started.process.returncode
        how = f"killed by signal {-code}" if code and code < 0 else f"exit code {code}"
        return f"{how}. {printed[-2000:]}".strip()


def _cpu_seconds(limits: SandboxLimits) -> float:
    """Processor time of a process; by default what all cores provide in the wall time."""
    if limits.cpu_seconds is not None:
        return limits.cpu_seconds
    return limits.seconds * (os.cpu_count() or 1)


def _reading(fd: int) -> int:
    os.set_blocking(fd, False)
    return fd


def _fill(fd: int, content: bytes) -> None:
    """Write an in-memory file and seal it against changes."""
    import fcntl

    left = memoryview(content)
    while left:
        left = left[os.write(fd, left) :]
    sealed = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, sealed)


async def _readable(control: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(control.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(control.fileno())


async def _receive(control: socket.socket) -> tuple[int, bytes]:
    """Receive the next frame from a sandbox.

    Raises:
        EOFError: It has ended.
        ValueError: The bytes are not a frame.
    """
    kind, length = protocol.HEADER.unpack(await _exactly(control, protocol.HEADER.size))
    if length > protocol.MAX_TEXT_BYTES:
        raise ValueError("a frame is too long")
    return kind, await _exactly(control, length)


async def _exactly(control: socket.socket, count: int) -> bytes:
    loop = asyncio.get_running_loop()
    got = bytearray()
    while len(got) < count:
        part = await loop.sock_recv(control, count - len(got))
        if not part:
            raise EOFError
        got += part
    return bytes(got)


async def _has_exited(started: SandboxProcess, seconds: float) -> bool:
    """Whether the process ends within this many seconds."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    if started.process.poll() is not None:
        return True
    pidfd = os.pidfd_open(started.process.pid)
    loop.add_reader(pidfd, ended.set)
    try:
        async with asyncio.timeout(seconds):
            await ended.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        started.process.poll()
    return True


def _judged(
    ended: _Ended, frame: bytes, nonce: bytes, limits: SandboxLimits
) -> tuple[SandboxStatus, bytes, str]:
    """Status, body and error of a request, from the reports of the zygote and the process."""
    if ended.verdict == protocol.TIMED_OUT:
        return "timed_out", b"", f"It did not finish within {limits.seconds:g} s."
    if ended.verdict == protocol.TOO_MUCH_MEMORY:
        return "memory", b"", f"It used more than {size_text(limits.memory_bytes)} of memory."
    if ended.verdict == protocol.TOO_MANY_PROCESSES:
        return "flooded", b"", f"It ran more than {limits.processes} processes and threads."
    if ended.verdict == protocol.TOO_MUCH_SCRATCH:
        return (
            "flooded",
            b"",
            f"It wrote more than {size_text(limits.scratch_bytes)}, or too many files.",
        )
    if ended.verdict == protocol.STOPPED:
        return "crashed", b"", "It was stopped."
    reply = _unpacked(frame, nonce)
    if reply is None:
        if frame and ended.code == 0:
            return "crashed", b"", "Its process sent an invalid answer."
        return _without_answer(ended, limits)
    kind, content = reply
    if kind == protocol.ANSWERED:
        return "ok", content, ""
    if kind == protocol.RAISED:
        return "raised", b"", content.decode(errors="replace")
    if kind == protocol.OUT_OF_MEMORY:
        return (
            "memory",
            b"",
            f"It ran out of memory: at most {size_text(limits.memory_bytes)} are allowed.",
        )
    type_name = content[:200].decode(errors="replace")
    return "raised", b"", f"TypeError: the handler returned {type_name}, not bytes"


def _unpacked(frame: bytes, nonce: bytes) -> tuple[int, bytes] | None:
    """A process's answer, or None if it does not answer this request."""
    if len(frame) < protocol.FRAME.size:
        return None
    signed, kind, length = protocol.FRAME.unpack_from(frame)
    content = frame[protocol.FRAME.size :]
    if not secrets.compare_digest(signed, nonce) or length != len(content):
        return None
    return kind, content


def _without_answer(ended: _Ended, limits: SandboxLimits) -> tuple[SandboxStatus, bytes, str]:
    allowed = _cpu_seconds(limits)
    # The kernel counts the limit in ticks, but usage more finely: they may differ much.
    ignored = ended.code == -signal.SIGKILL and ended.cpu_seconds >= 0.5 * allowed
    if ended.code == -signal.SIGXCPU or ignored:
        return "timed_out", b"", f"It used more than {allowed:g} s of processor time."
    if ended.code == -signal.SIGXFSZ:
        return "flooded", b"", f"It wrote a file of more than {size_text(limits.scratch_bytes)}."
    if ended.code < 0:
        with contextlib.suppress(ValueError):
            name = signal.Signals(-ended.code).name
            return "crashed", b"", f"Its process was killed by {name} before it answered."
    return "crashed", b"", f"Its process ended with exit code {ended.code} before it answered."
