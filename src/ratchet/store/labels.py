"""Repository of people's labels."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import delete, select

from ratchet.store.columns import encode
from ratchet.store.engine import Database
from ratchet.store.tables import labels
from ratchet.types import Label

_decode = msgspec.json.Decoder(Label).decode


class Labels:
    """Labels by id; a later label with the same id replaces the earlier."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._upsert = database.upsert(labels, ("id",), ("criterion", "body", "created_at"))

    def add(self, items: Sequence[Label], now: float) -> None:
        """Store labels.

        Args:
            items: The labels.
            now: Unix seconds; the time of items without one.
        """
        rows: builtins.list[dict[str, Any]] = []
        for item in items:
            stamped = msgspec.structs.replace(item, created_at=item.created_at or now)
            rows.append(
                {
                    "id": item.id,
                    "rollout_id": item.rollout_id,
                    "trace_id": item.trace_id,
                    "criterion": item.criterion,
                    "body": encode(stamped),
                    "created_at": stamped.created_at,
                }
            )
        if rows:
            self._database.write(lambda c: c.execute(self._upsert, rows))

    def remove(self, id: str) -> bool:
        """Delete a label; return whether there was one."""
        query = delete(labels).where(labels.c.id == id)
        return self._database.write(lambda c: c.execute(query).rowcount) > 0

    def list(
        self,
        *,
        criterion: str | None = None,
        rollout_id: str | None = None,
        trace_id: str | None = None,
    ) -> builtins.list[Label]:
        """Return all labels, oldest first.

        Args:
            criterion: Only of this criterion; an empty string is the output as a whole.
            rollout_id: Only about this rollout.
            trace_id: Only about this trace.
        """
        query = select(labels.c.body).order_by(labels.c.seq)
        filters = {"criterion": criterion, "rollout_id": rollout_id, "trace_id": trace_id}
        for name, value in filters.items():
            if value is not None:
                query = query.where(labels.c[name] == value)
        return [_decode(row.body) for row in self._database.read(lambda c: c.execute(query).all())]
