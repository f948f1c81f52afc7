"""The first schema: every table and index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "1.0"
down_revision = None
branch_labels = None
depends_on = None

# Prefix ranges need byte order, and sorting must not depend on the server's locale.
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _seq() -> sa.Column[Any]:
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column("seq", kind, primary_key=True, autoincrement=True)


def _rollout() -> sa.Column[Any]:
    return sa.Column("rollout_seq", sa.BigInteger(), nullable=False)


def _key(name: str) -> sa.Column[Any]:
    return sa.Column(name, _TEXT, primary_key=True, nullable=False)


def _unique(name: str) -> sa.Column[Any]:
    return sa.Column(name, _TEXT, unique=True, nullable=False)


def _words(*names: str, default: str | None = None) -> list[sa.Column[Any]]:
    return [sa.Column(name, _TEXT, nullable=False, server_default=default) for name in names]


def _json(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _floats(*names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Float(), nullable=nullable) for name in names]


def _whole(*names: str, big: bool = False) -> list[sa.Column[Any]]:
    kind = sa.BigInteger() if big else sa.Integer()
    return [sa.Column(name, kind, nullable=False) for name in names]


def _blobs(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.LargeBinary(), nullable=False) for name in names]


def _index(table: str, name: str, columns: Sequence[str], where: str = "") -> None:
    condition = sa.text(where) if where else None
    op.create_index(
        f"ix_{table}_{name}",
        table,
        columns,
        sqlite_where=condition,
        postgresql_where=condition,
    )


def upgrade() -> None:
    """Create all tables and indexes."""
    _candidates()
    _datasets()
    _rollouts()
    _spans()
    _texts()
    _traces()
    _runs()
    _cycles()
    _agents()
    _problems()
    _access()


def _candidates() -> None:
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
        *_floats("created_at", "put_at"),
    )


def _datasets() -> None:
    op.create_table("tasks", _key("content"), *_json("input", "expected", "metadata"))
    op.create_table(
        "datasets",
        _seq(),
        *_words("name", "version", "provenance", "parent", "reason"),
        *_floats("created_at", "put_at"),
        sa.UniqueConstraint("version", "name", name="uq_datasets"),
    )
    op.create_table(
        "dataset_tasks",
        *_words("version"),
        *_whole("position"),
        *_words("task_id", "content", "split"),
        *_json("origin"),
        sa.PrimaryKeyConstraint("version", "position", name="pk_dataset_tasks"),
        sqlite_with_rowid=False,
    )
    _index("dataset_tasks", "content", ["content"])


def _rollouts() -> None:
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
        *_floats("known_usd"),
        *_floats("reported_usd", nullable=True),
        *_json("unpriced"),
        *_words("error"),
        *_json("metadata", "expected", "output", "input"),
    )
    for column in ("status", "queue", "purpose", "candidate"):
        _index("rollouts", column, ["candidate_id" if column == "candidate" else column, "seq"])
    _index("rollouts", "queued", ["queue", "seq"], "status = 'queued'")
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
    _index("attempts", "running", ["lease_until"], "status = 'running'")
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
    op.create_table(
        "transitions",
        _seq(),
        _rollout(),
        *_whole("fence"),
        *_words("id", "drop_reason"),
        *_whole("started_ns", "ended_ns", big=True),
        *_whole("size"),
        *_blobs("digest"),
        *_whole("written"),
        *_words("base", "details"),
        *_blobs("prompt", "response", "logprobs"),
        sa.UniqueConstraint("rollout_seq", "fence", "id", name="uq_transitions"),
    )


def _spans() -> None:
    op.create_table(
        "spans",
        _seq(),
        _rollout(),
        *_whole("fence"),
        *_words("agent", default=""),
        *_words("trace_id", "span_id"),
        sa.Column("parent_id", _TEXT),
        *_words("name"),
        *_whole("start_ns", "end_ns", big=True),
        *_words("status", "message"),
        *_words("conversation_id", "usage", default=""),
        sa.Column("head", sa.Integer(), nullable=False, server_default="0"),
        *_json("attributes", "events"),
        *_words("texts", default=""),
        sa.UniqueConstraint("rollout_seq", "fence", "trace_id", "span_id", name="uq_spans"),
    )
    if op.get_bind().dialect.name == "postgresql":
        _partition_spans()
    _index("spans", "agent", ["agent", "seq", "end_ns"], "agent > ''")
    _index("spans", "trace", ["trace_id"], "rollout_seq > 0")
    heads = ["head", "start_ns", "seq", "trace_id", "agent", "conversation_id"]
    _index("spans", "heads", heads, "head > 0")
    first = ["trace_id", "rollout_seq", "fence", "start_ns", "seq", "conversation_id"]
    _index("spans", "first", first, "head > 0")
    conversation = ["conversation_id", "start_ns", "seq", "head", "trace_id"]
    _index("spans", "conversation", conversation, "head > 0 AND conversation_id > ''")


def _texts() -> None:
    op.create_table(
        "texts",
        _seq(),
        sa.Column("hash", sa.LargeBinary(), unique=True, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "text_traces",
        _seq(),
        _rollout(),
        *_whole("fence"),
        *_words("trace_id"),
        *_whole("end_ns", big=True),
        sa.UniqueConstraint("rollout_seq", "fence", "trace_id", name="uq_text_traces"),
    )
    op.create_table(
        "text_uses",
        *_whole("trace_seq", "text_seq", big=True),
        sa.PrimaryKeyConstraint("trace_seq", "text_seq", name="pk_text_uses"),
        sqlite_with_rowid=False,
    )
    _index("text_uses", "text", ["text_seq"])


def _traces() -> None:
    op.create_table(
        "trace_rows",
        sa.Column(
            "place",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            primary_key=True,
            autoincrement=False,
        ),
        _unique("trace_id"),
        *_words("agent", "user_id", "conversation_id", "models"),
        *_floats("duration_s"),
        *_whole("errors"),
        *_floats("known_usd"),
        *_whole("unpriced", "feedback"),
        *_floats("worst", nullable=True),
        *_words("name", "error", "input", "output"),
    )
    op.create_table(
        "trace_sums",
        *_whole("hour", big=True),
        *_words("agent"),
        *_whole("traces", "errors", "unpriced", "rated", big=True),
        *_floats("known_usd", "worst"),
        sa.PrimaryKeyConstraint("hour", "agent", name="pk_trace_sums"),
        sqlite_with_rowid=False,
    )
    op.create_table("stale_traces", _seq(), *_words("trace_id"), *_floats("since"))
    if op.get_bind().dialect.name == "postgresql":
        op.execute("CREATE TABLE trace_words (place BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)")
        # Without a list of pending entries, which each search would read.
        op.execute(
            "CREATE INDEX ix_trace_words ON trace_words USING gin (words) WITH (fastupdate = off)"
        )
    else:
        # Its row id is the place. Words are split before: what is not ASCII belongs to a word.
        op.execute("CREATE VIRTUAL TABLE trace_words USING fts5(words, tokenize = 'ascii')")


def _partition_spans() -> None:
    """Make the table `spans` the parent of partitions; see `store/partitions.py`.

    The keys stay with each partition: a unique key of the parent would have to contain the start.
    """
    for change in (
        "ALTER TABLE spans RENAME TO spans_of_rollouts",
        "CREATE TABLE spans (LIKE spans_of_rollouts INCLUDING DEFAULTS)"
        " PARTITION BY RANGE (rollout_seq)",
        "ALTER TABLE spans ATTACH PARTITION spans_of_rollouts FOR VALUES FROM (1) TO (MAXVALUE)",
        "CREATE TABLE spans_live (LIKE spans_of_rollouts INCLUDING DEFAULTS)"
        " PARTITION BY RANGE (start_ns)",
        "ALTER TABLE spans ATTACH PARTITION spans_live FOR VALUES FROM (MINVALUE) TO (1)",
        "CREATE TABLE spans_elsewhere (LIKE spans_of_rollouts INCLUDING ALL)",
        "ALTER TABLE spans_live ATTACH PARTITION spans_elsewhere DEFAULT",
        "ALTER SEQUENCE spans_seq_seq OWNED BY spans.seq",
    ):
        op.execute(change)


def _runs() -> None:
    op.create_table(
        "runs",
        _seq(),
        _unique("id"),
        *_words("agent", "stage"),
        *_floats("updated_at"),
        *_words("body"),
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
        "experiments",
        _seq(),
        _unique("id"),
        *_words("run_id", "dataset_version", "stream"),
        *_whole("place"),
        *_words("verdict", "body"),
        sa.UniqueConstraint("stream", "place", name="uq_experiments"),
    )
    op.create_table("releases", _seq(), _unique("id"), *_words("candidate_id", "state", "body"))


def _cycles() -> None:
    op.create_table(
        "cycles",
        _seq(),
        _unique("id"),
        *_words("agent", "state"),
        *_whole("version"),
        *_words("body"),
    )
    _index("cycles", "agent", ["agent", "seq"])
    op.create_table(
        "cycle_transitions",
        _seq(),
        *_words("cycle_id"),
        *_whole("number"),
        *_words("body"),
        sa.UniqueConstraint("cycle_id", "number", name="uq_cycle_transitions"),
    )
    op.create_table(
        "cycle_actions",
        _seq(),
        _unique("key"),
        *_words("cycle_id", "state"),
        *_floats("next_at"),
        *_words("body"),
    )
    _index("cycle_actions", "due", ["state", "next_at"])
    _index("cycle_actions", "cycle", ["cycle_id", "seq"])
    op.create_table(
        "cycle_spending",
        _seq(),
        *_words("agent", "day", "purpose"),
        *_whole("rollouts"),
        *_floats("dollars"),
        *_whole("requests"),
        sa.UniqueConstraint("agent", "day", "purpose", name="uq_cycle_spending"),
    )
    op.create_table("operator_commands", _seq(), *_words("agent", "verb", "cycle_id", "body"))
    _index("operator_commands", "agent", ["agent", "seq"])
    op.create_table(
        "leases",
        _key("name"),
        *_words("holder"),
        *_whole("fence", big=True),
        *_floats("expires_at"),
    )
    op.create_table("activity", _key("run_id"), *_floats("at"), *_words("waits"))


def _agents() -> None:
    op.create_table("agents", _key("name"), *_words("body"), *_floats("updated_at"))
    op.create_table(
        "activations",
        _seq(),
        *_words("agent", "candidate_id", "reason"),
        *_floats("activated_at"),
    )
    _index("activations", "agent", ["agent", "seq"])
    op.create_table(
        "traffic_splits",
        _seq(),
        *_words("agent", "experiment_id", "candidate_id", "reason"),
        *_floats("enrolled", "started_at"),
    )
    _index("traffic_splits", "agent", ["agent", "seq"])
    op.create_table(
        "traffic_units",
        *_words("experiment_id", "unit", "trace_id"),
        sa.PrimaryKeyConstraint("experiment_id", "unit"),
    )
    op.create_table(
        "feedback",
        _seq(),
        _unique("id"),
        *_words("rollout_id", "trace_id", "span_id", "conversation_id", "kind"),
        *_floats("value", nullable=True),
        *_words("body"),
        *_floats("created_at"),
    )
    for what in ("rollout", "trace", "conversation"):
        _index("feedback", what, [f"{what}_id", "seq"])
    op.create_table(
        "labels",
        _seq(),
        _unique("id"),
        *_words("rollout_id", "trace_id", "criterion", "body"),
        *_floats("created_at"),
    )
    for what in ("rollout", "trace"):
        _index("labels", what, [f"{what}_id", "seq"])
    op.create_table(
        "report_cards",
        _seq(),
        _unique("id"),
        *_words("evaluator", "version", "body"),
        *_floats("created_at"),
    )
    _index("report_cards", "evaluator", ["evaluator", "version", "created_at"])
    op.create_table("events", _seq(), *_words("kind"), *_floats("at"), *_words("body"))


def _problems() -> None:
    op.create_table(
        "problems",
        _seq(),
        _unique("id"),
        *_words("agent", "state"),
        *_whole("version"),
        *_words("profile", "body"),
    )
    _index("problems", "agent", ["agent", "seq"])
    op.create_table(
        "occurrences",
        _seq(),
        _unique("id"),
        *_words("agent", "problem_id", "trace_id"),
        *_floats("at", "loss"),
        *_floats("cost_usd", nullable=True),
        sa.Column("reading", _TEXT),
        *_words("body"),
    )
    _index("occurrences", "problem", ["problem_id", "at"])
    _index("occurrences", "agent", ["agent", "at"])
    _index("occurrences", "trace", ["trace_id"])
    op.create_table("problem_transitions", _seq(), *_words("problem_id", "body"))
    _index("problem_transitions", "problem", ["problem_id", "seq"])
    op.create_table("problem_scans", _key("agent"), *_words("body"))
    op.create_table(
        "frozen_sets",
        _seq(),
        _unique("id"),
        *_words("project", "problem_id"),
        *_whole("version"),
        *_words("body"),
    )
    _index("frozen_sets", "project", ["project", "seq"])


def _access() -> None:
    op.create_table(
        "keys",
        _seq(),
        _unique("id"),
        _unique("hash"),
        *_words("name"),
        *_json("scopes"),
        *_words("agent"),
        *_floats("created_at"),
        *_floats("expires_at", "revoked_at", "last_used_at", nullable=True),
    )
    op.create_table(
        "audit",
        _seq(),
        *_floats("at"),
        *_words("key_id", "address", "action", "target"),
        *_whole("status"),
    )
    op.create_table("settings", _key("name"), *_words("value"))
