"""Selects the queued rollouts of a claim that names several queues, which take turns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select

from ratchet.store.statements import NEXT_OLDEST, OLDEST
from ratchet.store.tables import QUEUED, rollouts

EVERY = "/*"
"""A name that ends so stands for every queue that begins with what precedes the star."""

MAX_QUEUES = 100
"""Most queues that one such name stands for in one claim; the next claim goes on after them."""

_QUEUE = (
    select(rollouts.c.queue)
    .where(QUEUED, rollouts.c.queue < bindparam("before"))
    .order_by(rollouts.c.queue)
    .limit(1)
)
_QUEUE_FROM = _QUEUE.where(rollouts.c.queue >= bindparam("at"))
_QUEUE_AFTER = _QUEUE.where(rollouts.c.queue > bindparam("at"))
"""The next queue with queued rollouts: one step in an index. Arguments: `at`, `before`."""


def oldest(
    connection: Connection, queue: str, limit: int, beyond: Sequence[Row[Any]] = ()
) -> Sequence[Row[Any]]:
    """The oldest queued rollouts of a queue, beyond those that were selected before."""
    given = {"of_queue": queue, "how_many": limit}
    if not beyond:
        return connection.execute(OLDEST, given).all()
    return connection.execute(NEXT_OLDEST, {**given, "after_seq": beyond[-1].seq}).all()


def queued_queues(
    connection: Connection, prefix: str, *, after: str = "", limit: int = MAX_QUEUES
) -> list[str]:
    """Names of queues that have queued rollouts, in order; each costs one step in an index.

    Args:
        connection: The transaction.
        prefix: Only names that begin so.
        after: Only names after this one, which begins so too; empty for all.
        limit: Most names.
    """
    found: list[str] = []
    step, at = (_QUEUE_AFTER, after) if after else (_QUEUE_FROM, prefix)
    while len(found) < limit:
        name = connection.scalar(step, {"at": at, "before": prefix + "\U0010ffff"})
        if name is None:
            break
        found.append(name)
        step, at = _QUEUE_AFTER, name
    return found


class Turns:
    """Remembers whose turn it is, for each set of queues that runners serve."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], str] = {}
        """The queue that was served last. Lost with the process, which costs one turn."""

    def take(self, connection: Connection, queues: Sequence[str], limit: int) -> Sequence[Row[Any]]:
        """Select queued rollouts, the oldest of each queue first.

        Each queue gets an equal share; what one does not need is shared by the others.

        Args:
            connection: The transaction.
            queues: Names of queues; one that ends with /* stands for all that begin so.
            limit: Most rollouts.
        """
        if len(queues) == 1 and not queues[0].endswith(EVERY):
            return oldest(connection, queues[0], limit)
        key = tuple(queues)
        last = self._last.get(key, "")
        names = _in_turn(connection, queues, last)
        rows: dict[str, list[Row[Any]]] = {name: [] for name in names}
        left = limit
        while left and names:
            share = -(-left // len(names))
            still: list[str] = []
            for name in names:
                wanted = min(share, left)
                if not wanted:
                    break
                have = rows[name]
                found = oldest(connection, name, wanted, have)
                have.extend(found)
                left -= len(found)
                if found:
                    last = name
                if len(found) == wanted:
                    still.append(name)
            names = still
        self._last[key] = last
        mixed = chain.from_iterable(zip_longest(*rows.values()))
        return [row for row in mixed if row is not None]


def _in_turn(connection: Connection, queues: Sequence[str], last: str) -> list[str]:
    """Names of queues to serve, beginning after the one that was served last."""
    names: dict[str, None] = {}
    for queue in queues:
        if not queue.endswith(EVERY):
            names[queue] = None
            continue
        prefix = queue[:-1]
        after = last if last.startswith(prefix) else ""
        found = queued_queues(connection, prefix, after=after)
        if after and len(found) < MAX_QUEUES:
            found += queued_queues(connection, prefix, limit=MAX_QUEUES - len(found))
        names.update(dict.fromkeys(found))
    listed = list(names)
    at = listed.index(last) + 1 if last in names else 0
    return listed[at:] + listed[:at]
