"""Leadership: only one of several processes on a store runs an agent's autopilot."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ratchet.store import Store
from ratchet.types import Conflict, Lease, StoreError

LEASE_S, RENEWAL_INTERVAL_S = 15.0, 5.0
"""Seconds until a lease runs out, and between renewals."""


class Leader:
    """Takes the lease of an agent's autopilot, and renews it in its own thread.

    Long work does not lose it. A leader that was cut off from the store finds its writes refused.

    Args:
        store: The store.
        agent: The agent's name.
        clock: Unix seconds.
    """

    def __init__(self, store: Store, agent: str, clock: Callable[[], float] = time.time) -> None:
        self.holder = uuid.uuid4().hex
        self.name = f"autopilot/{agent}"
        self._store = store
        self._clock = clock
        self._stop = threading.Event()
        self._lost = threading.Event()
        self.lease: Lease | None = None

    @property
    def leads(self) -> bool:
        """Whether this process leads, as far as it knows."""
        return self.lease is not None and not self._lost.is_set()

    @contextmanager
    def leading(self) -> Iterator[bool]:
        """Try to lead within the block; yields whether that succeeded.

        In the block, every write to the store carries the lease's fencing token.
        """
        self.lease = self._acquire()
        if self.lease is None:
            yield False
            return
        self._stop.clear()
        self._lost.clear()
        thread = threading.Thread(target=self._renew, name="ratchet-lease", daemon=True)
        thread.start()
        try:
            with self._store.leases.guard(self.lease):
                yield True
        finally:
            self._stop.set()
            thread.join()
            lease, self.lease = self.lease, None
            with contextlib.suppress(StoreError):  # it runs out by itself
                self._store.leases.release(lease)

    def _acquire(self) -> Lease | None:
        return self._store.leases.acquire(self.name, self.holder, now=self._clock(), ttl_s=LEASE_S)

    def _renew(self) -> None:
        while not self._stop.wait(RENEWAL_INTERVAL_S):
            try:
                lease = self._acquire()
            except (Conflict, StoreError):
                continue  # the store may be back before the lease runs out
            if lease is None or self.lease is None or lease.fence != self.lease.fence:
                self._lost.set()
                return
