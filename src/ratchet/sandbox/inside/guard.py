"""Answers the system calls of a contained program: denies and reports effects outside it."""

from __future__ import annotations

import errno
import os
import socket
import struct

from . import process_table
from .act_log import ALLOWED, COPIED, DENIED
from .effects import (
    CONNECT,
    DELETE,
    NAME_SERVICE,
    PROCESS,
    PROGRAM,
    SIGNAL,
    SOCKET,
    WRITE,
    Effect,
    effects,
)
from .names import Names, allows
from .observer import is_noise
from .shared_memory import SharedMemory

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .notices import Notice

    Report = Callable[[Effect, str], None]
    Serve = Callable[[str, str, int], None]

_LOOPBACK = ("127.", "::1")
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - as an address to connect to: this machine
_LISTENS = "0A"
_CONNECT_S = 2.0
_NONBLOCKING, _CLOSED_BY_EXEC = 0o4000, 0o2000000
_MAKES_FOLDERS = ("mkdir", "mkdirat")
_ATTRIBUTES = frozenset({"chmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchownat"})
_ATTRIBUTES |= {"utime", "utimes", "futimesat", "utimensat"}


class Guard:
    """Decides whether the calls of a contained program are allowed.

    Namespaces and Landlock's rules hold whatever is decided here: the memory that a decision
    depends on may change before the kernel reads it. Where they do not hold, as for sockets, no
    such call is let through; the guard connects instead, and passes the connection in.

    Args:
        config: `hosts` (names and ports that may be reached), `programs`, `any_program` (whether
            all may be started, and are reported), and `writable` (folders that may be changed,
            because they are copies or allowed).
        names: The name service.
        report: Called with what was denied, or done in a copy, and with programs that are told of.
        own_network: The program's network is its own.
        truncation: Without one: Landlock has a rule for truncation.
        original: Whether a path is a copy of one outside.
        serve: Called to let an address and port of its own network lead to a host.
        dial: Without one: makes a connection to a host.
        ask: Without one: makes a connection to the name service, of that socket type.
    """

    def __init__(
        self,
        config: dict[str, Any],
        names: Names,
        report: Report,
        *,
        own_network: bool,
        truncation: bool,
        original: Callable[[str], bool],
        serve: Serve,
        dial: Callable[[str, int], socket.socket],
        ask: Callable[[int], socket.socket],
    ) -> None:
        self._hosts = [(host.lower(), port) for host, port in config["hosts"]]
        self._programs = frozenset(config["programs"])
        self._any_program = bool(config["any_program"])
        self._began = False
        """Whether the command itself was already executed; that does not count as an act."""
        self._program_folders = tuple(f"{path}/" for path in config["programs"])
        self._writable = tuple(f"{path.rstrip('/')}/" for path in config["writable"])
        self._names = names
        self._report = report
        self._own_network = own_network
        self._unruled = frozenset() if own_network else _ATTRIBUTES
        if not own_network and not truncation:
            self._unruled |= {"truncate"}
        self._original = original
        self._serve = serve
        self._dial = dial
        self._ask = ask
        self.shared_memory = SharedMemory()
        self._served: set[tuple[str, int]] = set()
        self._datagrams: set[str] = set()
        """Sockets that cannot send anything, given to the program in place of datagram sockets."""

    def decide(self, notice: Notice) -> None:
        """Answer a call."""
        try:
            if notice.name == "socket":
                self._socket(notice)
                return
            wanted = effects(notice)
            if notice.name == "connect":
                self._connect(notice, wanted[0] if wanted else None)
                return
            paths = [effect.subject for effect in wanted]
            if not self._own_network and paths and all(map(self.shared_memory.owns, paths)):
                self.shared_memory.answer(notice, paths)
                return
            error = 0
            for effect in wanted:
                error = error or self._refusal(notice, effect)
        except (OSError, ValueError) as problem:
            notice.refuse(getattr(problem, "errno", None) or errno.EFAULT)
            return
        if error:
            notice.refuse(error)
        elif notice.name in self._unruled:
            # It would be done to what the path is by then. That a file is not executable, or is
            # older, harms nobody; that it still has its content may.
            notice.refuse(errno.EPERM) if notice.name == "truncate" else notice.done()
        else:
            notice.let()

    def _deny(self, effect: Effect, error: int) -> int:
        self._report(effect, DENIED)
        return error

    def _refusal(self, notice: Notice, effect: Effect) -> int:
        """The errno with which a call is refused for an effect; 0 if the effect is allowed."""
        kind = effect.kind
        if kind == PROGRAM:
            return self._run(effect)
        if kind in (WRITE, DELETE):
            return self._change(notice, effect)
        if kind == SIGNAL:
            return self._signal(notice, effect)
        if kind == CONNECT:  # a datagram
            return self._datagram(effect)
        return self._deny(effect, errno.EACCES if kind == SOCKET else errno.EPERM)

    def _run(self, effect: Effect) -> int:
        path = os.path.realpath(effect.subject)
        is_listed = path in self._programs or path.startswith(self._program_folders)
        if not (is_listed or self._any_program):
            return self._deny(effect, errno.EACCES)
        if self._any_program and self._began and os.access(path, os.X_OK):
            self._report(effect, ALLOWED)
        self._began = True
        return 0

    def _change(self, notice: Notice, effect: Effect) -> int:
        path = effect.subject
        exists = os.path.lexists(path)
        if f"{path}/".startswith(self._writable) or is_noise(effect):
            makes = notice.name in _MAKES_FOLDERS
            if exists and not makes and not is_noise(effect) and self._original(path):
                self._report(effect, COPIED)
            return 0
        changes_nothing = exists if notice.name in _MAKES_FOLDERS else not exists
        if changes_nothing and (effect.kind == DELETE or notice.name in _MAKES_FOLDERS):
            return 0  # it fails by itself
        # The mounts, or Landlock, refuse the others with an error of their own.
        return self._deny(effect, errno.EPERM if notice.name in self._unruled else 0)

    def _signal(self, notice: Notice, effect: Effect) -> int:
        target = int(effect.subject)
        probe = notice.name == "kill" and notice.arguments[1] & 0xFFFFFFFF == 0
        if self._own_network:  # and its processes are its own, too: the kernel finds no other
            outside = target not in (0, -1) and not os.path.exists(f"/proc/{abs(target)}")
        else:
            outside = target == -1 or (
                target != 0 and abs(target) not in process_table.processes(os.getpid())
            )
        if not outside:
            return 0
        if probe:
            return errno.ESRCH
        return self._deny(effect, errno.EPERM)

    def _datagram(self, effect: Effect) -> int:
        address, port = effect.subject, effect.port
        if self._own_network and (
            port == NAME_SERVICE or (_is_loopback(address) and _has_listener(port, "udp"))
        ):
            return 0
        return self._deny(self._named(effect), errno.ECONNREFUSED)

    def _named(self, effect: Effect) -> Effect:
        address = effect.subject
        if _is_loopback(address) or address in _EVERYWHERE:
            return Effect(CONNECT, "localhost", effect.port)
        return Effect(CONNECT, self._names.name(address), effect.port)

    def _allowed(self, effect: Effect) -> bool:
        return allows(self._hosts, effect.subject, effect.port)

    def _connect(self, notice: Notice, effect: Effect | None) -> None:
        if effect is not None and effect.kind == SOCKET:
            self._connect_unix(notice, effect)
            return
        if self._own_network and self._descriptor(notice) in _unix_sockets():
            notice.refuse(errno.EINVAL)  # the address would be another one by then
            return
        if effect is None:  # of no host: the end of an association, or the kernel's own
            notice.let() if self._own_network else notice.done()
            return
        address, port = effect.subject, effect.port
        if not self._own_network and self._descriptor(notice) in self._datagrams:
            if port == NAME_SERVICE:
                self._pass(notice, self._ask(socket.SOCK_DGRAM))
            else:
                notice.refuse(self._datagram(effect) if port else errno.ENETUNREACH)
            return
        host = self._named(effect)
        if port == 0 or (self._own_network and port == NAME_SERVICE):
            notice.let() if self._own_network else notice.refuse(errno.ECONNREFUSED)
        elif (address, port) in self._served:
            notice.let()
        elif self._allowed(host):
            if self._own_network:
                self._serve(address, host.subject, port)
                self._served.add((address, port))
                notice.let()
            else:
                self._pass(notice, self._dial(host.subject, port))
        elif port == NAME_SERVICE:
            self._pass(notice, self._ask(socket.SOCK_STREAM))
        elif host.subject == "localhost" and self._listens_inside(port):
            if self._own_network:
                notice.let()
            else:
                self._pass(notice, socket.create_connection((address, port), _CONNECT_S))
        else:
            notice.refuse(self._deny(host, errno.ECONNREFUSED))

    def serves(self, address: str, port: int) -> None:
        """Note that an address and port of the program's own network lead to a host."""
        self._served.add((address, port))

    def knows(self, name: str) -> bool:
        """Whether the host with this name may be reached at a port."""
        return any(self._allowed(Effect(CONNECT, name, port)) for _, port in self._hosts)

    def _connect_unix(self, notice: Notice, effect: Effect) -> None:
        """Connect on its behalf: this is the only way to know which process is at the other end."""
        path = effect.subject
        if path.startswith("/") and not os.path.exists(path):
            notice.refuse(errno.ENOENT)
            return
        listed = (path, 0) in self._hosts
        if not listed and not self._held_inside(_unix_sockets(path)):
            notice.refuse(self._deny(effect, errno.EACCES))
            return
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_CONNECT_S)
        try:
            if path.startswith("@"):
                connection.connect("\0" + path[1:])
            else:  # a path may be longer than an address
                os.chdir(os.path.dirname(path))
                connection.connect(f"./{os.path.basename(path)}")
        except OSError:
            connection.close()
            raise
        finally:
            os.chdir("/")
        peer = struct.unpack(
            "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        )[0]
        # It is 0 for a process outside this one's namespace.
        if listed or peer in process_table.processes(os.getpid()):
            self._pass(notice, connection)
        else:
            connection.close()
            notice.refuse(self._deny(effect, errno.EACCES))

    def _socket(self, notice: Notice) -> None:
        """Handle a socket that is not a stream socket: a datagram or raw socket."""
        family = notice.arguments[0] & 0xFFFFFFFF
        kind = notice.arguments[1] & 0xF
        on_network = family in (socket.AF_INET, socket.AF_INET6)
        in_sequence = family == socket.AF_UNIX and kind == socket.SOCK_SEQPACKET
        if kind == socket.SOCK_RAW and family != socket.AF_NETLINK:
            notice.refuse(self._deny(Effect(PROCESS, "socket (raw)"), errno.EPERM))
        elif family == socket.AF_NETLINK or in_sequence or (on_network and self._own_network):
            notice.let()
        elif on_network or family == socket.AF_UNIX:
            # Nothing that is sent on it goes anywhere, whatever the address.
            far_end, inert = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            far_end.close()
            self._datagrams.add(f"socket:[{os.fstat(inert.fileno()).st_ino}]")
            flags = notice.arguments[1]
            inert.setblocking(not flags & _NONBLOCKING)
            number = notice.add(inert.fileno(), flags & _CLOSED_BY_EXEC)
            inert.close()
            notice.done(number)
        else:
            notice.refuse(errno.EPERM)

    def _pass(self, notice: Notice, connection: socket.socket) -> None:
        """Put a connection in place of the caller's socket."""
        number = notice.arguments[0] & 0xFFFFFFFF
        with open(f"/proc/{notice.pid}/fdinfo/{number}") as file:
            flags = int(file.read().partition("flags:")[2].split()[0], 8)
        connection.setblocking(not flags & _NONBLOCKING)
        with connection:
            notice.replace(number, connection.fileno(), flags & _CLOSED_BY_EXEC)
        notice.done()

    def _descriptor(self, notice: Notice) -> str:
        return os.readlink(f"/proc/{notice.pid}/fd/{notice.arguments[0] & 0xFFFFFFFF}")

    def _listens_inside(self, port: int) -> bool:
        return self._held_inside(_listeners(port))

    def _held_inside(self, sockets: set[str]) -> bool:
        """Whether a process of this sandbox has one of these sockets of its network."""
        if self._own_network or not sockets:
            return bool(sockets)
        for pid in process_table.processes(os.getpid()):
            try:
                for name in os.listdir(f"/proc/{pid}/fd"):
                    if os.readlink(f"/proc/{pid}/fd/{name}") in sockets:
                        return True
            except OSError:
                continue
        return False


def _is_loopback(address: str) -> bool:
    return address.startswith(_LOOPBACK) or address in _EVERYWHERE


def _listeners(port: int) -> set[str]:
    """The sockets that listen on a TCP port, as descriptors name them (proc_net_tcp)."""
    return {f"socket:[{row[9]}]" for row in _sockets("tcp", port) if row[3] == _LISTENS}


def _unix_sockets(path: str = "") -> set[str]:
    """The unix sockets with a name, which may have been created in another folder; or all."""
    name = os.path.basename(path)
    sockets = set()
    with open("/proc/self/net/unix", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            row = line.rstrip("\n").split(None, 7)
            if len(row) > 6 and (not name or os.path.basename(row[7] if row[7:] else "") == name):
                sockets.add(f"socket:[{row[6]}]")
    return sockets


def _has_listener(port: int, kind: str) -> bool:
    return bool(_sockets(kind, port))


def _sockets(kind: str, port: int) -> list[list[str]]:
    rows = []
    for family in ("", "6"):
        try:
            with open(f"/proc/self/net/{kind}{family}") as file:
                rows += [row for line in file if (row := line.split())[0] != "sl"]
        except OSError:
            continue
    return [row for row in rows if int(row[1].rpartition(":")[2], 16) == port]
