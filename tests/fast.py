"""`--fast`: what starts a process or a server is left out, and what is left takes a minute.

No list says which tests these are. The interpreter tells when a process is about to be started or
an address taken (`sys.addaudithook`); the test that asked for it is skipped from there on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

REFUSED = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "socket.bind"})
"""Audit events of processes and servers."""

FIXTURES = frozenset({"serving", "postgres_server"})
"""Whoever asks for these is skipped before anything is made."""


class Refused(Exception):
    """A process or a server was asked for."""


class Fast:
    """A plugin: skips tests as soon as they ask for a process or a server."""

    def __init__(self) -> None:
        self._item: pytest.Item | None = None
        self._asked = False
        sys.addaudithook(self._look)

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._item is not None and event in REFUSED:
            self._asked = True
            raise Refused(event)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._item, self._asked = item, False
        try:
            return (yield)
        finally:
            self._item = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if FIXTURES & set(getattr(item, "fixturenames", ())):
            pytest.skip("needs a server")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[Any]:
        report = yield
        if self._asked or (report.failed and _was_refused(call)):
            report.outcome = "skipped"
            report.longrepr = (str(item.path), item.location[1], "starts a process or a server")
        return report


def _was_refused(call: pytest.CallInfo[None]) -> bool:
    """Whether the failure goes back to a refusal, perhaps one of a fixture that others share."""
    error: BaseException | None = call.excinfo.value if call.excinfo else None
    while error is not None:
        if isinstance(error, Refused):
            return True
        error = error.__cause__ or error.__context__
    return False
