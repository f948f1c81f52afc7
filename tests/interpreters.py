"""Python processes that start quickly: forked from one that has imported the packages already.

A fresh interpreter spends half a second on imports. `Interpreter` is a `subprocess.Popen` whose
process is forked instead from a server with SQLAlchemy, pydantic, typer and the like in memory. It
is a process like any other: it has a working directory, an environment, standard streams, signals,
an exit status and an end of its own. The command line's own modules are imported by each process:
they look at the terminal.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

PRELOADED = (
    "sqlalchemy",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.dialects.postgresql",
    "pydantic",
    "typer.main",
    "typer.rich_utils",
    "rich.console",
    "rich.table",
    "rich.progress",
    "rich.live",
    "httpcore2",
    "httpx2",
    "httptools",
    "uvicorn",
    "uvloop",
    "jinja2",
    "jsonschema",
    "alembic",
    "optuna",
    "genai_prices",
    "numpy.random",
    "openai",
    "prometheus_client",
    "opentelemetry.sdk.trace",
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
    "psycopg",
    "ratchet",
    "ratchet.autopilot.loop",
    "ratchet.curate",
    "ratchet.server.serve",
)
"""Modules that the server imports: none of these starts a thread."""

MOST_BYTES = 1 << 18
"""Of a request: its arguments and environment as JSON."""


class Interpreter(subprocess.Popen[str]):
    """`subprocess.Popen` of `[sys.executable, "-m", module, ...]` or `[sys.executable, "-c", ...]`.

    Args:
        args: The command line.
        options: Of `subprocess.Popen`: cwd, env, streams, start_new_session. Streams are text.
    """

    def __init__(self, args: list[str], **options: Any) -> None:
        self._ended: socket.socket | None = None
        self._status: int | None = None
        super().__init__(args, text=True, **options)

    def _execute_child(self, args: Any, *rest: Any) -> None:
        # In the order of CPython's own method, which is the same in 3.11 to 3.14.
        _, _, _, pass_fds, cwd, env = rest[:6]
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = rest[9:15]
        start_new_session = rest[19]
        python, way, *arguments = args
        assert python == sys.executable, args
        assert way in ("-m", "-c"), args
        assert not pass_fds, "a forked process gets no descriptors but the standard ones"
        request = {
            "way": way,
            "arguments": arguments,
            "cwd": os.fspath(cwd or os.getcwd()),
            "env": dict(os.environ if env is None else env),
            "session": start_new_session,
        }
        streams = [
            given if given != -1 else standard
            for standard, given in enumerate((p2cread, c2pwrite, errwrite))
        ]
        self._ended, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            _server().ask(request, [*streams, theirs.fileno()])
        finally:
            theirs.close()
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)
        self.pid = int(self._ended.recv(64))
        self._child_created = True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._status is None:
            assert self._ended is not None
            try:
                flags = socket.MSG_DONTWAIT if wait_flags & os.WNOHANG else 0
                told = self._ended.recv(64, flags)
            except BlockingIOError:
                return 0, 0
            self._status = int(told) if told else signal.SIGKILL
            self._ended.close()
        return self.pid, self._status

    def _internal_poll(self, _deadstate: Any = None, *_: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


def run(
    args: list[str],
    *,
    timeout: float = 240,
    check: bool = False,
    input: str | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` with captured text: the process ends within `timeout` seconds."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        streams["stdin"] = subprocess.PIPE
    with Interpreter(args, **streams, **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


class _Server:
    """The process that others are forked from, as the tests see it."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self.stop)

    def ask(self, request: dict[str, Any], streams: list[int]) -> None:
        with self._lock:
            socket.send_fds(self._control, [json.dumps(request).encode()], streams)

    def stop(self) -> None:
        self._control.close()
        self._process.wait()


_servers: list[_Server] = []
_starting = threading.Lock()


def _server() -> _Server:
    with _starting:
        if not _servers:
            _servers.append(_Server())
        return _servers[0]


def _serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork a process for each request.

    Returns:
        In a forked process what it is to run, and None where there are no more requests.
    """
    import gc
    import importlib.util
    import select

    for module in PRELOADED:
        if importlib.util.find_spec(module.partition(".")[0]):
            importlib.import_module(module)
    gc.collect()
    gc.freeze()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([control, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            for pid in [*children]:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    with children.pop(pid) as told:
                        _tell(told, status)
        if control not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, MOST_BYTES, 4)
        if not message:
            return None
        request: dict[str, Any] = json.loads(message)
        told = socket.socket(fileno=descriptors[3])
        pid = os.fork()
        if pid:
            for descriptor in descriptors[:3]:
                os.close(descriptor)
            children[pid] = told
            _tell(told, pid)
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for other in (control, told, *children.values()):
            other.close()
        for standard, descriptor in enumerate(descriptors[:3]):
            os.dup2(descriptor, standard)
        for descriptor in (woken, wake, *descriptors[:3]):
            os.close(descriptor)
        return request


def _tell(to: socket.socket, number: int) -> None:
    try:
        to.send(str(number).encode())
    except BrokenPipeError:
        pass  # whoever started it has gone


def _become(request: dict[str, Any]) -> None:
    """Run what was asked for as the program of this process."""
    import runpy
    import time
    import types

    if request["session"]:
        os.setsid()
    sys.stdin = sys.__stdin__ = _text(0, "r")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _text(1, "w")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _text(2, "w", errors="backslashreplace")  # type: ignore[misc]
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    os.chdir(request["cwd"])
    sys.path.insert(0, os.getcwd() if request["way"] == "-m" else "")
    what, *arguments = request["arguments"]
    if request["way"] == "-m":
        sys.argv = [what, *arguments]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
        return
    sys.argv = ["-c", *arguments]
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    exec(compile(what, "<string>", "exec"), main.__dict__)


def _text(descriptor: int, mode: str, errors: str = "strict") -> Any:
    """A standard stream over what the descriptor is by now."""
    buffering = 1 if descriptor == 2 or os.isatty(descriptor) else -1
    return open(descriptor, mode, buffering, "utf-8", errors, closefd=False)


def _end_quickly(status: list[int]) -> None:
    """End the process with its status, without freeing each object that was forked.

    That takes 80 ms: a page that is written to is copied first. An interrupt and a fatal error end
    the process as usual.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            return  # the interpreter says so, and chooses the status
    if status:
        os._exit(status[0])


def _main() -> None:
    sys.path.pop(0)  # the folder of the tests is none of a program's
    status: list[int] = []
    atexit.register(_end_quickly, status)  # before all others, and so called after them
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    if request is None:
        return
    try:
        _become(request)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            status.append((end.code or 0) & 255)
        raise
    else:
        status.append(0)


if __name__ == "__main__":
    _main()
