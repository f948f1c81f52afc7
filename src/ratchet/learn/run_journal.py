"""The journal of one run: loaded once, cached in memory, and written by a background thread.

The event loop must serve heartbeats, and the store may be locked for seconds. So an entry is
visible at once and written in the background, in order. The stored entries are then always a prefix
of those appended. Callers await `flush` before they pay for anything, so that no payment depends on
an entry that a kill could lose.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from ratchet.store.columns import decode, encode
from ratchet.store.journal import Journal
from ratchet.types import Conflict, RatchetError


class RunJournal:
    """Immutable entries of a run by key. Not thread-safe: use from one thread.

    Args:
        journal: The repository that stores them.
        run_id: The run. No other process may write to it at the same time.
    """

    def __init__(self, journal: Journal, run_id: str) -> None:
        self._journal = journal
        self._run_id = run_id
        self._known: dict[str, Any] | None = None
        self._lock = threading.Lock()
        """Guards the three attributes below, which the writer thread shares."""
        self._waiting: list[tuple[str, Any, float]] = []
        self._writing = False
        self._failure: RatchetError | None = None
        self._written: asyncio.Future[None] | None = None
        """Done once the entries that were pending at its creation are written, or have failed."""

    async def load(self) -> None:
        """Load the run's stored entries, once.

        Raises:
            StoreError: The journal cannot be read.
        """
        if self._known is None:
            entries = await asyncio.to_thread(self._journal.read, self._run_id)
            if self._known is None:
                self._known = dict(entries)

    @property
    def entries(self) -> dict[str, Any]:
        """All bodies by key, oldest first. Loads synchronously if `load` was not called."""
        if self._known is None:
            self._known = dict(self._journal.read(self._run_id))
        return self._known

    def append(self, key: str, body: Any) -> Any:
        """Add an entry unless the key exists; returns the stored body.

        Raises:
            InputError: The body is not JSON-serialisable.
            StoreError: An earlier entry could not be written.
            Conflict: Another process writes to this run.
        """
        entries = self.entries
        if key in entries:
            return entries[key]
        body = decode(encode(body))
        with self._lock:
            if self._failure is not None:
                raise self._failure
            self._waiting.append((key, body, time.time()))
            begins, self._writing = not self._writing, True
        entries[key] = body
        if begins:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                self._write()  # there is no event loop to block
            else:
                # On close, a loop waits for its threads, so the write completes.
                self._written = loop.run_in_executor(None, self._write)
        return body

    async def flush(self) -> None:
        """Wait until all added entries are written.

        Raises:
            StoreError: They could not be written.
            Conflict: Another process writes to this run.
        """
        if self._written is not None:
            await asyncio.shield(self._written)
        if self._failure is not None:
            raise self._failure

    def _write(self) -> None:
        while True:
            with self._lock:
                batch, self._waiting = self._waiting, []
                if not batch or self._failure is not None:
                    self._writing = False
                    return
            failure: RatchetError | None = None
            try:
                stored = self._journal.append_all(self._run_id, batch)
                if any(stored[key] != body for key, body, _ in batch):
                    failure = Conflict(
                        f"Another process is writing to the run {self._run_id[:12]}.",
                        hint="Stop one of the two, then run the same command again: it continues "
                        "from the work of both.",
                    )
            except RatchetError as error:
                failure = error
            with self._lock:
                self._failure = failure


class PartJournal:
    """The journal as one part of a run sees it: keys of its steps begin with the part's path.

    Args:
        journal: The run's journal.
        part: `STEP/` for each level; empty for the whole run.
    """

    def __init__(self, journal: RunJournal, part: str = "") -> None:
        self.run = journal
        self.part = part

    def key(self, kind: str, step: str) -> str:
        """The key of an entry of this part."""
        return f"{kind}/{self.part}{step}"

    async def get(self, key: str) -> Any:
        """The entry of this key; None if there is none."""
        await self.run.load()
        return self.run.entries.get(key)

    def append(self, key: str, body: Any) -> Any:
        """Add an entry unless the key exists; returns the stored body. Raises as
        `RunJournal.append`."""
        return self.run.append(key, body)
