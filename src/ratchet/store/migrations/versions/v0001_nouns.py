"""The nouns, as they were first laid down."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_RUNNING = sa.text("status = 'running'")


def _seq() -> sa.Column[Any]:
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column("seq", kind, primary_key=True, autoincrement=True)


def _words(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, _TEXT, nullable=False) for name in names]


def _json(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _floats(*names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Float(), nullable=nullable) for name in names]


def _whole(*names: str, big: bool = False) -> list[sa.Column[Any]]:
    kind = sa.BigInteger() if big else sa.Integer()
    return [sa.Column(name, kind, nullable=False) for name in names]


def _key(name: str) -> sa.Column[Any]:
    return sa.Column(name, _TEXT, primary_key=True, nullable=False)


def _unique(name: str) -> sa.Column[Any]:
    return sa.Column(name, _TEXT, unique=True, nullable=False)


def upgrade() -> None:
    """Create every table."""
    op.create_table("resources", _key("version"), *_words("kind", "body"), *_floats("created_at"))
    op.create_table(
        "resource_names",
        _seq(),
        *_words("name", "version"),
        *_floats("created_at"),
        sa.UniqueConstraint("name", "version", name="uq_resource_names"),
    )
    op.create_table(
        "candidates",
        _seq(),
        _unique("id"),
        *_words("algorithm", "reason"),
        *_json("parents", "versions"),
        *_floats("created_at"),
    )
    op.create_table("tasks", _key("content"), *_json("input", "expected", "metadata"))
    op.create_table(
        "datasets",
        _seq(),
        *_words("name", "version", "provenance"),
        *_floats("created_at", "put_at"),
        sa.UniqueConstraint("version", "name", name="uq_datasets"),
    )
    op.create_table(
        "dataset_tasks",
        *_words("version"),
        *_whole("position"),
        *_words("task_id", "content", "split"),
        sa.PrimaryKeyConstraint("version", "position", name="pk_dataset_tasks"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rollouts",
        _seq(),
        _unique("id"),
        *_words("queue", "status"),
        *_whole("fence", "failures", "max_attempts"),
        *_words("purpose", "candidate_id", "task_id"),
        *_whole("seed", big=True),
        *_floats("created_at"),
        *_floats("started_at", "ended_at", "duration_s", nullable=True),
        *_floats("cost_usd"),
        *_words("error"),
        *_json("metadata", "expected", "output", "input"),
    )
    op.create_index("ix_rollouts_queue", "rollouts", ["queue", "status", "seq"])
    op.create_table(
        "attempts",
        *_words("rollout_id"),
        *_whole("fence"),
        *_words("status", "worker"),
        *_floats("lease_until", "started_at"),
        *_floats("ended_at", nullable=True),
        *_words("error"),
        sa.PrimaryKeyConstraint("rollout_id", "fence", name="pk_attempts"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_attempts_running",
        "attempts",
        ["lease_until"],
        sqlite_where=_RUNNING,
        postgresql_where=_RUNNING,
    )
    op.create_table(
        "spans",
        _seq(),
        *_words("rollout_id"),
        *_whole("fence"),
        *_words("trace_id", "span_id"),
        sa.Column("parent_id", _TEXT),
        *_words("name"),
        *_whole("start_ns", "end_ns", big=True),
        *_words("status", "message"),
        *_json("attributes", "events"),
        sa.UniqueConstraint("rollout_id", "fence", "trace_id", "span_id", name="uq_spans"),
    )
    op.create_table(
        "scores",
        _seq(),
        *_words("rollout_id", "evaluator", "version"),
        *_floats("value", nullable=True),
        *_words("unit", "rationale", "error"),
        *_floats("created_at"),
        sa.UniqueConstraint("rollout_id", "evaluator", "version", name="uq_scores"),
    )
    op.create_table(
        "journal",
        _seq(),
        *_words("run_id", "key"),
        *_json("body"),
        *_floats("created_at"),
        sa.UniqueConstraint("run_id", "key", name="uq_journal"),
    )
    op.create_table(
        "runs",
        _seq(),
        _unique("id"),
        *_words("agent", "stage"),
        *_floats("updated_at"),
        *_words("body"),
    )
    op.create_table(
        "experiments",
        _seq(),
        _unique("id"),
        *_words("run_id", "dataset_version", "verdict", "body"),
    )
    op.create_table("releases", _seq(), _unique("id"), *_words("candidate_id", "state", "body"))
