"""The clock by which leases expire: on Postgres the database's, since the machines' clocks
differ."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlalchemy import text

if TYPE_CHECKING:
    from ratchet.store.engine import Database

IGNORED_S = 1.0
"""Smaller differences cannot be distinguished from the time that the query takes."""

MEASURE_S = 60.0
"""Seconds after which the difference is measured again."""

_NOW = text("SELECT extract(epoch FROM clock_timestamp())")

log = logging.getLogger("ratchet.store")


class LeaseClock:
    """Converts this machine's times to those of the clock that all machines of a store share.

    A SQLite store is on one machine, whose clock it is.

    Args:
        database: The database.
        own: This machine's clock, in Unix seconds.
        ticks: Monotonic clock in seconds.
    """

    def __init__(
        self,
        database: Database,
        own: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._own = own
        self._ticks = ticks
        self._skew = 0.0
        self._measure_at = float("-inf")

    def shared(self, now: float) -> float:
        """A time of this machine's clock, on the shared clock.

        Raises:
            StoreError: The database cannot be asked.
        """
        if not self._database.is_sqlite and self._ticks() >= self._measure_at:
            self._measure()
        return now + self._skew

    def _measure(self) -> None:
        before = self._own()
        theirs = self._database.read(lambda c: float(c.execute(_NOW).scalar_one()))
        skew = theirs - (before + self._own()) / 2
        skew = skew if abs(skew) >= IGNORED_S else 0.0
        if abs(skew - self._skew) >= IGNORED_S:
            side = "behind" if skew > 0 else "ahead of"
            log.warning(
                "The clock of this machine is %.0f s %s the database's, by which leases expire. "
                "Synchronise it, for example with NTP.",
                abs(skew),
                side,
            )
        self._skew = skew
        self._measure_at = self._ticks() + MEASURE_S
