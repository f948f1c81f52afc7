"""Statements: the queue's SQL, built once, and the arguments that each takes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Float, Integer, bindparam, func, insert, select, update

from ratchet.store.lifecycle import LockedRollout, StatusChange
from ratchet.store.tables import QUEUED, RUNNING, attempts, rollouts
from ratchet.types import AttemptStatus, Outcome

OLDEST = (
    select(rollouts)
    .where(rollouts.c.queue == bindparam("wanted"), QUEUED)
    .order_by(rollouts.c.seq)
    .limit(bindparam("how_many", type_=Integer))
    # Other claims step over rows that this one is taking. SQLite has one writer and no such thing.
    .with_for_update(skip_locked=True)
)
"""Queued rollouts of a queue, oldest first. Takes `wanted`, `how_many`."""

HAND_OUT = (
    update(rollouts)
    .where(rollouts.c.seq == bindparam("at"))
    .values(status="running", fence=rollouts.c.fence + 1)
)
"""Makes a rollout run under its next fence. Takes `at` (seq)."""

NEW_ATTEMPT = insert(attempts)
"""Takes what `new_attempt` returns."""

PROLONG = (
    update(attempts)
    .where(attempts.c.rollout_seq == bindparam("at"), attempts.c.fence == bindparam("at_fence"))
    .values(lease_until=bindparam("until"))
)
"""Moves a lease. Takes `at` (seq), `at_fence`, `until`."""

END_ATTEMPT = (
    update(attempts)
    .where(attempts.c.rollout_seq == bindparam("at"), attempts.c.fence == bindparam("at_fence"))
    .values(
        status=bindparam("new_status"),
        ended_at=bindparam("new_ended_at"),
        error=bindparam("new_error"),
    )
)
"""Takes what `attempt_end` or `attempt_stop` returns."""

# What an attempt cost is added to what the earlier ones did. NULL, for unknown, stays NULL.
_REPORTED = rollouts.c.reported_usd + bindparam("new_cost_usd", type_=Float)
_KNOWN = rollouts.c.known_usd + func.coalesce(bindparam("new_cost_usd", type_=Float), 0.0)

REQUEUE = (
    update(rollouts)
    .where(rollouts.c.seq == bindparam("at"))
    .values(
        status="queued",
        failures=bindparam("new_failures"),
        known_usd=_KNOWN,
        reported_usd=_REPORTED,
    )
)
"""Takes what `requeued` returns."""

END = (
    update(rollouts)
    .where(rollouts.c.seq == bindparam("at"))
    .values(
        status=bindparam("new_status"),
        failures=bindparam("new_failures"),
        known_usd=_KNOWN,
        reported_usd=_REPORTED,
        started_at=bindparam("new_started_at"),
        ended_at=bindparam("new_ended_at"),
        duration_s=bindparam("new_duration_s"),
        error=bindparam("new_error"),
        output=bindparam("new_output"),
    )
)
"""Takes what `ended` or `finished` returns."""

LOCK = (
    select(
        rollouts.c.id,
        rollouts.c.seq,
        rollouts.c.status,
        rollouts.c.fence,
        rollouts.c.failures,
        rollouts.c.max_attempts,
    )
    .where(rollouts.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(rollouts.c.id)
    .with_for_update()
)
"""Locks rollouts and reads where they stand, in the order of ids. Takes `ids`."""

LEASES = (
    select(attempts.c.rollout_seq, attempts.c.lease_until)
    .where(attempts.c.rollout_seq.in_(bindparam("seqs", expanding=True)))
    .where(RUNNING)
)
"""Ends of the leases that run. Takes `seqs` (of rollouts)."""

# Subqueries and not joins: SQLite would walk every rollout of the queue to meet the few attempts
# that run.
_ITS_ROLLOUT = rollouts.c.seq == attempts.c.rollout_seq

QUEUE_OF_ATTEMPT: ColumnElement[str] = (
    select(rollouts.c.queue).where(_ITS_ROLLOUT).scalar_subquery()
)
"""The queue of the attempt that a query reads."""

ID_OF_ATTEMPT: ColumnElement[str] = select(rollouts.c.id).where(_ITS_ROLLOUT).scalar_subquery()
"""The id of the rollout whose attempt a query reads."""


def new_attempt(row: Any, worker: str, until: float, now: float) -> dict[str, Any]:
    """An attempt at the rollout in `row`, which is about to get its next fence."""
    return {
        "rollout_seq": row.seq,
        "fence": row.fence + 1,
        "status": "running",
        "worker": worker,
        "lease_until": until,
        "started_at": now,
        "error": "",
    }


def attempt_end(outcome: Outcome, held: LockedRollout) -> dict[str, Any]:
    """The end of an attempt as its executor reports it."""
    return {
        "at": held.seq,
        "at_fence": outcome.fence,
        "new_status": outcome.status,
        "new_ended_at": outcome.ended_at,
        "new_error": outcome.error,
    }


def attempt_stop(
    held: LockedRollout, status: AttemptStatus, error: str, now: float
) -> dict[str, Any]:
    """The end of a rollout's running attempt that no executor reported on."""
    return {
        "at": held.seq,
        "at_fence": held.fence,
        "new_status": status,
        "new_ended_at": now,
        "new_error": error,
    }


def requeued(held: LockedRollout, change: StatusChange, cost_usd: float | None) -> dict[str, Any]:
    """Back into the queue; dollars that the attempt's runner reported are added."""
    return {"at": held.seq, "new_failures": change.failures, "new_cost_usd": cost_usd}


def ended(held: LockedRollout, change: StatusChange, now: float) -> dict[str, Any]:
    """The end of a rollout that no executor reported."""
    return {
        "at": held.seq,
        "new_status": change.status,
        "new_failures": change.failures,
        "new_cost_usd": 0.0,
        "new_started_at": None,
        "new_ended_at": now,
        "new_duration_s": None,
        "new_error": change.error,
        "new_output": None,
    }


def finished(outcome: Outcome, held: LockedRollout, change: StatusChange) -> dict[str, Any]:
    """The end of a rollout by the report of its last attempt."""
    return {
        "at": held.seq,
        "new_status": change.status,
        "new_failures": change.failures,
        "new_cost_usd": outcome.cost_usd,
        "new_started_at": outcome.started_at,
        "new_ended_at": outcome.ended_at,
        "new_duration_s": outcome.duration_s,
        "new_error": change.error,
        "new_output": outcome.output,
    }
