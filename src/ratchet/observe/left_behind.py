"""Delivers what killed processes of an agent left in its spool, from another process.

The agent's next process does so, too. But a process may be killed by the very call that counts, and
be the last one of its kind.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from ratchet.observe.delivery import Delivery
from ratchet.observe.sending import Record, by_kind, transport_error
from ratchet.observe.spool import Spool, waits
from ratchet.store import Store
from ratchet.types import RatchetError


class _OpenStore:
    """Stores records in a store that stays open."""

    label = "the project's store"

    def __init__(self, store: Store) -> None:
        self._store = store

    def send(self, records: Sequence[Record], /) -> None:
        """Store records."""
        spans, feedback = by_kind(records)
        try:
            if spans:
                self._store.spans.put(spans)
            if feedback:
                self._store.feedback.add(feedback, time.time())
        except RatchetError as error:
            raise transport_error(error) from error

    def close(self) -> None:
        """Leave the store open."""


class LeftBehind:
    """The records in a spool that no living process holds.

    Args:
        store: Where they belong.
        folder: The spool's folder.
    """

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder

    def deliver(self) -> None:
        """Store what was left behind. What cannot be stored now stays for the next time."""
        if not waits(self._folder):
            return
        delivery = Delivery(_OpenStore(self._store), Spool(self._folder), time.monotonic)
        while delivery.due_s == 0.0:
            delivery.retry()
        delivery.close()
