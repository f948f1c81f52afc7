"""Repository of evaluators' report cards."""

from __future__ import annotations

import builtins

import msgspec
from sqlalchemy import select

from ratchet.store.columns import encode
from ratchet.store.engine import Database
from ratchet.store.tables import report_cards
from ratchet.types import ReportCard

_decode = msgspec.json.Decoder(ReportCard).decode


class ReportCards:
    """Report cards by evaluator and version; the newest card is valid."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._upsert = database.upsert(report_cards, ("id",), ("body", "created_at"))

    def put(self, card: ReportCard) -> None:
        """Store a card; one of the same id is replaced."""
        row = {
            "id": card.id,
            "evaluator": card.evaluator,
            "version": card.version,
            "body": encode(card),
            "created_at": card.created_at,
        }
        self._database.write(lambda c: c.execute(self._upsert, row))

    def latest(self, evaluator: str, version: str) -> ReportCard | None:
        """Return the newest card of a version of an evaluator, without its outputs; or None."""
        cards = self.list(evaluator=evaluator, version=version, limit=1)
        return cards[0] if cards else None

    def get(self, id: str) -> ReportCard | None:
        """Return the card with an id, or None."""
        query = select(report_cards.c.body).where(report_cards.c.id == id)
        rows = self._database.read(lambda c: c.execute(query).all())
        return _decode(rows[0].body) if rows else None

    def list(
        self, *, evaluator: str | None = None, version: str | None = None, limit: int = 100
    ) -> builtins.list[ReportCard]:
        """Return cards, newest first, without their outputs."""
        query = select(report_cards.c.body)
        for name, value in (("evaluator", evaluator), ("version", version)):
            if value is not None:
                query = query.where(report_cards.c[name] == value)
        newest = (report_cards.c.created_at.desc(), report_cards.c.seq.desc())
        query = query.order_by(*newest).limit(limit)
        rows = self._database.read(lambda c: c.execute(query).all())
        return [msgspec.structs.replace(_decode(row.body), outputs=()) for row in rows]
