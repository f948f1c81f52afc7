"""A process with the imports loaded, which forks a watched child for each request."""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import sys

from . import child, confine, kernel, process_gate, process_table, protocol, scratch
from .confine import Confinement
from .watch import ProcessWatch

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


def serve(control: int, config: dict[str, Any]) -> NoReturn:
    """Load the handler and answer requests until the control socket closes.

    Args:
        control: The descriptor of the control socket.
        config: Set by the outer process: `level`, `path`, `handler`, `setup`, `scratch`, `rules`,
            `ports`, `network`, `landlock`, `start_data` (bytes that the imports may use).
    """
    control_socket = protocol.ControlSocket(control)
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        kernel.die_with_parent(signal.SIGKILL)
        if os.getpid() != 1:
            kernel.adopt_orphans()
        kernel.prefer_for_oom_kill()
        listeners = [_listening(address, port) for address, port in config["listen"]]
        rules = Confinement(config)
        rules.on_watcher()
        confine.limit(resource.RLIMIT_DATA, config["start_data"])
        confine.limit(resource.RLIMIT_CORE, 0)
    except Exception as error:
        control_socket.send(
            protocol.SETUP_FAILED, f"The sandbox cannot be set up: {error}".encode()
        )
        os._exit(1)
    try:
        loaded = _load(config)
    except BaseException as error:
        control_socket.send(
            protocol.SETUP_FAILED, child.describe_error(error)[: protocol.MAX_TEXT_BYTES]
        )
        os._exit(1)
    if os.getpid() == 1:
        process_table.end_all(1)
    gc.collect()
    gc.freeze()  # memory shared with the children stays shared
    control_socket.send(protocol.READY, fds=tuple(listener.fileno() for listener in listeners))
    for listener in listeners:
        listener.close()
    _Zygote(control_socket, config, rules, loaded).loop()
    os._exit(0)


def _listening(address: str, port: int) -> socket.socket:
    """A listener in this sandbox's network, accepted from by the outer process."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen()
    return listener


def _load(config: dict[str, Any]) -> tuple[child.Handler, object]:
    sys.path[:0] = config["path"]
    os.environ["HOME"] = os.environ["TMPDIR"] = config["scratch"]
    os.chdir(config["scratch"])
    module_name, _, function = config["handler"].partition(":")
    module = __import__(module_name, fromlist=[function])
    handler: child.Handler = getattr(module, function)
    prepare: Callable[[bytes], object] | None = getattr(module, "prepare", None)
    state = prepare(config["setup"]) if prepare is not None else None
    return handler, state


class _Zygote:
    def __init__(
        self,
        control: protocol.ControlSocket,
        config: dict[str, Any],
        rules: Confinement,
        loaded: tuple[child.Handler, object],
    ) -> None:
        self._control = control
        self._rules = rules
        self._loaded = loaded
        self._scratch: str = config["scratch"]
        self._mounted: bool = config["level"] == "bubblewrap"
        self._nothing = os.open(os.devnull, os.O_RDONLY)
        self._own = os.getpid()
        self._program = process_gate.program()
        self._mapped = process_table.address_space()
        self._shared = process_table.resident(self._own)

    def loop(self) -> None:
        """Answer requests until the control socket closes."""
        while (received := self._control.receive()) is not None:
            kind, content, fds = received
            if kind == protocol.RUN_REQUEST and not self._run(content, fds):
                return

    def _run(self, request: dict[str, Any], fds: list[int]) -> bool:
        """Run a request; return whether this process can run another."""
        request["scratch"] = f"{self._scratch}/{request['number']}"
        sys.stdout.flush()
        sys.stderr.flush()
        asking = process_gate.ProcessGate(self._program)
        pid = os.fork()
        if pid == 0:
            handler, state = self._loaded
            child.run(
                request, fds, self._nothing, handler, state, self._rules, asking, self._mapped
            )
        asking.forked()
        for fd in fds:
            os.close(fd)
        watch = ProcessWatch(
            pid,
            self._control,
            asking,
            request["limits"],
            folder=self._scratch,
            mounted=self._mounted,
            shared=self._shared,
        )
        verdict, present = watch.until_ended()
        if not self._mounted:
            process_table.end_group(
                pid
            )  # before it is reaped, while its process id is still its own
        _, status, used = os.wait4(pid, 0)
        clean = process_table.end_all(self._own)
        clean = scratch.empty(self._scratch) and clean
        code = os.waitstatus_to_exitcode(status)
        cpu = used.ru_utime + used.ru_stime
        ended = protocol.END_LAYOUT.pack(request["number"], verdict, code, cpu, not clean)
        self._control.send(protocol.REQUEST_ENDED, ended)
        return clean and present
