"""Follows an agent's releases at run time: reads what it should run, in the background.

The tool writes it to a file. What a server said last is kept in one, so that a process starts with
it while the server is away. Without either, the agent runs its own source.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ratchet import _live_calls
from ratchet._live_calls import LiveCall
from ratchet.observe.background import is_importing, suppress_tracing
from ratchet.observe.bundles import read_bundle, write_bundle
from ratchet.observe.conversations import CONVERSATION_ID, USER_ID
from ratchet.types import LiveVersions, RatchetError

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from ratchet.client import Client
    from ratchet.observe.step_span import StepSpan

OWN_SOURCE_VARIABLE = "RATCHET_OWN_SOURCE"
"""RATCHET_OWN_SOURCE=1 makes an agent run its own source, whatever is released."""

OWN_SOURCE_FILE = "own-source"
"""A file of this name in the state folder does the same, for running processes within a second."""

FILE_S = 1.0
"""Interval between looks at a file, in seconds."""

SERVER_S = 10.0
"""Interval between readings of a server, in seconds."""

MAX_PAUSE_S = 60.0
"""Longest interval while the source is unavailable, in seconds."""

TIMEOUT_S = 5.0
"""Time-out of one request to a server, in seconds."""

EXIT_TIMEOUT_S = 0.5
"""How long the end of a process waits for a reading, in seconds."""

_log = logging.getLogger("ratchet")


class VersionSource(Protocol):
    """Where an agent's versions are read. Called by one thread."""

    interval_s: float
    """Seconds between readings."""

    def read(self, tag: str, /) -> LiveVersions | None:
        """The agent's versions; None if the tag shows that they have not changed.

        Raises:
            Exception: They cannot be read now.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class FileVersions:
    """Versions in a file that the tool writes.

    Args:
        path: The file.
        agent: The agent's name.
    """

    interval_s = FILE_S

    def __init__(self, path: Path, agent: str) -> None:
        self._path = path
        self._agent = agent
        self._seen: tuple[int, int, int] | None = None

    def read(self, tag: str, /) -> LiveVersions | None:
        """The agent's versions; None if the file is unchanged or damaged.

        Without a file it is the agent's own source.
        """
        try:
            status = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            versions: LiveVersions | None = LiveVersions(agent=self._agent)
            self._seen = None
        else:
            fingerprint = (status.st_ino, status.st_mtime_ns, status.st_size)
            if fingerprint == self._seen:
                return None
            versions = read_bundle(self._path, LiveVersions)
            if versions is None:
                _log.warning("%s is damaged: releases stay as they are.", self._path)
            self._seen = fingerprint
        return None if versions is None or versions.tag == tag else versions

    def close(self) -> None:
        """Do nothing: no file stays open."""


class ServerVersions:
    """Versions at a server.

    Args:
        url: Its address.
        key: Its key; RATCHET_KEY when left out.
        agent: The agent's name.
    """

    interval_s = SERVER_S

    def __init__(self, url: str, key: str | None, agent: str) -> None:
        self._url = url
        self._key = key
        self._agent = agent
        self._client: Client | None = None

    def read(self, tag: str, /) -> LiveVersions | None:
        """The agent's versions; None if the tag shows that they have not changed."""
        if self._client is None:
            from ratchet.client import Client
            from ratchet.client.address import key_of

            key = key_of(self._key) or ""
            self._client = Client(self._url, key, patience_s=0.0, timeout_s=TIMEOUT_S)
        return self._client.traffic.versions(self._agent, tag)

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()


class ReleaseFollower:
    """Reads an agent's versions in a daemon thread and serves them to this process.

    Args:
        open: Makes the source; called again after a fork.
        bundle: File that keeps what was read last; None for a source on this machine's disk, which
            is read as `start` runs.
        switch: File whose existence makes the agent run its own source.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self,
        open: Callable[[], VersionSource],
        *,
        bundle: Path | None,
        switch: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open = open
        self._bundle = bundle
        self._switch = switch
        self._clock = clock
        self._source: VersionSource | None = None
        self._inherited: list[Any] = []
        self._known: LiveVersions | None = None
        self._off = False
        self._due = 0.0
        self._failures = 0
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._tried = threading.Event()

    @property
    def versions(self) -> LiveVersions | None:
        """What was read last; None while the agent runs its own source."""
        return None if self._off else self._known

    def start(self, wait_s: float = 0.0) -> None:
        """Serve what was read last, and begin to read.

        Args:
            wait_s: How long to wait for the first reading, in seconds.
        """
        self._off = self._switch.exists()
        if self._bundle is None:
            self._read()
        else:
            with contextlib.suppress(OSError):
                self._known = read_bundle(self._bundle, LiveVersions)
            self._serve()
        self._run_thread()
        if wait_s and self._thread is not None:
            self._tried.wait(wait_s)

    def begin(self, span: StepSpan, parent: Span) -> LiveCall | None:
        """Choose the versions of the live call that begins with a step.

        Args:
            span: The step; its attributes say what was chosen.
            parent: What runs around it, whose attributes say it too if it is a span of this
                process.
        """
        if self._thread is None:
            self._run_thread()
        chooser = _live_calls.chooser
        if chooser is None:
            return None
        attributes = span.attributes
        conversation = attributes.get(CONVERSATION_ID)
        unit = conversation or attributes.get(USER_ID) or f"{span.trace_id:032x}"
        chosen = chooser.choose(unit, conversation=bool(conversation))
        if chosen is None:
            return None
        if chosen.attributes:
            attributes.update(chosen.attributes)
            if parent.is_recording():
                parent.set_attributes(chosen.attributes)
        return LiveCall(chosen.resources)

    def poll(self) -> float:
        """Read once, if it is time. Returns the seconds until the next look at the switch."""
        off = self._switch.exists()
        if off is not self._off:
            self._off = off
            self._serve()
        if self._clock() >= self._due:
            self._read()
        return min(FILE_S, max(0.0, self._due - self._clock()))

    def _read(self) -> None:
        interval_s = FILE_S
        try:
            if self._source is None:
                self._source = self._open()
            interval_s = self._source.interval_s
            versions = self._source.read(self._known.tag if self._known is not None else "")
            if versions is not None:
                self._known = versions
                self._serve()
                self._keep(versions)
            self._failures = 0
        except Exception as error:  # nothing may end this thread
            self._failures += 1
            if self._failures == 1:
                why = error.message if isinstance(error, RatchetError) else repr(error)
                _log.info("Releases cannot be read, and stay as they are: %s", why)
            interval_s = min(interval_s * 2**self._failures, MAX_PAUSE_S)
        self._tried.set()
        # Jitter: processes that were started together do not ask together.
        self._due = self._clock() + interval_s * random.uniform(0.8, 1.0)  # noqa: S311

    def _serve(self) -> None:
        chooser = _live_calls.chooser
        if chooser is not None and not self._ended.is_set():
            chooser.serve(None if self._off else self._known)

    def _keep(self, versions: LiveVersions) -> None:
        """Write the bundle; an agent that was never released leaves none."""
        bundle = self._bundle
        if bundle is None:
            return
        if versions.release_id or versions.split is not None or bundle.exists():
            write_bundle(bundle, versions)

    def close(self) -> None:
        """Stop reading; the agent runs its own source from now on."""
        self._ended.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(EXIT_TIMEOUT_S)
        if _live_calls.chooser is not None:
            _live_calls.chooser.serve(None)

    def settle(self, timeout_s: float) -> None:
        """Wait, before a fork, while the thread imports a module."""
        thread = self._thread
        if thread is None or thread.ident is None:
            return
        deadline = time.monotonic() + timeout_s
        while is_importing(thread.ident) and time.monotonic() < deadline:
            time.sleep(0.001)

    def forked(self) -> None:
        """Start again in a forked child, with its next live call."""
        # Kept alive: finalizers would close connections that are the parent's.
        self._inherited.append((self._source, self._thread))
        self._source = self._thread = None
        self._due = 0.0
        self._lock = threading.Lock()
        if _live_calls.chooser is not None:
            _live_calls.chooser.forked()
        ended, self._ended = self._ended, threading.Event()
        if ended.is_set():
            self._ended.set()

    def _run_thread(self) -> None:
        with self._lock:
            if self._thread is not None or self._ended.is_set():
                return
            thread = threading.Thread(target=self._run, name="ratchet-releases", daemon=True)
            # When the interpreter is ending there is nothing left to follow.
            with contextlib.suppress(RuntimeError):
                thread.start()
            self._thread = thread

    def _run(self) -> None:
        suppress_tracing()
        while not self._ended.wait(self.poll()):
            pass
        if self._source is not None:
            self._source.close()
