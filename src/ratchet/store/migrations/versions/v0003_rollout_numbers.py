"""What belongs to a rollout is keyed by its number: random ids scatter writes over a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_QUEUED = sa.text("status = 'queued'")
_RUNNING = sa.text("status = 'running'")


def _seq() -> sa.Column[Any]:
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column("seq", kind, primary_key=True, autoincrement=True)


def _rollout() -> sa.Column[Any]:
    return sa.Column("rollout_seq", sa.BigInteger(), nullable=False)


def _words(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, _TEXT, nullable=False) for name in names]


def _json(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _floats(*names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Float(), nullable=nullable) for name in names]


def _whole(*names: str, big: bool = False) -> list[sa.Column[Any]]:
    kind = sa.BigInteger() if big else sa.Integer()
    return [sa.Column(name, kind, nullable=False) for name in names]


def upgrade() -> None:
    """Rebuild the three tables with their rows, and the indexes of rollouts."""
    _attempts()
    _spans()
    _scores()
    # Indexes that hold the status are moved in at every change of it.
    for column in ("queue", "purpose"):
        op.drop_index(f"ix_rollouts_{column}", "rollouts")
        op.create_index(f"ix_rollouts_{column}", "rollouts", [column, "seq"])
    op.create_index(
        "ix_rollouts_queued",
        "rollouts",
        ["queue", "seq"],
        sqlite_where=_QUEUED,
        postgresql_where=_QUEUED,
    )


def _attempts() -> None:
    op.drop_index("ix_attempts_running", "attempts")
    _move_away("attempts", "pk_attempts")
    op.create_table(
        "attempts",
        _rollout(),
        *_whole("fence"),
        *_words("status", "worker"),
        *_floats("lease_until", "started_at"),
        *_floats("ended_at", nullable=True),
        *_words("error"),
        sa.PrimaryKeyConstraint("rollout_seq", "fence", name="pk_attempts"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_attempts_running",
        "attempts",
        ["lease_until"],
        sqlite_where=_RUNNING,
        postgresql_where=_RUNNING,
    )
    _bring_back(
        "attempts",
        ("fence", "status", "worker", "lease_until", "started_at", "ended_at", "error"),
        order="r.seq, o.fence",
    )


def _spans() -> None:
    _move_away("spans", "uq_spans")
    op.create_table(
        "spans",
        _seq(),
        _rollout(),
        *_whole("fence"),
        *_words("trace_id", "span_id"),
        sa.Column("parent_id", _TEXT),
        *_words("name"),
        *_whole("start_ns", "end_ns", big=True),
        *_words("status", "message"),
        *_json("attributes", "events"),
        sa.UniqueConstraint("rollout_seq", "fence", "trace_id", "span_id", name="uq_spans"),
    )
    names = ("fence", "trace_id", "span_id", "parent_id", "name", "start_ns", "end_ns")
    # Those that belong to no rollout had an empty id, and have the number 0.
    _bring_back(
        "spans", (*names, "status", "message", "attributes", "events"), order="o.seq", orphans=True
    )


def _scores() -> None:
    _move_away("scores", "uq_scores")
    op.create_table(
        "scores",
        _seq(),
        _rollout(),
        *_words("evaluator", "version"),
        *_floats("value", nullable=True),
        *_words("unit", "rationale", "error"),
        *_floats("created_at"),
        sa.UniqueConstraint("rollout_seq", "evaluator", "version", name="uq_scores"),
    )
    names = ("evaluator", "version", "value", "unit", "rationale", "error", "created_at")
    _bring_back("scores", names, order="o.seq")


def _move_away(table: str, constraint: str) -> None:
    if op.get_bind().dialect.name == "postgresql":
        # Names of constraints and sequences are one space for all tables there.
        op.execute(f"ALTER TABLE {table} RENAME CONSTRAINT {constraint} TO old_{constraint}")
        if table != "attempts":
            op.execute(f"ALTER TABLE {table} RENAME CONSTRAINT {table}_pkey TO old_{table}_pkey")
            op.execute(f"ALTER SEQUENCE {table}_seq_seq RENAME TO old_{table}_seq_seq")
    op.rename_table(table, f"old_{table}")


def _bring_back(table: str, names: Sequence[str], order: str, orphans: bool = False) -> None:
    """Copy the rows with their rollout's number; what has no rollout in the store is left out."""
    columns = ", ".join(names)
    found = "LEFT JOIN rollouts r ON r.id = o.rollout_id"
    kept = "r.seq IS NOT NULL" + (" OR o.rollout_id = ''" if orphans else "")
    op.execute(
        f"INSERT INTO {table} (rollout_seq, {columns})"  # noqa: S608
        f" SELECT COALESCE(r.seq, 0), {', '.join(f'o.{name}' for name in names)}"
        f" FROM old_{table} o {found} WHERE {kept} ORDER BY {order}"
    )
    op.drop_table(f"old_{table}")
