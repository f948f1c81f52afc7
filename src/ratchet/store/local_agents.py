"""The agents on this machine: collects what they recorded, and tells them what to run.

An agent without a server opens no database. It appends to a spool, and reads a file with the
versions that it should run; both lie where its store says (`meeting_place`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Protocol

from ratchet.observe.agent_names import agent_name
from ratchet.observe.background import suppress_tracing
from ratchet.observe.bundles import read_bundle, write_bundle
from ratchet.observe.delivery import Delivery
from ratchet.observe.destination import (
    MeetingPlace,
    destination_digest,
    live_file,
    meeting_place,
)
from ratchet.observe.frames import Record, by_kind
from ratchet.observe.sending import transport_error
from ratchet.observe.spool import Spool, waits
from ratchet.store import Store
from ratchet.types import LiveVersions, RatchetError

INTERVAL_S = 1.0
"""Seconds between two checks for what agents recorded."""

OPEN_TIMEOUT_S = 60.0
"""Longest time that opening a store waits for what agents recorded, in seconds."""

NOTICE_AFTER_S = 2.0
"""Seconds after which it says what it is waiting for."""

CLOSE_TIMEOUT_S = 5.0
"""Longest time that closing a store waits for its thread, in seconds."""

LOCKED_S = 2.0
"""How long a locked store is retried before the records stay in the spool, in seconds."""

_log = logging.getLogger("ratchet")


class PromptFiles(Protocol):
    """The prompt files from which live agents read a release's prompts."""

    def mark(self) -> Hashable:
        """A value that differs whenever a file has changed."""
        ...

    def publish(self, versions: LiveVersions, file: Path, /) -> None:
        """Write the prompt files for an agent.

        Args:
            versions: What it should run.
            file: Where its versions will be.

        Raises:
            OSError: They cannot be written.
        """
        ...


def open_with_agents(
    url: str, *, patience_s: float = 0.0, prompt_files: PromptFiles | None = None
) -> Store:
    """Open a store that takes in what agents on this machine record, as long as it is open.

    What they recorded so far is in it when this returns.

    Args:
        url: The store's URL.
        patience_s: Seconds to retry while the database cannot be reached.
        prompt_files: Those of the project, if it has any.

    Raises:
        StoreError: It cannot be opened.
    """
    store = Store.open(url, patience_s=patience_s)
    agents = LocalAgents(store, url, prompt_files)
    try:
        agents.start()
    except BaseException:
        store.close()
        raise
    store.before_close(agents.close)
    return store


def has_records(url: str) -> bool:
    """Whether agents on this machine recorded anything that a store has not collected yet."""
    return any(map(waits, _spools(meeting_place(url))))


class LocalAgents:
    """Exchanges data with the agents on this machine that record into a store.

    Several processes may do so for one store at once.

    Args:
        store: The store.
        url: Its URL.
        prompt_files: The project's prompt files, if it has any.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self,
        store: Store,
        url: str,
        prompt_files: PromptFiles | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._place = meeting_place(url)
        self._prompt_files = prompt_files
        self._clock = clock
        self._spools: dict[Path, Delivery] = {}
        self._lost: dict[Path, int] = {}
        self._mark: Hashable = None
        self._told_failure = self._told_backlog = False
        self._pid = os.getpid()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ratchet-agents", daemon=True)

    def start(self) -> None:
        """Exchange data with them once now, and then in a thread."""
        self._touch()
        self._thread.start()

    def close(self) -> None:
        """Write what agents should run, and stop."""
        if self._pid != os.getpid():
            return  # a forked child has no thread, and its parent goes on
        self._ended.set()
        self._thread.join(CLOSE_TIMEOUT_S)
        if not self._thread.is_alive():
            self._touch()
            for delivery in self._spools.values():
                delivery.close()

    def ingest(self, limit_s: float) -> None:
        """Store what agents recorded. What cannot be stored now stays for the next time.

        Args:
            limit_s: After how many seconds the rest stays for the next time.
        """
        begun = self._clock()
        for folder in _spools(self._place):
            if folder not in self._spools and not waits(folder):
                continue
            delivery = self._spools.setdefault(
                folder, Delivery(_OpenStore(self._store), Spool(folder), self._clock)
            )
            while delivery.due_s == 0.0 and not self._ended.is_set():
                delivery.retry()
                took = self._clock() - begun
                if took > limit_s:
                    break
                if took > NOTICE_AFTER_S and not self._told_backlog:
                    self._told_backlog = True
                    _log.warning(
                        "Storing what agents recorded on this machine: %.0f MB are left.",
                        _size(_spools(self._place)) / 1e6,
                    )
            self._tell_lost(folder, delivery.lost)

    def publish(self) -> None:
        """Write what each agent should run to the file that it reads, if that has changed.

        Raises:
            StoreError: The store cannot be read.
            OSError: A file cannot be written.
        """
        # Read again afterwards: another process may have changed and written it in between.
        while (mark := self._current_mark()) != self._mark:
            failure: Exception | None = None
            for agent in sorted({*self._store.traffic.agents(), *self._published()}):
                try:
                    if agent_name(agent) == agent:  # no agent of the SDK has another name
                        self._publish(agent)
                except (OSError, RatchetError) as error:  # of this agent: others are told theirs
                    failure = error
            if failure is not None:
                raise failure
            self._mark = mark

    def _publish(self, agent: str) -> None:
        path = live_file(self._place.folder, agent, self._place.address)
        current = read_bundle(path, LiveVersions)
        changed = self._store.traffic.versions(agent, "" if current is None else current.tag)
        versions = changed or current
        assert versions is not None  # without a tag there is an answer
        if self._prompt_files is not None:
            # First, so that an agent that sees the release finds its files.
            self._prompt_files.publish(versions, path)
        if changed is not None:
            write_bundle(path, changed)

    def _current_mark(self) -> Hashable:
        files = self._prompt_files
        return self._store.traffic.mark(), None if files is None else files.mark()

    def _published(self) -> list[str]:
        """Agents that have a file, even if they no longer have a release."""
        ending = f"-{destination_digest(self._place.address)}.json"
        paths = (self._place.folder / "live").glob(f"*{ending}")
        return [path.name.removesuffix(ending) for path in paths]

    def _touch(self) -> None:
        """Collect what they recorded and write what they should run; each failure is reported
        once."""
        try:
            if not self._ended.is_set():
                self.ingest(OPEN_TIMEOUT_S)
            self.publish()
            self._told_failure = False
        except Exception as error:  # the store is of use without it, and its thread goes on
            if not self._told_failure:
                self._told_failure = True
                _log.warning(
                    "Agents on this machine cannot exchange data with the store: %s", error
                )

    def _tell_lost(self, folder: Path, lost: int) -> None:
        if lost > self._lost.get(folder, 0):
            _log.warning("%d records in %s were damaged and are lost.", lost, folder)
            self._lost[folder] = lost

    def _run(self) -> None:
        suppress_tracing()
        while not self._ended.wait(INTERVAL_S):
            self._touch()


class _OpenStore:
    """Writes records to a store that stays open."""

    label = "the store"

    def __init__(self, store: Store) -> None:
        self._store = store

    def send(self, records: Sequence[Record], /) -> None:
        """Store records."""
        spans, feedback = by_kind(records)
        try:
            if spans:
                self._store.spans.put(spans, patience_s=LOCKED_S)
            if feedback:
                self._store.feedback.add(feedback, time.time())
        except RatchetError as error:
            raise transport_error(error) from error

    def close(self) -> None:
        """Leave the store open."""


def _spools(place: MeetingPlace) -> list[Path]:
    """The spools of a store's agents."""
    return sorted((place.folder / "spool").glob(f"*-{destination_digest(place.address)}"))


def _size(folders: Sequence[Path]) -> int:
    """Bytes of all files in some folders."""
    size = 0
    for folder in folders:
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                size += path.stat().st_size
    return size
