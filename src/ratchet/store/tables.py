"""Table definitions. Migrations bring a database to this schema."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)

from ratchet.store.columns import CleanText, JsonText, Serial

metadata = MetaData()

RUNNING = text("attempts.status = 'running'")
"""Condition of a partial index below. A literal, since SQLite ignores such an index when the
status is a bound argument."""

QUEUED = text("rollouts.status = 'queued'")
"""Condition of the other partial index."""


def _serial() -> Column[int]:
    """Creation order; also the key of pagination."""
    return Column("seq", Serial, primary_key=True, autoincrement=True)


def _rollout() -> Column[int]:
    """`seq` of the rollout that a row belongs to."""
    return Column("rollout_seq", BigInteger, nullable=False)


def _words(name: str, **options: Any) -> Column[str]:
    return Column(name, CleanText, nullable=False, **options)


# No foreign keys: related rows are written in one transaction, each key is a content hash or was
# just read, and a check per row would cost the queue a fifth of its speed.

# Rows of a rollout are keyed by its `seq` and not by its id: random ids scatter each batch over the
# whole of every index, the more the larger it is. By `seq`, new rows are appended, and a rollout
# costs the same in a large store as in an empty one.

resources = Table(
    "resources",
    metadata,
    _words("version", primary_key=True),
    _words("kind"),
    Column("body", CleanText, nullable=False),
    Column("created_at", Float, nullable=False),
)

resource_names = Table(
    "resource_names",
    metadata,
    _serial(),
    _words("name"),
    _words("version"),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("name", "version", name="uq_resource_names"),
)

candidates = Table(
    "candidates",
    metadata,
    _serial(),
    _words("id", unique=True),
    _words("algorithm"),
    _words("reason"),
    Column("parents", JsonText, nullable=False),
    Column("versions", JsonText, nullable=False),
    Column("created_at", Float, nullable=False),
    # When it was last proposed, which protects it from pruning.
    Column("put_at", Float, nullable=False),
)

tasks = Table(
    "tasks",
    metadata,
    _words("content", primary_key=True),
    Column("input", JsonText, nullable=False),
    Column("expected", JsonText, nullable=False),
    Column("metadata", JsonText, nullable=False),
)

datasets = Table(
    "datasets",
    metadata,
    _serial(),
    _words("name"),
    _words("version"),
    _words("provenance"),
    _words("parent"),
    _words("reason"),
    Column("created_at", Float, nullable=False),
    Column("put_at", Float, nullable=False),
    UniqueConstraint("version", "name", name="uq_datasets"),
)

dataset_tasks = Table(
    "dataset_tasks",
    metadata,
    _words("version"),
    Column("position", Integer, nullable=False),
    _words("task_id"),
    _words("content"),
    _words("split"),
    Column("origin", JsonText, nullable=False),
    PrimaryKeyConstraint("version", "position", name="pk_dataset_tasks"),
    Index("ix_dataset_tasks_content", "content"),
    sqlite_with_rowid=False,
)

rollouts = Table(
    "rollouts",
    metadata,
    _serial(),
    _words("id", unique=True),
    _words("queue"),
    _words("status"),
    Column("fence", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    _words("purpose"),
    _words("candidate_id"),
    _words("task_id"),
    Column("seed", BigInteger, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("duration_s", Float),
    # Dollars of the calls with known price, including those reported by runners.
    Column("known_usd", Float, nullable=False),
    # Dollars reported by runners besides the spans; NULL when one reported them as unknown.
    Column("reported_usd", Float),
    # Number of calls of unknown price in the spans, by model.
    Column("unpriced", JsonText, nullable=False),
    # Long columns come last: SQLite reads a row from its start and stops when it has enough.
    _words("error"),
    Column("metadata", JsonText, nullable=False),
    Column("expected", JsonText, nullable=False),
    Column("output", JsonText, nullable=False),
    Column("input", JsonText, nullable=False),
    # One index per query. A rollout changes its status at least twice, which moves it in every
    # index that contains the status; so only one covers all rollouts, for counting. The migration
    # makes the first one partial, on queued rollouts; declaring that here would import the code of
    # every database at each start.
    Index("ix_rollouts_queued", "queue", "seq"),
    Index("ix_rollouts_status", "status", "seq"),
    Index("ix_rollouts_queue", "queue", "seq"),
    Index("ix_rollouts_purpose", "purpose", "seq"),
    Index("ix_rollouts_candidate", "candidate_id", "seq"),
)

attempts = Table(
    "attempts",
    metadata,
    _rollout(),
    Column("fence", Integer, nullable=False),
    _words("status"),
    _words("worker"),
    Column("lease_until", Float, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),
    _words("error"),
    PrimaryKeyConstraint("rollout_seq", "fence", name="pk_attempts"),
    # Only running attempts are in this index: as many rows as there are rollouts in flight.
    # (Partial by its migration, as above.)
    Index("ix_attempts_running", "lease_until"),
    sqlite_with_rowid=False,
)

spans = Table(
    "spans",
    metadata,
    _serial(),
    _rollout(),
    Column("fence", Integer, nullable=False),
    # The live agent; empty for spans of rollouts.
    _words("agent", server_default=""),
    _words("trace_id"),
    _words("span_id"),
    Column("parent_id", CleanText),
    _words("name"),
    Column("start_ns", BigInteger, nullable=False),
    Column("end_ns", BigInteger, nullable=False),
    _words("status"),
    _words("message"),
    # Copied from the attributes, since no query looks inside JSON.
    _words("conversation_id", server_default=""),
    _words("usage", server_default=""),
    Column("head", Integer, nullable=False, server_default="0"),
    # Long columns come last, as above.
    Column("attributes", JsonText, nullable=False),
    Column("events", JsonText, nullable=False),
    # References to long texts among the attributes; empty without one.
    _words("texts", server_default=""),
    UniqueConstraint("rollout_seq", "fence", "trace_id", "span_id", name="uq_spans"),
    # Only live spans are in the first index, and only those with a conversation in the second, by
    # their migration. The unique key finds live spans by their trace.
    Index("ix_spans_agent", "agent", "seq", "end_ns"),
    Index("ix_spans_trace", "trace_id"),
    # Only heads are in these, by their migration: about one span per trace. They list traces by
    # time, select the first head of a trace, and find the traces of a conversation.
    Index("ix_spans_heads", "head", "start_ns", "seq", "trace_id", "agent", "conversation_id"),
    Index(
        "ix_spans_first",
        "trace_id",
        "rollout_seq",
        "fence",
        "start_ns",
        "seq",
        "conversation_id",
    ),
    Index("ix_spans_conversation", "conversation_id", "start_ns", "seq", "head", "trace_id"),
)

# Long texts of spans' attributes, each once; compressed.
texts = Table(
    "texts",
    metadata,
    _serial(),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("body", LargeBinary, nullable=False),
)

# Traces that use texts, and which. Per trace, not per span: a trace's spans use the same ones.
text_traces = Table(
    "text_traces",
    metadata,
    _serial(),
    _rollout(),
    Column("fence", Integer, nullable=False),
    _words("trace_id"),
    # Earliest end of its first stored spans, before which none can have been pruned.
    Column("end_ns", BigInteger, nullable=False),
    UniqueConstraint("rollout_seq", "fence", "trace_id", name="uq_text_traces"),
)

text_uses = Table(
    "text_uses",
    metadata,
    Column("trace_seq", BigInteger, nullable=False),
    Column("text_seq", BigInteger, nullable=False),
    PrimaryKeyConstraint("trace_seq", "text_seq", name="pk_text_uses"),
    Index("ix_text_uses_text", "text_seq"),
    sqlite_with_rowid=False,
)

# One row for each live trace, computed from its spans. What is searched are its words, in a table
# beside that only the database's own search reads: `trace_words`, FTS5 on SQLite, `tsvector` on
# Postgres. See `store/trace_index.py`.
trace_rows = Table(
    "trace_rows",
    metadata,
    # Start of the trace in Unix nanoseconds, moved on until no other trace has it: the order of
    # lists, the key of their pages, and the number that `trace_words` knows the row by.
    Column("place", Serial, primary_key=True, autoincrement=False),
    _words("trace_id", unique=True),
    _words("agent"),
    _words("user_id"),
    _words("conversation_id"),
    # Names of the called models, as a JSON list.
    _words("models"),
    Column("duration_s", Float, nullable=False),
    Column("errors", Integer, nullable=False),
    # Dollars of the calls with a known price, and the number of those without.
    Column("known_usd", Float, nullable=False),
    Column("unpriced", Integer, nullable=False),
    # Number of feedback items, and the lowest value.
    Column("feedback", Integer, nullable=False),
    Column("worst", Float),
    # Long columns come last, as above; each is one line, cut off.
    _words("name"),
    _words("error"),
    _words("input"),
    _words("output"),
)

# Sums over the rows of `trace_rows` by the hour and agent, in the transaction that changes these.
trace_sums = Table(
    "trace_sums",
    metadata,
    # Of the place, from 1970 on.
    Column("hour", BigInteger, nullable=False),
    _words("agent"),
    Column("traces", BigInteger, nullable=False),
    # Traces with a failed span, with a call of unknown price, and with feedback that has a value.
    Column("errors", BigInteger, nullable=False),
    Column("unpriced", BigInteger, nullable=False),
    Column("rated", BigInteger, nullable=False),
    Column("known_usd", Float, nullable=False),
    # Of the lowest values.
    Column("worst", Float, nullable=False),
    PrimaryKeyConstraint("hour", "agent", name="pk_trace_sums"),
    sqlite_with_rowid=False,
)

# Live traces whose row does not show all that is stored of them, in order.
stale_traces = Table(
    "stale_traces",
    metadata,
    _serial(),
    _words("trace_id"),
    # Unix seconds.
    Column("since", Float, nullable=False),
)

scores = Table(
    "scores",
    metadata,
    _serial(),
    _rollout(),
    _words("evaluator"),
    _words("version"),
    Column("value", Float),
    _words("unit"),
    _words("rationale"),
    _words("error"),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("rollout_seq", "evaluator", "version", name="uq_scores"),
)

# Model calls of rollouts as tokens. Of a prompt that begins with the prompt and response of another
# row of its attempt (`base`), only the rest is stored.
transitions = Table(
    "transitions",
    metadata,
    _serial(),
    _rollout(),
    Column("fence", Integer, nullable=False),
    _words("id"),
    _words("drop_reason"),
    Column("started_ns", BigInteger, nullable=False),
    Column("ended_ns", BigInteger, nullable=False),
    # Tokens of prompt and response, and a hash of both.
    Column("size", Integer, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    # Number of response tokens.
    Column("written", Integer, nullable=False),
    _words("base"),
    _words("details"),
    Column("prompt", LargeBinary, nullable=False),
    Column("response", LargeBinary, nullable=False),
    Column("logprobs", LargeBinary, nullable=False),
    UniqueConstraint("rollout_seq", "fence", "id", name="uq_transitions"),
)

journal = Table(
    "journal",
    metadata,
    _serial(),
    _words("run_id"),
    _words("key"),
    Column("body", JsonText, nullable=False),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("run_id", "key", name="uq_journal"),
)

runs = Table(
    "runs",
    metadata,
    _serial(),
    _words("id", unique=True),
    _words("agent"),
    _words("stage"),
    Column("updated_at", Float, nullable=False),
    Column("body", CleanText, nullable=False),
)

experiments = Table(
    "experiments",
    metadata,
    _serial(),
    _words("id", unique=True),
    _words("run_id"),
    _words("dataset_version"),
    # Stream: the experiments that share one alpha budget; position: this one's index among them,
    # from 0. Positions are unique, so no two experiments can have the same level.
    _words("stream"),
    Column("place", Integer, nullable=False),
    _words("verdict"),
    Column("body", CleanText, nullable=False),
    UniqueConstraint("stream", "place", name="uq_experiments"),
)

releases = Table(
    "releases",
    metadata,
    _serial(),
    _words("id", unique=True),
    _words("candidate_id"),
    _words("state"),
    Column("body", CleanText, nullable=False),
)

cycles = Table(
    "cycles",
    metadata,
    _serial(),
    _words("id", unique=True),
    _words("agent"),
    _words("state"),
    Column("version", Integer, nullable=False),
    Column("body", CleanText, nullable=False),
    Index("ix_cycles_agent", "agent", "seq"),
)

# Append-only: how each cycle came to its state.
cycle_transitions = Table(
    "cycle_transitions",
    metadata,
    _serial(),
    _words("cycle_id"),
    Column("number", Integer, nullable=False),
    Column("body", CleanText, nullable=False),
    UniqueConstraint("cycle_id", "number", name="uq_cycle_transitions"),
)

# The outbox: what cycles do outside of their own rows.
cycle_actions = Table(
    "cycle_actions",
    metadata,
    _serial(),
    _words("key", unique=True),
    _words("cycle_id"),
    _words("state"),
    Column("next_at", Float, nullable=False),
    Column("body", CleanText, nullable=False),
    Index("ix_cycle_actions_due", "state", "next_at"),
    Index("ix_cycle_actions_cycle", "cycle_id", "seq"),
)

# What a cycle took of a day's budget, for one purpose.
cycle_spending = Table(
    "cycle_spending",
    metadata,
    _serial(),
    _words("agent"),
    _words("day"),
    _words("purpose"),
    Column("rollouts", Integer, nullable=False),
    Column("dollars", Float, nullable=False),
    Column("requests", Integer, nullable=False),
    UniqueConstraint("agent", "day", "purpose", name="uq_cycle_spending"),
)

# What people told the autopilot; append-only.
operator_commands = Table(
    "operator_commands",
    metadata,
    _serial(),
    _words("agent"),
    _words("verb"),
    _words("cycle_id"),
    Column("body", CleanText, nullable=False),
    Index("ix_operator_commands_agent", "agent", "seq"),
)

leases = Table(
    "leases",
    metadata,
    _words("name", primary_key=True),
    _words("holder"),
    Column("fence", BigInteger, nullable=False),
    Column("expires_at", Float, nullable=False),
)

activity = Table(
    "activity",
    metadata,
    _words("run_id", primary_key=True),
    Column("at", Float, nullable=False),
    _words("waits"),
)

agents = Table(
    "agents",
    metadata,
    _words("name", primary_key=True),
    Column("body", CleanText, nullable=False),
    Column("updated_at", Float, nullable=False),
)

# Active candidate of an agent outside of rollouts: its newest row. Older rows are history.
activations = Table(
    "activations",
    metadata,
    _serial(),
    _words("agent"),
    _words("candidate_id"),
    _words("reason"),
    Column("activated_at", Float, nullable=False),
    Index("ix_activations_agent", "agent", "seq"),
)

traffic_splits = Table(
    "traffic_splits",
    metadata,
    _serial(),
    _words("agent"),
    _words("experiment_id"),
    _words("candidate_id"),
    _words("reason"),
    Column("enrolled", Float, nullable=False),
    Column("started_at", Float, nullable=False),
    Index("ix_traffic_splits_agent", "agent", "seq"),
)

traffic_units = Table(
    "traffic_units",
    metadata,
    _words("experiment_id"),
    _words("unit"),
    _words("trace_id"),
    PrimaryKeyConstraint("experiment_id", "unit"),
)
"""The trace whose outcome counts for a unit; `unit` is a hash."""

feedback = Table(
    "feedback",
    metadata,
    _serial(),
    _words("id", unique=True),
    _words("rollout_id"),
    _words("trace_id"),
    _words("span_id"),
    _words("conversation_id"),
    _words("kind"),
    Column("value", Float),
    Column("body", CleanText, nullable=False),
    Column("created_at", Float, nullable=False),
    Index("ix_feedback_rollout", "rollout_id", "seq"),
    Index("ix_feedback_trace", "trace_id", "seq"),
    Index("ix_feedback_conversation", "conversation_id", "seq"),
)

problems = Table(
    "problems",
    metadata,
    _serial(),
    _words("id", unique=True),
    _words("agent"),
    _words("state"),
    Column("version", Integer, nullable=False),
    _words("profile"),
    Column("body", CleanText, nullable=False),
    Index("ix_problems_agent", "agent", "seq"),
)
"""`profile` is JSON with which a new occurrence is compared, to find its problem."""

occurrences = Table(
    "occurrences",
    metadata,
    _serial(),
    _words("id", unique=True),
    _words("agent"),
    _words("problem_id"),
    _words("trace_id"),
    Column("at", Float, nullable=False),
    Column("loss", Float, nullable=False),
    Column("cost_usd", Float),
    Column("reading", CleanText),
    Column("body", CleanText, nullable=False),
    Index("ix_occurrences_problem", "problem_id", "at"),
    Index("ix_occurrences_agent", "agent", "at"),
    Index("ix_occurrences_trace", "trace_id"),
)
"""`reading` is what a coach says about the trace, as JSON: empty until it is read, null if a
program said what failed."""

# Append-only: how each problem came to its state.
problem_transitions = Table(
    "problem_transitions",
    metadata,
    _serial(),
    _words("problem_id"),
    Column("body", CleanText, nullable=False),
    Index("ix_problem_transitions_problem", "problem_id", "seq"),
)

# How far each reader of traces has looked, under its name after a space, which no agent has; and
# the words of each agent.
problem_scans = Table(
    "problem_scans",
    metadata,
    _words("agent", primary_key=True),
    _words("body"),
)

frozen_sets = Table(
    "frozen_sets",
    metadata,
    _serial(),
    _words("id", unique=True),
    _words("project"),
    _words("problem_id"),
    Column("version", Integer, nullable=False),
    Column("body", CleanText, nullable=False),
    Index("ix_frozen_sets_project", "project", "seq"),
)

labels = Table(
    "labels",
    metadata,
    _serial(),
    _words("id", unique=True),
    _words("rollout_id"),
    _words("trace_id"),
    _words("criterion"),
    _words("body"),
    Column("created_at", Float, nullable=False),
    Index("ix_labels_rollout", "rollout_id", "seq"),
    Index("ix_labels_trace", "trace_id", "seq"),
)

report_cards = Table(
    "report_cards",
    metadata,
    _serial(),
    _words("id", unique=True),
    _words("evaluator"),
    _words("version"),
    _words("body"),
    Column("created_at", Float, nullable=False),
    Index("ix_report_cards_evaluator", "evaluator", "version", "created_at"),
)

events = Table(
    "events",
    metadata,
    _serial(),
    _words("kind"),
    Column("at", Float, nullable=False),
    Column("body", CleanText, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    _serial(),
    _words("id", unique=True),
    _words("hash", unique=True),
    _words("name"),
    Column("scopes", JsonText, nullable=False),
    _words("agent"),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float),
    Column("revoked_at", Float),
    Column("last_used_at", Float),
)

audit = Table(
    "audit",
    metadata,
    _serial(),
    Column("at", Float, nullable=False),
    _words("key_id"),
    _words("address"),
    _words("action"),
    _words("target"),
    Column("status", Integer, nullable=False),
)

# Values shared by all servers of a store, such as the secret that signs attempt tokens.
settings = Table(
    "settings",
    metadata,
    _words("name", primary_key=True),
    _words("value"),
)
