"""Repository of recordings: what traces recorded of their input and output, page by page."""

from __future__ import annotations

import builtins
from collections.abc import Callable

from sqlalchemy import Connection

from ratchet.store.engine import Database
from ratchet.store.recorded_spans import recordings_of
from ratchet.store.traces import cursor_of, oldest_of, page_of, position_of
from ratchet.store.usage import Price
from ratchet.types.trace import EVERY, Trace, TraceFilter, TraceRecording

PAGE = 200
"""Traces per page, at most."""


class Recordings:
    """Inputs and outputs of traces; few spans of a trace are read."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(
        self,
        criteria: TraceFilter = EVERY,
        *,
        wanted: Callable[[Trace], bool] = lambda _: True,
        cursor: str | None = None,
        limit: int = PAGE,
    ) -> tuple[builtins.list[TraceRecording], int, str | None]:
        """Read one page, newest first.

        Args:
            criteria: Filter. Unless it filters by cost, the traces' costs are not computed.
            wanted: Whether to read a trace that passed it.
            cursor: Cursor returned with the previous page.
            limit: Traces to examine for the page, at most.

        Returns:
            The recordings, the number of traces that were examined for them, and the cursor of the
            next page or None after the last. A page may be empty although there is a next one.

        Raises:
            InputError: The cursor is invalid.
        """
        after = None if cursor is None else position_of(cursor)

        def work(connection: Connection) -> tuple[builtins.list[TraceRecording], int, str | None]:
            usage = criteria.min_cost_usd is not None
            page, more = page_of(connection, criteria, limit, after, usage=usage)
            read = {key: trace for key, trace in page.items() if wanted(trace)}
            return builtins.list(recordings_of(connection, read).values()), len(page), more

        return self._database.read(work)

    def following(
        self,
        criteria: TraceFilter,
        *,
        cursor: str | None = None,
        limit: int = PAGE,
        price: Price | None = None,
        ready: Callable[[TraceRecording], bool] = lambda _: True,
    ) -> tuple[builtins.list[TraceRecording], str | None]:
        """Read live traces in order of their start, to go on later where this ended.

        Args:
            criteria: Filter.
            cursor: What the previous call returned.
            limit: Traces to examine.
            price: Prices of calls that recorded no cost.
            ready: Whether a trace may be read now. The page ends before the first that may not.

        Returns:
            The recordings, and the cursor behind the last trace that was examined. Without any, the
            cursor is that given.

        Raises:
            InputError: The cursor is invalid.
        """
        after = None if cursor is None else position_of(cursor)

        def work(connection: Connection) -> tuple[builtins.list[TraceRecording], str | None]:
            oldest, places = oldest_of(connection, criteria, limit, after, price)
            recordings = recordings_of(connection, oldest)
            page: builtins.list[TraceRecording] = []
            last = after
            for key, place in places.items():
                recording = recordings.get(key)
                if recording is not None:
                    if not ready(recording):
                        break
                    page.append(recording)
                last = place
            return page, cursor_of(last)

        return self._database.read(work)
