"""Answers the calls of a program that is watched and denied nothing, and reports what it did."""

from __future__ import annotations

import os
import re
import socket

from .act_log import ALLOWED
from .effects import (
    CONNECT,
    NAME_SERVICE,
    PROGRAM,
    SOCKET,
    WRITE,
    Effect,
    asked_name,
    effects,
    payloads,
)
from .mounts import ACCELERATORS

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable

    from .notices import Notice

    Report = Callable[[Effect, str], None]

_HARMLESS = re.compile(
    rf"/dev/(null|zero|full|u?random|tty|ptmx|pts/.*|({'|'.join(ACCELERATORS)}).*)|/proc/\d+/.*"
)
_RESOLVERS = "/run/systemd/resolve/"


def is_noise(effect: Effect) -> bool:
    """Whether an effect changes nothing of value: only a device, or a cache of bytecode."""
    return effect.kind == WRITE and (
        _HARMLESS.fullmatch(effect.subject) is not None or "/__pycache__" in effect.subject
    )


class Observer:
    """Lets every call continue.

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
        """(thread, descriptor) of each socket that is connected to a name service."""
        self._asked: dict[str, frozenset[str] | None] = {}
        """The addresses of names that were looked up, the latest last; None: not known yet."""
        self._names = dict(reversed(hosts_table()))

    def decide(self, notice: Notice) -> None:
        """Answer a call, and report it."""
        try:
            asks = (notice.pid, notice.arguments[0]) in self._asking
            if notice.name in ("sendto", "sendmsg", "sendmmsg"):
                self._ask(notice, asks)
            noticed = effects(notice)
        except (OSError, ValueError):
            noticed = []
        # Before the report: looking for a name takes time.
        notice.let()
        for effect in noticed:
            if effect.kind == SOCKET and not _is_there(effect.subject):
                continue
            if effect.kind == CONNECT:
                if effect.port == NAME_SERVICE:
                    self._asking.add((notice.pid, notice.arguments[0]))
                if effect.port in (0, NAME_SERVICE):
                    continue
                effect.subject = self._name(effect.subject)
            elif effect.kind == SOCKET and effect.subject.startswith(_RESOLVERS):
                self._asking.add((notice.pid, notice.arguments[0]))
                continue
            elif notice.name == "connect":
                self._asking.discard((notice.pid, notice.arguments[0]))
            elif effect.kind == PROGRAM:
                own, self._executed = notice.pid == self._executed, 0
                if own or not os.access(effect.subject, os.X_OK):
                    continue
            if not is_noise(effect):
                self._report(effect, ALLOWED)

    def _ask(self, notice: Notice, asks: bool) -> None:
        asks = asks or any(a.port == NAME_SERVICE for a in effects(notice))
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
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return frozenset()
    return frozenset(str(address[0]) for *_, address in answers)


def hosts_table() -> list[tuple[str, str]]:
    """Addresses and names in the machine's own table; an address may have several names."""
    rows = [("127.0.0.1", "localhost"), ("::1", "localhost")]
    try:
        with open("/etc/hosts", encoding="utf-8", errors="replace") as file:
            for line in file:
                address, *aliases = line.partition("#")[0].split() or [""]
                rows += [(address, name.lower()) for name in aliases]
    except OSError:
        pass
    return rows
