"""Repository of feedback about rollouts, traces and conversations."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from ratchet.store.columns import encode
from ratchet.store.engine import Database
from ratchet.store.tables import feedback
from ratchet.store.trace_index import mark_rated
from ratchet.types import Feedback, InputError

_decode = msgspec.json.Decoder(Feedback).decode


class FeedbackLog:
    """Feedback by subject; for each id the first item is stored."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = database.insert_new(feedback, "id")

    def add(self, items: Sequence[Feedback], now: float) -> int:
        """Store feedback; items whose id is stored are skipped.

        Args:
            items: The feedback.
            now: Unix seconds; the time of items without one.

        Returns:
            Number of new items.
        """
        rows: builtins.list[dict[str, Any]] = []
        for item in items:
            stamped = msgspec.structs.replace(item, created_at=item.created_at or now)
            rows.append(
                {
                    "id": item.id,
                    "rollout_id": item.rollout_id,
                    "trace_id": item.trace_id,
                    "span_id": item.span_id,
                    "conversation_id": item.conversation_id,
                    "kind": item.kind,
                    "value": item.value,
                    "body": encode(stamped),
                    "created_at": stamped.created_at,
                }
            )
        if not rows:
            return 0

        def work(connection: Connection) -> int:
            mark_rated(connection, items)
            return connection.execute(self._insert, rows).rowcount

        return self._database.write(work)

    def list(
        self,
        *,
        rollout_id: str | None = None,
        trace_id: str | None = None,
        conversation_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> tuple[builtins.list[Feedback], str | None]:
        """List one page, newest first.

        Args:
            rollout_id: Only about this rollout.
            trace_id: Only about this trace.
            conversation_id: Only about this conversation.
            limit: Items per page.
            cursor: Cursor returned with the previous page.

        Returns:
            The page, and the cursor of the next one or None after the last.

        Raises:
            InputError: The cursor is invalid.
        """
        query = select(feedback.c.seq, feedback.c.body)
        filters = {
            "rollout_id": rollout_id,
            "trace_id": trace_id,
            "conversation_id": conversation_id,
        }
        for name, value in filters.items():
            if value is not None:
                query = query.where(feedback.c[name] == value)
        if cursor is not None:
            query = query.where(feedback.c.seq < seq_of(cursor, "feedback"))
        query = query.order_by(feedback.c.seq.desc()).limit(limit + 1)
        rows = self._database.read(lambda c: c.execute(query).all())
        page = rows[:limit]
        more = len(rows) > limit and page
        return [_decode(row.body) for row in page], str(page[-1].seq) if more else None


def seq_of(cursor: str, what: str) -> int:
    """Decode a cursor to a row number.

    Raises:
        InputError: It is not a cursor.
    """
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise InputError(
            f"The cursor {cursor!r} does not belong to a page of {what}.",
            hint="Begin without a cursor.",
        )
    return int(cursor)
