"""What a server keeps: agents, their active candidates, feedback, events, keys, the audit log."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_LIVE = sa.text("agent > ''")
_OF_ROLLOUTS = sa.text("rollout_seq > 0")


def _seq() -> sa.Column[Any]:
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column("seq", kind, primary_key=True, autoincrement=True)


def _words(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, _TEXT, nullable=False) for name in names]


def _body() -> sa.Column[Any]:
    return sa.Column("body", sa.Text(), nullable=False)


def _float(name: str, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Float(), nullable=nullable)


def upgrade() -> None:
    """Add a column and indexes to spans, and the new tables."""
    op.add_column("spans", sa.Column("agent", _TEXT, nullable=False, server_default=""))
    op.execute("UPDATE spans SET agent = 'unknown' WHERE rollout_seq = 0")
    for name, columns, condition in (
        ("ix_spans_agent", ["agent", "seq", "end_ns"], _LIVE),
        ("ix_spans_trace", ["trace_id"], _OF_ROLLOUTS),
    ):
        op.create_index(name, "spans", columns, sqlite_where=condition, postgresql_where=condition)
    op.create_table(
        "agents",
        sa.Column("name", _TEXT, primary_key=True),
        _body(),
        _float("updated_at"),
    )
    op.create_table(
        "activations",
        _seq(),
        *_words("agent", "candidate_id", "reason"),
        _float("activated_at"),
    )
    op.create_index("ix_activations_agent", "activations", ["agent", "seq"])
    _feedback()
    op.create_table("events", _seq(), *_words("kind"), _float("at"), _body())
    _access()
    op.create_table("settings", sa.Column("name", _TEXT, primary_key=True), *_words("value"))


def _feedback() -> None:
    op.create_table(
        "feedback",
        _seq(),
        sa.Column("id", _TEXT, nullable=False, unique=True),
        *_words("rollout_id", "trace_id", "span_id", "conversation_id", "kind"),
        _float("value", nullable=True),
        _body(),
        _float("created_at"),
    )
    for what in ("rollout", "trace", "conversation"):
        op.create_index(f"ix_feedback_{what}", "feedback", [f"{what}_id", "seq"])


def _access() -> None:
    op.create_table(
        "keys",
        _seq(),
        sa.Column("id", _TEXT, nullable=False, unique=True),
        sa.Column("hash", _TEXT, nullable=False, unique=True),
        *_words("name"),
        sa.Column("scopes", sa.Text(), nullable=False),
        _float("created_at"),
        *(_float(name, nullable=True) for name in ("expires_at", "revoked_at", "last_used_at")),
    )
    op.create_table(
        "audit",
        _seq(),
        _float("at"),
        *_words("key_id", "address", "action", "target"),
        sa.Column("status", sa.Integer(), nullable=False),
    )
