"""Keeps a program contained: with its own files, network and processes, or by a keeper's rules."""

from __future__ import annotations

import os
import signal
import socket
import struct

from . import keeper, kernel, landlock, network, policy, process_table, protocol, scratch
from .act_log import DENIED, ActLog
from .effects import LOOKUP, Effect
from .guard import Guard
from .mounts import Mounts
from .names import Names, resolver_settings
from .observer import hosts_table
from .taking import TakenFiles

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

_NEW_NAMESPACES = 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000
"""The flags CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET and CLONE_NEWIPC."""
NAMESPACES = "bubblewrap"
"""The level at which the program has its own files, network and processes."""
_REACH_S = 0.5
_DIAL_S = 5.0
_STATUS = struct.Struct("=i")
NOT_CONTAINED_EXIT = 70
"""Exit code of a keeper that could not contain its program, or that was killed."""


def contain(control: int, config: dict[str, Any]) -> NoReturn:
    """Run a program contained, and exit with the program's status or by its signal.

    This process stays outside and only waits: another one, in the namespaces, keeps the program.

    Args:
        control: The descriptor of the control socket.
        config: As in `keeper.watch`, `mounts.Mounts` and `guard.Guard`; and `level`, `landlock`
            (the newest version of Landlock to use), `entered` (whether the namespaces have been
            entered).
    """
    keeper.ignore_signals()
    kernel.prefer_for_oom_kill()
    reader, writer = os.pipe()
    own = config["level"] == NAMESPACES
    folder, name = os.path.split(config["base"])
    outside = os.open(folder, os.O_PATH | os.O_DIRECTORY)  # as it is before the mounts change
    try:
        if own and not config["entered"]:
            network.unshare(_NEW_NAMESPACES)
    except OSError as error:
        protocol.ControlSocket(control).send(protocol.SETUP_FAILED, str(error).encode())
        os._exit(NOT_CONTAINED_EXIT)
    pid = os.fork()
    if not pid:
        os.close(reader)
        _keep(control, config, writer, own)
    for descriptor in (control, writer, config["log"], *config["descriptors"]):
        os.close(descriptor)
    for descriptor in range(3):
        os.close(descriptor)
    ended = os.read(reader, _STATUS.size)
    os.waitpid(pid, 0)
    if not own:
        scratch.empty(config["base"])
    try:
        os.rmdir(name, dir_fd=outside)
    except OSError:
        pass  # a mount here holds it, or the process outside was faster
    keeper.end_as(_STATUS.unpack(ended)[0] if ended else NOT_CONTAINED_EXIT << 8)


def _keep(control: int, config: dict[str, Any], ended: int, own: bool) -> NoReturn:
    try:
        kernel.adopt_orphans()  # where bubblewrap made the namespace, it has its first process
        if own:
            kernel.die_with_parent(signal.SIGKILL)
        else:
            # Killing it would leave the program's processes: without namespaces it ends them.
            os.setsid()
            signal.signal(signal.SIGTERM, lambda *_: _end_all(config))
            kernel.die_with_parent(signal.SIGTERM)
        keeper = _Kept(protocol.ControlSocket(control), config, own)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        protocol.ControlSocket(control).send(
            protocol.SETUP_FAILED, text.encode()[: protocol.MAX_TEXT_BYTES]
        )
        os._exit(NOT_CONTAINED_EXIT)
    status = keeper.until_ended()
    process_table.end_all(os.getpid())
    keeper.take()
    os.write(ended, _STATUS.pack(status))
    os._exit(0)


def _end_all(config: dict[str, Any]) -> NoReturn:
    process_table.end_all(os.getpid())
    os._exit(NOT_CONTAINED_EXIT)


class _Kept:
    """Serves the requests of the program and of the process outside."""

    def __init__(self, control: protocol.ControlSocket, config: dict[str, Any], own: bool) -> None:
        self._control = control
        self._config = config
        self._log = ActLog(config["log"])
        for descriptor in (config["log"], control.fileno()):
            os.set_inheritable(descriptor, False)
        api = min(config["landlock"], landlock.version())
        servers, searched = resolver_settings()
        self._names = Names(hosts_table(), searched)
        self._readers: dict[int, Callable[[], None]] = {}
        self._own = own
        self._mounts: Mounts | None = None
        self._taken = TakenFiles({})
        self._connected: set[str] = set()
        self._guard = Guard(
            config,
            self._names,
            self._report,
            own_network=own,
            truncation=api >= landlock.TRUNCATION_FROM,
            original=self._original,
            serve=self._serve,
            dial=self._dial,
            ask=self._ask,
        )
        places = {
            (self._address(host.lower()), port): host.lower()
            for host, port in config["hosts"]
            if port and not host.startswith("*")
        }
        listeners: list[tuple[socket.socket, str, int]] = []
        if own:
            network.lead_all_here()
            self._mounts = Mounts(config)
            self._taken = TakenFiles(config["taken"])
            for server in servers:
                self._answer_names(server)
            for (address, port), host in places.items():
                listeners.append((_listener(address, port), host, port))
                self._guard.serves(address, port)
        else:
            scratch.empty(config["base"])
            _lay_home(config)
        rules = policy.contained(
            mounts=own,
            truncation=api >= landlock.TRUNCATION_FROM,
            scoped=own or api >= landlock.SIGNALS_FROM,
        )
        control.send(protocol.READY)
        for listener, host, port in listeners:
            self._tell(protocol.LISTENING, host, port, listener)
        files = None if not api else _ruleset(config, own, api)
        started = keeper.Started(config, self._log, rules, lambda: _restrict(files), needed=True)
        self._started = started
        self._stay: set[int] = set()

    def until_ended(self) -> int:
        """Answer requests until the program has ended; return its exit status."""
        self._readers[self._control.fileno()] = self._obey
        keeper.until_ended(self._started, self._guard.decide, self._readers)
        self._guard.shared_memory.clear()
        self._settle_acts()
        return self._started.status

    def take(self) -> None:
        """Take the files that it wrote out of its copies, once no process of it is left."""
        self._taken.take()

    def _obey(self) -> None:
        received = self._control.receive()
        if received is None:
            # The process outside is gone. The program may store what it has, and ends by itself.
            del self._readers[self._control.fileno()]
            return
        if received[0] == protocol.KEEP:
            self._stay = self._others()
        elif received[0] == protocol.SETTLE:
            left = self._others() - self._stay
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    continue
            clean = not left
            if clean and self._mounts is not None and self._mounts.dirty():
                self._mounts.renew()
            elif clean and self._mounts is None:
                _lay_home(self._config)
                self._guard.shared_memory.clear()
            self._settle_acts()
            self._control.send(protocol.SETTLED, bytes([clean]))

        elif received[0] == protocol.REACH:
            self._reach(received[1]["port"])

    def _reach(self, port: int) -> None:
        for address in ("127.0.0.1", "::1"):
            try:
                connection = socket.create_connection((address, port), timeout=_REACH_S)
            except OSError:
                continue
            with connection:
                connection.setblocking(True)
                self._control.send(protocol.REACHED, b"\x01", (connection.fileno(),))
            return
        self._control.send(protocol.REACHED, b"\x00")

    def _others(self) -> set[int]:
        """The other processes, once those that have ended are reaped."""
        alive = set(process_table.processes(os.getpid())) - {self._started.pid}
        for pid in alive:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue  # it is another's child
        return {pid for pid in alive if process_table.usage([pid])[0]}

    def _settle_acts(self) -> None:
        for name in dict.fromkeys(self._names.asked):
            if name not in self._connected and not self._guard.knows(name):
                self._log.add(Effect(LOOKUP, name), DENIED)
        self._names.asked.clear()
        self._connected.clear()
        self._log.settle()

    def _report(self, effect: Effect, end: str) -> None:
        self._connected.add(effect.subject)
        self._log.add(effect, end)

    def _original(self, path: str) -> bool:
        return self._mounts is not None and self._mounts.original(path)

    def _address(self, host: str) -> str:
        try:
            socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
        except OSError:
            return self._names.address(host)
        return host

    def _serve(self, address: str, host: str, port: int) -> None:
        self._tell(protocol.LISTENING, host, port, _listener(address, port))

    def _dial(self, host: str, port: int) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self._config["relay"]), timeout=_DIAL_S)
        source = connection.getsockname()[1]
        self._control.send(protocol.DIALED, f"{source} {host} {port}".encode())
        return connection

    def _tell(self, kind: int, host: str, port: int, listener: socket.socket) -> None:
        self._control.send(kind, f"{host} {port}".encode(), (listener.fileno(),))
        listener.close()

    def _answer_names(self, server: str) -> None:
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        service = socket.socket(family, socket.SOCK_DGRAM)
        try:
            service.bind((server, 53))
        except OSError:
            return  # there is no IPv6

        def answer() -> None:
            query, source = service.recvfrom(4096)
            if reply := self._names.answer(query):
                service.sendto(reply, source)

        self._readers[service.fileno()] = answer
        listener = _listener(server, 53)
        self._readers[listener.fileno()] = lambda: self._converse(listener.accept()[0])
        self._guard.serves(server, 53)

    def _ask(self, kind: int) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        self._converse(ours)
        return theirs

    def _converse(self, client: socket.socket) -> None:
        """Answer the queries that arrive on a connection, or on a pair of datagram sockets."""
        client.setblocking(False)
        stream = client.type == socket.SOCK_STREAM
        received = bytearray()

        def answer() -> None:
            try:
                part = client.recv(4096)
                received.extend(part)
                if not stream:
                    client.send(self._names.answer(part))
                while stream and len(received) > 2:
                    size = int.from_bytes(received[:2], "big")
                    if len(received) < 2 + size:
                        break
                    reply = self._names.answer(bytes(received[2 : 2 + size]))
                    del received[: 2 + size]
                    client.send(len(reply).to_bytes(2, "big") + reply)
            except OSError:
                part = b""
            if not part:
                del self._readers[client.fileno()]
                client.close()

        self._readers[client.fileno()] = answer


def _listener(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen()
    return listener


def _ruleset(config: dict[str, Any], own: bool, api: int) -> landlock.Ruleset:
    everything = [("/", landlock.WRITE_ACCESS)]
    rules = everything if own else [tuple(rule) for rule in config["rules"]]
    return landlock.Ruleset(rules, ports=None, api=api, programs=config["executable"])


def _restrict(files: landlock.Ruleset | None) -> None:
    os.setsid()
    kernel.drop_capabilities()
    if files is not None:
        files.restrict()
        files.close()


def _lay_home(config: dict[str, Any]) -> None:
    """Without mounts: an empty temporary folder, and a home of links into the real home."""
    base, home = config["base"], config["home"]
    for name in ("tmp", "home"):
        os.makedirs(f"{base}/{name}", mode=0o700, exist_ok=True)
        scratch.empty(f"{base}/{name}")
    try:
        entries = os.listdir(home)
    except OSError:
        return
    for name in entries:
        path = os.path.join(home, name)
        if path not in config["hidden"]:
            os.symlink(path, f"{base}/home/{name}")
