"""The journal of one run: read once, kept in memory, and written by another thread.

The event loop has workers to keep alive, and a store may be locked for seconds. So an entry is
known at once and written in the background, in the order in which entries were made. What is
written is then always the beginning of what happened. Whoever is about to pay for something waits
for `flush` first: nothing is paid for because of an entry that a kill could undo.
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
    """Entries of a run by key, never changed. To be used from one thread.

    Args:
        journal: Where they are kept.
        run_id: The run. No other process may write to it meanwhile.
    """

    def __init__(self, journal: Journal, run_id: str) -> None:
        self._journal = journal
        self._run_id = run_id
        self._known: dict[str, Any] | None = None
        self._lock = threading.Lock()
        """Guards the three below, which the writing thread shares."""
        self._waiting: list[tuple[str, Any, float]] = []
        self._writing = False
        self._failure: RatchetError | None = None
        self._written: asyncio.Future[None] | None = None
        """Done once what was waiting when it was made is written, or could not be."""

    async def load(self) -> None:
        """Read what the run has journaled so far, once.

        Raises:
            StoreError: It cannot be read.
        """
        if self._known is None:
            found = await asyncio.to_thread(self._journal.read, self._run_id)
            if self._known is None:
                self._known = dict(found)

    @property
    def entries(self) -> dict[str, Any]:
        """Every body by its key, oldest first. Read here and now when `load` was not called."""
        if self._known is None:
            self._known = dict(self._journal.read(self._run_id))
        return self._known

    def append(self, key: str, body: Any) -> Any:
        """Add an entry unless the key has one; return the body that it has.

        Raises:
            InputError: The body has no JSON form.
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
                self._write()  # no loop would be kept waiting
            else:
                # A loop that is closed waits for what was begun in its threads.
                self._written = loop.run_in_executor(None, self._write)
        return body

    async def flush(self) -> None:
        """Wait until what was added is written.

        Raises:
            StoreError: It could not be written.
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
                kept = self._journal.append_all(self._run_id, batch)
                if any(kept[key] != body for key, body, _ in batch):
                    failure = Conflict(
                        f"Another process works on the run {self._run_id[:12]}, too.",
                        hint="End one of the two, and run the same command again: it goes on from"
                        " what both have done.",
                    )
            except RatchetError as error:
                failure = error
            with self._lock:
                self._failure = failure
