"""Traces are listed and conversations found: columns of spans, and indexes of few of them."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa
from alembic import op

from ratchet.store.span_rows import conversation_of
from ratchet.store.usage import usage_text

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_HEADS = sa.text("head > 0")
_IN_CONVERSATIONS = sa.text("head > 0 AND conversation_id > ''")

_WINDOW = 2_000
"""Spans that are read at once."""


def upgrade() -> None:
    """Add the columns, fill them from what is there, and make the indexes."""
    for name in ("conversation_id", "usage"):
        op.add_column("spans", sa.Column(name, _TEXT, nullable=False, server_default=""))
    op.add_column("spans", sa.Column("head", sa.Integer(), nullable=False, server_default="0"))
    _fill()
    # What is there already counts as one batch.
    op.execute(
        "UPDATE spans SET head = CASE WHEN rollout_seq > 0 THEN 2 ELSE 1 END WHERE seq IN ("
        "  SELECT seq FROM (SELECT seq, row_number() OVER ("
        "    PARTITION BY rollout_seq, fence, trace_id, conversation_id ORDER BY start_ns, seq"
        "  ) AS place FROM spans) AS placed WHERE place = 1)"
    )
    for name, columns, condition in (
        (
            "ix_spans_heads",
            ["head", "start_ns", "seq", "trace_id", "agent", "conversation_id"],
            _HEADS,
        ),
        (
            "ix_spans_first",
            ["trace_id", "rollout_seq", "fence", "start_ns", "seq", "conversation_id"],
            _HEADS,
        ),
        (
            "ix_spans_conversation",
            ["conversation_id", "start_ns", "seq", "head", "trace_id"],
            _IN_CONVERSATIONS,
        ),
    ):
        op.create_index(name, "spans", columns, sqlite_where=condition, postgresql_where=condition)


def _fill() -> None:
    connection = op.get_bind()
    read = sa.text("SELECT seq, attributes FROM spans WHERE seq > :after ORDER BY seq LIMIT :limit")
    write = sa.text(
        "UPDATE spans SET conversation_id = :conversation, usage = :usage WHERE seq = :at"
    )
    decode = msgspec.json.Decoder(dict).decode
    after = -1
    while rows := connection.execute(read, {"after": after, "limit": _WINDOW}).all():
        after = rows[-1][0]
        found = []
        for seq, stored in rows:
            attributes = decode(stored)
            conversation, usage = conversation_of(attributes), usage_text(attributes)
            if conversation or usage:
                found.append({"at": seq, "conversation": conversation, "usage": usage})
        if found:
            connection.execute(write, found)
