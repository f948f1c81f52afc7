"""Audit log of changes made at a server."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

import msgspec
from sqlalchemy import insert, select

from ratchet.store.engine import Database
from ratchet.store.feedback import seq_of
from ratchet.store.tables import audit


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One attempted change at a server, successful or not."""

    at: float
    """Unix seconds."""
    key_id: str = ""
    """Id of the key used; empty if none was required."""
    address: str = ""
    """Address of the client."""
    action: str
    """The request, such as `PUT /v1/agents/{name}/active`."""
    target: str = ""
    """Name or id of the object changed."""
    status: int
    """HTTP status of the response."""


class Audit:
    """Append-only log of changes, pruned by age."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, rows: Sequence[AuditRow]) -> None:
        """Append rows, in one transaction."""
        values = [msgspec.structs.asdict(row) for row in rows]
        if values:
            self._database.write(lambda c: c.execute(insert(audit), values))

    def list(
        self, limit: int = 100, cursor: str | None = None
    ) -> tuple[builtins.list[AuditRow], str | None]:
        """List one page, newest first.

        Args:
            limit: Rows per page.
            cursor: Cursor returned with the previous page; None for the first.

        Returns:
            The page, and the cursor of the next one or None after the last.

        Raises:
            InputError: The cursor is invalid.
        """
        query = select(audit)
        if cursor is not None:
            query = query.where(audit.c.seq < seq_of(cursor, "the audit log"))
        query = query.order_by(audit.c.seq.desc()).limit(limit + 1)
        rows = self._database.read(lambda c: c.execute(query).all())
        page = rows[:limit]
        audit_rows = [
            AuditRow(
                at=row.at,
                key_id=row.key_id,
                address=row.address,
                action=row.action,
                target=row.target,
                status=row.status,
            )
            for row in page
        ]
        return audit_rows, str(page[-1].seq) if len(rows) > limit and page else None
