"""Conversion of rollouts and attempts to and from database rows."""

from __future__ import annotations

from typing import Any

from ratchet.types import Attempt, Cost, Rollout, RolloutStatus


def rollout_of(row: Any, status: RolloutStatus | None = None, fence: int | None = None) -> Rollout:
    """Build a rollout from a full row; `status` and `fence` override the row's."""
    cost = cost_of(row)
    return Rollout(
        id=row.id,
        queue=row.queue,
        candidate_id=row.candidate_id,
        task_id=row.task_id,
        input=row.input,
        expected=row.expected,
        metadata=row.metadata,
        seed=row.seed,
        purpose=row.purpose,
        status=status or row.status,
        max_attempts=row.max_attempts,
        failures=row.failures,
        fence=row.fence if fence is None else fence,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        output=row.output,
        error=row.error,
        duration_s=row.duration_s,
        cost_usd=cost.usd,
        known_usd=cost.known_usd if cost.unpriced else 0.0,
        unpriced=cost.unpriced,
    )


def cost_of(row: Any) -> Cost:
    """Build the cost from a row of `known_usd`, `reported_usd` and `unpriced`."""
    unpriced: dict[str, int] = row.unpriced
    if row.reported_usd is None:
        unpriced = {**unpriced, "": unpriced.get("", 0) + 1}
    return Cost(known_usd=row.known_usd, unpriced=unpriced)


def row_of(rollout: Rollout, created_at: float) -> dict[str, Any]:
    """Return the values of every column but the serial one."""
    return {
        "id": rollout.id,
        "queue": rollout.queue,
        "status": rollout.status,
        "fence": rollout.fence,
        "failures": rollout.failures,
        "max_attempts": rollout.max_attempts,
        "purpose": rollout.purpose,
        "candidate_id": rollout.candidate_id,
        "task_id": rollout.task_id,
        "seed": rollout.seed,
        "created_at": created_at,
        "started_at": rollout.started_at,
        "ended_at": rollout.ended_at,
        "duration_s": rollout.duration_s,
        "known_usd": rollout.cost.known_usd,
        "reported_usd": rollout.known_usd if rollout.unpriced else rollout.cost_usd,
        "unpriced": rollout.unpriced,
        "error": rollout.error,
        "metadata": rollout.metadata,
        "expected": rollout.expected,
        "output": rollout.output,
        "input": rollout.input,
    }


def attempt_of(row: Any) -> Attempt:
    """Build an attempt from a full row with its rollout's id as `rollout_id`."""
    return Attempt(
        rollout_id=row.rollout_id,
        fence=row.fence,
        worker=row.worker,
        status=row.status,
        lease_until=row.lease_until,
        started_at=row.started_at,
        ended_at=row.ended_at,
        error=row.error,
    )
