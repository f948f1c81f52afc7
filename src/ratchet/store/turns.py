"""Selects the queued rollouts of a claim that names several queues, which take turns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any

from sqlalchemy import Connection, Row, TextClause, text

from ratchet.store.statements import NEXT_OLDEST, OLDEST_QUEUED
from ratchet.store.tables import QUEUED

QUEUE_WILDCARD = "/*"
"""A name with this suffix stands for every queue that begins with what precedes the star."""

ROLLOUTS_PER_QUEUE = 4
"""A claim from many queues gets about this many rollouts from each: each costs a statement."""

MAX_QUEUES = 100
"""Maximum number of queues that a name with a wildcard covers in one claim; the next continues."""


def _names(table: str) -> TextClause:
    # Each step is one look into the index of queued rollouts, however many there are.
    step = f"SELECT queue FROM {table} WHERE {QUEUED} AND queue < :before"  # noqa: S608 - constants
    order = "ORDER BY queue, seq LIMIT 1"
    return text(
        "WITH RECURSIVE step(name) AS ("  # noqa: S608 - constants
        f" SELECT ({step} AND queue >= :prefix AND queue > :after {order})"
        f" UNION ALL SELECT ({step} AND queue > step.name {order})"
        " FROM step WHERE step.name IS NOT NULL)"
        " SELECT name FROM step WHERE name IS NOT NULL LIMIT :how_many"
    )


# SQLite takes an index that holds the status for better, and would read every queued rollout.
_NAMES = {
    "sqlite": _names("rollouts INDEXED BY ix_rollouts_queued"),
    "postgresql": _names("rollouts"),
}
"""Names of queues with queued rollouts, in order. Arguments: `prefix`, `after`, `before`, which is
the end of the names with that prefix, and `how_many`."""


def oldest(
    connection: Connection, queue: str, limit: int, beyond: Sequence[Row[Any]] = ()
) -> Sequence[Row[Any]]:
    """The oldest queued rollouts of a queue, after those that were selected before."""
    parameters = {"of_queue": queue, "how_many": limit}
    if not beyond:
        return connection.execute(OLDEST_QUEUED, parameters).all()
    return connection.execute(NEXT_OLDEST, {**parameters, "after_seq": beyond[-1].seq}).all()


def queued_queues(
    connection: Connection, prefix: str, *, after: str = "", limit: int = MAX_QUEUES
) -> list[str]:
    """Names of queues that have queued rollouts, in order.

    Args:
        connection: The transaction.
        prefix: Only names that begin so.
        after: Only names after this one; empty for all.
        limit: Maximum number of names.
    """
    parameters = {"prefix": prefix, "after": after, "before": prefix + "\U0010ffff"}
    return list(
        connection.scalars(_NAMES[connection.dialect.name], {**parameters, "how_many": limit})
    )


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
            limit: Maximum number of rollouts.
        """
        if len(queues) == 1 and not queues[0].endswith(QUEUE_WILDCARD):
            return oldest(connection, queues[0], limit)
        key = tuple(queues)
        last = self._last.get(key, "")
        exact_count = sum(not queue.endswith(QUEUE_WILDCARD) for queue in queues)
        width = exact_count + max(2, -(-limit // ROLLOUTS_PER_QUEUE))
        names = _in_turn(connection, queues, last, width)
        more = len(names) >= width
        rows: dict[str, list[Row[Any]]] = {}
        left = limit
        while left and names:
            serving, names = names[:width], names[width:]
            while left and serving:
                share = -(-left // len(serving))
                still: list[str] = []
                for name in serving:
                    wanted = min(share, left)
                    if not wanted:
                        break
                    have = rows.setdefault(name, [])
                    oldest_rows = oldest(connection, name, wanted, have)
                    have.extend(oldest_rows)
                    left -= len(oldest_rows)
                    if oldest_rows:
                        last = name
                    if len(oldest_rows) == wanted:
                        still.append(name)
                serving = still
            if left and not names and more:
                more = False
                queued_names = _in_turn(connection, queues, last, MAX_QUEUES)
                names = [name for name in queued_names if name not in rows]
        self._last[key] = last
        mixed = chain.from_iterable(zip_longest(*rows.values()))
        return [row for row in mixed if row is not None]


def _in_turn(connection: Connection, queues: Sequence[str], last: str, limit: int) -> list[str]:
    """Names of queues to serve, beginning after the one that was served last.

    Of those that a pattern stands for, `limit` or one more.
    """
    names: dict[str, None] = {}
    for queue in queues:
        if not queue.endswith(QUEUE_WILDCARD):
            names[queue] = None
            continue
        prefix = queue[:-1]
        matching = queued_queues(connection, prefix, limit=limit + 1)
        if len(matching) > limit and last.startswith(prefix):
            later = queued_queues(connection, prefix, after=last, limit=limit)
            matching = later + [name for name in matching if name not in later]
            names.update(dict.fromkeys(matching[:limit]))
        else:
            names.update(dict.fromkeys(matching))
    listed = list(names)
    at = listed.index(last) + 1 if last in names else 0
    return listed[at:] + listed[:at]
