"""What runs under way are doing: when their process last reported, and what it waits for."""

from __future__ import annotations

import msgspec
from sqlalchemy import delete, select

from ratchet._waiting import LongWait
from ratchet.store.columns import decode, encode
from ratchet.store.engine import Database
from ratchet.store.tables import activity

SILENCE_LIMIT_S = 30.0
"""Seconds for which a process without news is assumed to be at work."""


class Activity:
    """The last report of the process of each run under way."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._upsert = database.upsert(activity, ("run_id",), ("at", "waits"))

    def put(self, run_id: str, waits: list[LongWait], now: float) -> None:
        """Report that a run is at work, and what it waits for.

        Args:
            run_id: The run.
            waits: What it waits for, the longest first; empty while it works.
            now: Unix seconds.
        """
        row = {"run_id": run_id, "at": now, "waits": encode(waits)}
        self._database.write(lambda connection: connection.execute(self._upsert, row))

    def end(self, run_id: str) -> None:
        """Report that nobody works on a run any more."""
        query = delete(activity).where(activity.c.run_id == run_id)
        self._database.write(lambda connection: connection.execute(query))

    def waits(self, run_id: str, now: float) -> list[LongWait] | None:
        """What a run waits for, longest wait first; None if no process is at work on it.

        Args:
            run_id: The run.
            now: Unix seconds.
        """
        query = select(activity.c.at, activity.c.waits).where(activity.c.run_id == run_id)
        row = self._database.read(lambda connection: connection.execute(query).first())
        if row is None or now - row.at > SILENCE_LIMIT_S:
            return None
        return msgspec.convert(decode(row.waits), list[LongWait])
