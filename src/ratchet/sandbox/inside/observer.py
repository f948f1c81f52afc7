"""Answers the calls of a program that is watched and denied nothing, and names what it did."""

from __future__ import annotations

import os
import socket

from .act_log import ALLOWED
from .attempts import (
    CONNECT,
    NAME_SERVICE,
    PROGRAM,
    SOCKET,
    WRITE,
    Attempt,
    asked_name,
    attempts,
    payloads,
)
from .shared_memory import FOLDER

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable

    from .notices import Notice

    Report = Callable[[Attempt, str], None]

_DEVICES = ("/dev/", "/proc/", "/sys/")
_RESOLVERS = "/run/systemd/resolve/"


def is_noise(attempt: Attempt) -> bool:
    """Whether an attempt changes nothing that anybody keeps: a device, a cache of bytecode."""
    device = attempt.subject.startswith(_DEVICES) and not attempt.subject.startswith(FOLDER)
    return attempt.kind == WRITE and (device or "/__pycache__" in attempt.subject)


class Observer:
    """Lets every call go on.

    A connection shows an address. The host's name is the one asked for last that has this address,
    or that in the machine's own table.

    Args:
        report: Called with what the program did.
        own: The program's process; that it is executed is no act of its own.
    """

    def __init__(self, report: Report, own: int) -> None:
        self._report = report
        self._executed = own
        self._asking: set[tuple[int, int]] = set()
        """Threads' descriptors that lead to a name service."""
        self._asked: dict[str, frozenset[str] | None] = {}
        """The addresses of names that were asked for, the last one last; None: not known yet."""
        self._names = hosts_table()

    def decide(self, notice: Notice) -> None:
        """Answer a call, and report it."""
        try:
            asks = (notice.pid, notice.arguments[0]) in self._asking
            if notice.name in ("sendto", "sendmsg", "sendmmsg"):
                self._ask(notice, asks)
            seen = attempts(notice)
        except (OSError, ValueError):
            seen = []
        # Before the report: looking for a name takes time.
        notice.let()
        for attempt in seen:
            if attempt.kind == SOCKET and not _is_there(attempt.subject):
                continue
            if attempt.kind == CONNECT:
                if attempt.port == NAME_SERVICE:
                    self._asking.add((notice.pid, notice.arguments[0]))
                if attempt.port in (0, NAME_SERVICE):
                    continue
                attempt.subject = self._name(attempt.subject)
            elif attempt.kind == SOCKET and attempt.subject.startswith(_RESOLVERS):
                self._asking.add((notice.pid, notice.arguments[0]))
                continue
            elif notice.name == "connect":
                self._asking.discard((notice.pid, notice.arguments[0]))
            elif attempt.kind == PROGRAM:
                own, self._executed = notice.pid == self._executed, 0
                if own or not os.access(attempt.subject, os.X_OK):
                    continue
            if not is_noise(attempt):
                self._report(attempt, ALLOWED)

    def _ask(self, notice: Notice, asks: bool) -> None:
        asks = asks or any(a.port == NAME_SERVICE for a in attempts(notice))
        for payload in payloads(notice) if asks else ():
            if name := asked_name(payload):
                self._asked[name] = self._asked.pop(name, None)

    def _name(self, address: str) -> str:
        for name, addresses in reversed(self._asked.items()):
            if addresses is None:
                addresses = self._asked[name] = _addresses(name)
            if address in addresses:
                return name
        return self._names.get(address, address)


def _is_there(path: str) -> bool:
    return path.startswith("@") or os.path.exists(path)


def _addresses(name: str) -> frozenset[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return frozenset()
    return frozenset(str(address[0]) for *_, address in found)


def hosts_table() -> dict[str, str]:
    """The names of addresses in the machine's own table."""
    names: dict[str, str] = {}
    try:
        with open("/etc/hosts", encoding="utf-8", errors="replace") as file:
            for line in file:
                address, *named = line.partition("#")[0].split() or [""]
                if named:
                    names.setdefault(address, named[0])
    except OSError:
        pass
    return {**names, "127.0.0.1": "localhost", "::1": "localhost"}
