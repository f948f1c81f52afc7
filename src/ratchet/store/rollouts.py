"""Repository of rollouts: creation, lookup, listing and counting; extends the queue."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, false, func, select, text, union_all

from ratchet.store.columns import clean
from ratchet.store.engine import Database, chunks, prefix_range, starts_with
from ratchet.store.feedback import seq_of
from ratchet.store.queue import Queue
from ratchet.store.rows import cost_of, rollout_of, row_of
from ratchet.store.scores import Scores
from ratchet.store.spans import Spans
from ratchet.store.tables import rollouts
from ratchet.types import Cost, InputError, Rollout, RolloutStatus, total_cost


class Rollouts(Queue):
    """Rollouts by id, queue and purpose, with the queue's methods for runners."""

    def __init__(self, database: Database, spans: Spans, scores: Scores) -> None:
        super().__init__(database, spans, scores)
        self._insert = database.insert_new(rollouts, "id")

    def create(self, items: Sequence[Rollout], now: float) -> int:
        """Store new rollouts in one transaction; they are claimed in this order.

        Args:
            items: Queued rollouts, or finished ones from elsewhere. Those whose id is stored are
                skipped.
            now: Unix seconds; the creation time of those without one.

        Returns:
            Number of new rollouts.

        Raises:
            InputError: One is `running`, which only a claim can make it.
        """
        for rollout in items:
            if rollout.status == "running":
                raise InputError(
                    f"Rollout {rollout.id} cannot be created as 'running'.",
                    hint="Create it as 'queued', and claim it.",
                )
        if not items:
            return 0
        rows = [row_of(rollout, rollout.created_at or now) for rollout in items]
        return self._database.write(lambda c: c.execute(self._insert, rows).rowcount)

    def get(self, ids: Sequence[str]) -> dict[str, Rollout]:
        """Return rollouts by id; unknown ids are omitted."""

        stored = {id: clean(id) for id in ids}

        def work(connection: Connection) -> dict[str, Rollout]:
            by_id: dict[str, Rollout] = {}
            for chunk in chunks(list(dict.fromkeys(stored.values()))):
                query = select(rollouts).where(rollouts.c.id.in_(chunk))
                by_id.update((row.id, rollout_of(row)) for row in connection.execute(query))
            return by_id

        by_id = self._database.read(work)
        return {id: by_id[as_stored] for id, as_stored in stored.items() if as_stored in by_id}

    def statuses(self, ids: Sequence[str]) -> dict[str, RolloutStatus]:
        """Return the status of rollouts by id; unknown ids are omitted."""

        def work(connection: Connection) -> dict[str, RolloutStatus]:
            statuses: dict[str, RolloutStatus] = {}
            for chunk in chunks(list(dict.fromkeys(clean(id) for id in ids))):
                query = select(rollouts.c.id, rollouts.c.status).where(rollouts.c.id.in_(chunk))
                statuses.update((row[0], row[1]) for row in connection.execute(query))
            return statuses

        return self._database.read(work)

    def find(self, prefix: str) -> builtins.list[Rollout]:
        """Find rollouts by id prefix, oldest first, at most a hundred."""
        condition = starts_with(rollouts.c.id, prefix)
        query = select(rollouts).where(condition).order_by(rollouts.c.seq).limit(100)
        return self._database.read(lambda c: [rollout_of(row) for row in c.execute(query)])

    def list(
        self,
        queue: str | None = None,
        status: RolloutStatus | None = None,
        purpose: str | None = None,
        candidate_id: str | None = None,
        task_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> tuple[builtins.list[Rollout], str | None]:
        """List one page, newest first. New rollouts do not shift the pages.

        Args:
            queue: Only this queue.
            status: Only this status.
            purpose: Only purposes with this prefix.
            candidate_id: Only this candidate.
            task_id: Only this task; no index serves it, so name a queue or a candidate, too.
            limit: Rollouts per page.
            cursor: Cursor returned with the previous page; None for the first.

        Returns:
            The page, and the cursor of the next one or None after the last.

        Raises:
            InputError: The cursor is invalid.
        """
        conditions = _conditions(queue, None, candidate_id, task_id)
        if status is not None:
            conditions.append(rollouts.c.status == status)
        if cursor is not None:
            conditions.append(rollouts.c.seq < seq_of(cursor, "rollouts"))

        def work(connection: Connection) -> Sequence[Any]:
            mine = _of_purpose(connection, purpose, conditions, limit + 1) if purpose else ()
            query = select(rollouts).where(*conditions, *mine)
            # One more than requested shows whether there is a next page.
            query = query.order_by(rollouts.c.seq.desc()).limit(limit + 1)
            return connection.execute(query).all()

        rows = self._database.read(work)
        page = rows[:limit]
        more = len(rows) > limit and page
        return [rollout_of(row) for row in page], str(page[-1].seq) if more else None

    def queues_of(self, candidate_id: str) -> builtins.list[str]:
        """Return the queues that a candidate's rollouts were in, sorted."""
        query = select(rollouts.c.queue).where(*_conditions(None, None, candidate_id)).distinct()
        return self._database.read(lambda c: sorted(c.scalars(query)))

    def counts(
        self,
        queue: str | None = None,
        purpose: str | None = None,
        candidate_id: str | None = None,
        task_id: str | None = None,
        since: float | None = None,
    ) -> dict[RolloutStatus, int]:
        """Count rollouts by status; statuses without any are omitted.

        Args:
            queue: Only this queue.
            purpose: Only purposes with this prefix.
            candidate_id: Only this candidate.
            task_id: Only this task.
            since: Only those created at this time or later, in Unix seconds.
        """
        conditions = _conditions(queue, purpose, candidate_id, task_id, since)
        query = select(rollouts.c.status, func.count()).where(*conditions)
        query = query.group_by(rollouts.c.status).order_by(rollouts.c.status)

        def work(connection: Connection) -> dict[RolloutStatus, int]:
            return {row[0]: row[1] for row in connection.execute(query)}

        return self._database.read(work)

    def cost(
        self,
        queue: str | None = None,
        purpose: str | None = None,
        since: float | None = None,
    ) -> Cost:
        """Sum the cost of rollouts; arguments as for `counts`."""
        conditions = _conditions(queue, purpose, since=since)
        of_known = select(func.sum(rollouts.c.known_usd)).where(*conditions)
        of_unknown = select(
            rollouts.c.known_usd, rollouts.c.reported_usd, rollouts.c.unpriced
        ).where(*conditions, _UNKNOWN)

        def work(connection: Connection) -> Cost:
            known_usd = float(connection.execute(of_known).scalar() or 0.0)
            unknown = total_cost(cost_of(row) for row in connection.execute(of_unknown))
            return Cost(known_usd=known_usd, unpriced=unknown.unpriced)

        return self._database.read(work)


_UNKNOWN = text("(rollouts.reported_usd IS NULL OR rollouts.unpriced <> '{}')")


_FEW = 50
"""Maximum number of purposes with a prefix whose rollouts are looked up purpose by purpose."""

# One index lookup per purpose, however many rollouts it has.
_PURPOSES = text(
    "WITH RECURSIVE found(purpose) AS ("
    " SELECT (SELECT min(purpose) FROM rollouts WHERE purpose BETWEEN :low AND :high)"
    " UNION ALL"
    " SELECT (SELECT min(r.purpose) FROM rollouts r"
    "  WHERE r.purpose > found.purpose AND r.purpose <= :high)"
    " FROM found WHERE found.purpose IS NOT NULL"
    ") SELECT purpose FROM found WHERE purpose IS NOT NULL LIMIT :most"
)


def _of_purpose(
    connection: Connection, prefix: str, conditions: Sequence[ColumnElement[bool]], most: int
) -> builtins.list[ColumnElement[bool]]:
    """Condition that selects at least the `most` newest rollouts of purposes with a prefix.

    By prefix alone, a database reads all rollouts from the newest on, or sorts all of the prefix.
    """
    low, high = prefix_range(clean(prefix))
    purposes = connection.scalars(_PURPOSES, {"low": low, "high": high, "most": _FEW + 1}).all()
    if len(purposes) > _FEW:
        return [starts_with(rollouts.c.purpose, prefix)]
    newest = (
        select(rollouts.c.seq)
        .where(rollouts.c.purpose == purpose, *conditions)
        .order_by(rollouts.c.seq.desc())
        .limit(most)
        .subquery()
        for purpose in purposes
    )
    lists = [select(subquery.c.seq) for subquery in newest]
    return [rollouts.c.seq.in_(union_all(*lists))] if lists else [false()]


def _conditions(
    queue: str | None,
    purpose: str | None,
    candidate_id: str | None = None,
    task_id: str | None = None,
    since: float | None = None,
) -> builtins.list[ColumnElement[bool]]:
    conditions: builtins.list[ColumnElement[bool]] = []
    if queue is not None:
        conditions.append(rollouts.c.queue == queue)
    if purpose is not None:
        conditions.append(starts_with(rollouts.c.purpose, purpose))
    if candidate_id is not None:
        conditions.append(rollouts.c.candidate_id == candidate_id)
    if task_id is not None:
        conditions.append(rollouts.c.task_id == task_id)
    if since is not None:
        conditions.append(rollouts.c.created_at >= since)
    return conditions
