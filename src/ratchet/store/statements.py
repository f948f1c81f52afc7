"""SQL statements of the queue, built once, and builders of their arguments."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Float,
    Integer,
    bindparam,
    func,
    insert,
    select,
    update,
)

from ratchet.store.lifecycle import LockedRollout, StatusChange
from ratchet.store.tables import QUEUED, RUNNING, attempts, rollouts
from ratchet.types import AttemptStatus, Outcome

OLDEST_QUEUED = (
    select(rollouts)
    .where(rollouts.c.queue == bindparam("of_queue"), QUEUED)
    .order_by(rollouts.c.seq)
    .limit(bindparam("how_many", type_=Integer))
    # Skip rows that a concurrent claim has locked. SQLite has one writer and no such option.
    .with_for_update(skip_locked=True)
)
"""Queued rollouts of a queue, oldest first. Arguments: `of_queue`, `how_many`."""

NEXT_OLDEST = OLDEST_QUEUED.where(rollouts.c.seq > bindparam("after_seq", type_=BigInteger))
"""The same, after a given rollout. Arguments: as for OLDEST_QUEUED, and `after_seq`."""

HAND_OUT = (
    update(rollouts)
    .where(rollouts.c.seq == bindparam("at"))
    .values(status="running", fence=rollouts.c.fence + 1)
)
"""Sets a rollout running under its next fence. Argument: `at` (seq)."""

NEW_ATTEMPT = insert(attempts)
"""Arguments: see `new_attempt`."""

PROLONG = (
    update(attempts)
    .where(attempts.c.rollout_seq == bindparam("at"), attempts.c.fence == bindparam("at_fence"))
    .values(lease_until=bindparam("until"))
)
"""Extends a lease. Arguments: `at` (seq), `at_fence`, `until`."""

END_ATTEMPT = (
    update(attempts)
    .where(attempts.c.rollout_seq == bindparam("at"), attempts.c.fence == bindparam("at_fence"))
    .values(
        status=bindparam("new_status"),
        ended_at=bindparam("new_ended_at"),
        error=bindparam("new_error"),
    )
)
"""Arguments: see `attempt_end` and `attempt_stop`."""

# Costs accumulate over attempts. NULL (unknown) stays NULL.
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
"""Arguments: see `requeued`."""

END_ROLLOUT = (
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
"""Arguments: see `ended` and `finished`."""

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
"""Locks rollouts and reads their state, in order of id. Argument: `ids`."""

LEASES = (
    select(attempts.c.rollout_seq, attempts.c.lease_until)
    .where(attempts.c.rollout_seq.in_(bindparam("seqs", expanding=True)))
    .where(RUNNING)
)
"""Expiry of the leases of running attempts. Argument: `seqs` (of rollouts)."""

# Subqueries instead of joins: SQLite would scan every rollout of the queue for the few running
# attempts.
_ITS_ROLLOUT = rollouts.c.seq == attempts.c.rollout_seq

QUEUE_OF_ATTEMPT: ColumnElement[str] = (
    select(rollouts.c.queue).where(_ITS_ROLLOUT).scalar_subquery()
)
"""Queue of the selected attempt."""

ID_OF_ATTEMPT: ColumnElement[str] = select(rollouts.c.id).where(_ITS_ROLLOUT).scalar_subquery()
"""Rollout id of the selected attempt."""


def new_attempt(row: Any, worker: str, until: float, now: float) -> dict[str, Any]:
    """A new attempt at the rollout in `row`, which is about to get its next fence."""
    return {
        "rollout_seq": row.seq,
        "fence": row.fence + 1,
        "status": "running",
        "worker": worker,
        "lease_until": until,
        "started_at": now,
        "error": "",
    }


def attempt_end(outcome: Outcome, rollout: LockedRollout) -> dict[str, Any]:
    """The end of an attempt, as its executor reported it."""
    return {
        "at": rollout.seq,
        "at_fence": outcome.fence,
        "new_status": outcome.status,
        "new_ended_at": outcome.ended_at,
        "new_error": outcome.error,
    }


def attempt_stop(
    rollout: LockedRollout, status: AttemptStatus, error: str, now: float
) -> dict[str, Any]:
    """The end of a running attempt that no executor reported on."""
    return {
        "at": rollout.seq,
        "at_fence": rollout.fence,
        "new_status": status,
        "new_ended_at": now,
        "new_error": error,
    }


def requeued(
    rollout: LockedRollout, change: StatusChange, cost_usd: float | None
) -> dict[str, Any]:
    """Requeue a rollout, adding the dollars that the attempt's runner reported."""
    return {"at": rollout.seq, "new_failures": change.failures, "new_cost_usd": cost_usd}


def ended(rollout: LockedRollout, change: StatusChange, now: float) -> dict[str, Any]:
    """The end of a rollout that no executor reported on."""
    return {
        "at": rollout.seq,
        "new_status": change.status,
        "new_failures": change.failures,
        "new_cost_usd": 0.0,
        "new_started_at": None,
        "new_ended_at": now,
        "new_duration_s": None,
        "new_error": change.error,
        "new_output": None,
    }


def finished(outcome: Outcome, rollout: LockedRollout, change: StatusChange) -> dict[str, Any]:
    """The end of a rollout, as its last attempt reported it."""
    return {
        "at": rollout.seq,
        "new_status": change.status,
        "new_failures": change.failures,
        "new_cost_usd": outcome.cost_usd,
        "new_started_at": outcome.started_at,
        "new_ended_at": outcome.ended_at,
        "new_duration_s": outcome.duration_s,
        "new_error": change.error,
        "new_output": outcome.output,
    }
