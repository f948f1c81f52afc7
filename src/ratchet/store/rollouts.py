"""Rollouts: created once, looked up, listed and counted; the queue is the other half."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, func, select, text

from ratchet.store.columns import clean
from ratchet.store.engine import Database, chunks, starts_with
from ratchet.store.feedback import seq_of
from ratchet.store.queue import Queue
from ratchet.store.rows import cost_of, rollout_of, row_of
from ratchet.store.scores import Scores
from ratchet.store.spans import Spans
from ratchet.store.tables import rollouts
from ratchet.types import Cost, InputError, Rollout, RolloutStatus, total_cost


class Rollouts(Queue):
    """Rollouts by id, by queue, by purpose; and the queue that hands them out."""

    def __init__(self, database: Database, spans: Spans, scores: Scores) -> None:
        super().__init__(database, spans, scores)
        self._insert = database.insert_new(rollouts, "id")

    def create(self, items: Sequence[Rollout], now: float) -> int:
        """Store new rollouts in one transaction, to be handed out in this order.

        Args:
            items: Queued ones, or ones that ended elsewhere and are only kept. One whose id is
                stored already changes nothing.
            now: Unix seconds; the creation time of those that state none.

        Returns:
            How many were new.

        Raises:
            InputError: One is `running`: only a claim makes it so.
        """
        for rollout in items:
            if rollout.status == "running":
                raise InputError(
                    f"Rollout {rollout.id} is created as 'running'.",
                    hint="Create it as 'queued' and claim it.",
                )
        if not items:
            return 0
        rows = [row_of(rollout, rollout.created_at or now) for rollout in items]
        return self._database.write(lambda c: c.execute(self._insert, rows).rowcount)

    def get(self, ids: Sequence[str]) -> dict[str, Rollout]:
        """Rollouts by id; ids that are unknown are left out."""

        stored = {id: clean(id) for id in ids}

        def work(connection: Connection) -> dict[str, Rollout]:
            found: dict[str, Rollout] = {}
            for chunk in chunks(list(dict.fromkeys(stored.values()))):
                query = select(rollouts).where(rollouts.c.id.in_(chunk))
                found.update((row.id, rollout_of(row)) for row in connection.execute(query))
            return found

        found = self._database.read(work)
        return {id: found[as_stored] for id, as_stored in stored.items() if as_stored in found}

    def find(self, prefix: str) -> builtins.list[Rollout]:
        """Rollouts whose id begins with `prefix`, oldest first, a hundred at most."""
        wanted = starts_with(rollouts.c.id, prefix)
        query = select(rollouts).where(wanted).order_by(rollouts.c.seq).limit(100)
        return self._database.read(lambda c: [rollout_of(row) for row in c.execute(query)])

    def list(
        self,
        queue: str | None = None,
        status: RolloutStatus | None = None,
        purpose: str | None = None,
        candidate_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> tuple[builtins.list[Rollout], str | None]:
        """One page of rollouts, newest first. Rollouts made meanwhile move no page.

        Args:
            queue: Only those of this queue.
            status: Only those of this status.
            purpose: Only those whose purpose begins so.
            candidate_id: Only those of this candidate.
            limit: Rollouts on a page.
            cursor: Where the page begins, as the page before returned it; None for the first.

        Returns:
            The page, and the cursor of the next or None after the last.

        Raises:
            InputError: The cursor is none that this method returned.
        """
        query = select(rollouts).where(*_wanted(queue, purpose))
        if status is not None:
            query = query.where(rollouts.c.status == status)
        if candidate_id is not None:
            query = query.where(rollouts.c.candidate_id == candidate_id)
        if cursor is not None:
            query = query.where(rollouts.c.seq < seq_of(cursor, "rollouts"))
        # One more than asked for tells whether there is a next page.
        query = query.order_by(rollouts.c.seq.desc()).limit(limit + 1)
        rows = self._database.read(lambda c: c.execute(query).all())
        page = rows[:limit]
        more = len(rows) > limit and page
        return [rollout_of(row) for row in page], str(page[-1].seq) if more else None

    def counts(
        self, queue: str | None = None, purpose: str | None = None
    ) -> dict[RolloutStatus, int]:
        """How many rollouts have each status; a status that none has is left out.

        Args:
            queue: Only those of this queue.
            purpose: Only those whose purpose begins so.
        """
        query = select(rollouts.c.status, func.count()).where(*_wanted(queue, purpose))
        query = query.group_by(rollouts.c.status).order_by(rollouts.c.status)

        def work(connection: Connection) -> dict[RolloutStatus, int]:
            return {row[0]: row[1] for row in connection.execute(query)}

        return self._database.read(work)

    def cost(self, queue: str | None = None, purpose: str | None = None) -> Cost:
        """What rollouts have cost; arguments as for `counts`."""
        wanted = _wanted(queue, purpose)
        of_known = select(func.sum(rollouts.c.known_usd)).where(*wanted)
        of_unknown = select(
            rollouts.c.known_usd, rollouts.c.reported_usd, rollouts.c.unpriced
        ).where(*wanted, _UNKNOWN)

        def work(connection: Connection) -> Cost:
            known = float(connection.execute(of_known).scalar() or 0.0)
            unknown = total_cost(cost_of(row) for row in connection.execute(of_unknown))
            return Cost(known_usd=known, unpriced=unknown.unpriced)

        return self._database.read(work)


_UNKNOWN = text("(rollouts.reported_usd IS NULL OR rollouts.unpriced <> '{}')")


def _wanted(queue: str | None, purpose: str | None) -> builtins.list[ColumnElement[bool]]:
    conditions: builtins.list[ColumnElement[bool]] = []
    if queue is not None:
        conditions.append(rollouts.c.queue == queue)
    if purpose is not None:
        conditions.append(starts_with(rollouts.c.purpose, purpose))
    return conditions
