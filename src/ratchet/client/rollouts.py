"""Rollouts of a server: the queue, and queries."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from ratchet.client.call import (
    RemoteRepository,
    Steps,
    TransportT,
    batches,
    chunks,
    endpoint,
    get,
    post,
)
from ratchet.types import Attempt, Claim, InputError, Outcome, Rollout, RolloutStatus

Pair: TypeAlias = tuple[str, int]
"""Rollout id and fence, which identify an attempt."""

CLAIMS = 1_000
"""Maximum number of rollouts of one claim, whatever the requested limit."""


class _New(msgspec.Struct, frozen=True, kw_only=True):
    """A new rollout in a request."""

    id: str
    queue: str
    candidate_id: str
    task_id: str
    input: Any
    expected: Any
    metadata: dict[str, Any]
    seed: int
    purpose: str
    max_attempts: int


class _Created(msgspec.Struct, frozen=True):
    created: int


class _Found(msgspec.Struct, frozen=True):
    rollouts: dict[str, Rollout]


class _Page(msgspec.Struct, frozen=True):
    rollouts: builtins.list[Rollout]
    next_cursor: str | None = None


class _Counts(msgspec.Struct, frozen=True):
    counts: dict[RolloutStatus, int]


class _Claims(msgspec.Struct, frozen=True):
    claims: builtins.list[Claim]


class _Running(msgspec.Struct, frozen=True):
    running: builtins.list[Pair]


class _Result(msgspec.Struct, frozen=True):
    rollout_id: str
    fence: int
    status: RolloutStatus | None


class _Results(msgspec.Struct, frozen=True):
    results: builtins.list[_Result]


class _Released(msgspec.Struct, frozen=True):
    released: builtins.list[Pair]


class _Cancelled(msgspec.Struct, frozen=True):
    cancelled: int


class _Attempts(msgspec.Struct, frozen=True):
    attempts: builtins.list[Attempt]


class Rollouts(RemoteRepository[TransportT]):
    """Rollouts by id and by queue, and the queue itself.

    `now` exists for compatibility with the store; the server uses its own clock.
    """

    @endpoint
    def create(self, items: Sequence[Rollout], now: float | None = None) -> Steps[int]:
        """Queue new rollouts in this order, with one transaction for every thousand.

        Sent twice, each is created once.

        Returns:
            Number of new rollouts; those of a request whose response was lost are not counted.

        Raises:
            InputError: A rollout is not `queued`, or the server refuses it.
        """
        for rollout in items:
            if rollout.status != "queued":
                raise InputError(
                    f"Rollout {rollout.id} is {rollout.status!r}, but a server only accepts "
                    "queued rollouts.",
                    hint="Write rollouts that have ended elsewhere to the server's database.",
                )
        created = 0
        new = [
            _New(**{field: getattr(rollout, field) for field in _New.__struct_fields__})
            for rollout in items
        ]
        for _, part in batches(new):
            answer = yield post("rollouts", body={"rollouts": part})
            created += answer.read(_Created).created
        return created

    @endpoint
    def get(self, ids: Sequence[str]) -> Steps[dict[str, Rollout]]:
        """Rollouts by id; unknown ids are omitted."""
        rollouts: dict[str, Rollout] = {}
        for part in chunks(dict.fromkeys(ids)):
            answer = yield post("rollouts", "lookup", body={"ids": part})
            rollouts.update(answer.read(_Found).rollouts)
        return rollouts

    @endpoint
    def list(
        self,
        queue: str | None = None,
        status: RolloutStatus | None = None,
        purpose: str | None = None,
        candidate_id: str | None = None,
        task_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Steps[tuple[builtins.list[Rollout], str | None]]:
        """One page of rollouts, newest first. New rollouts do not shift the pages.

        Args:
            queue: Only those of this queue.
            status: Only those of this status.
            purpose: Only those whose purpose has this prefix.
            candidate_id: Only those of this candidate.
            task_id: Only those of this task.
            limit: Page size, 1,000 at most.
            cursor: Cursor returned with the previous page; None for the first.

        Returns:
            The page, and the cursor of the next or None after the last.
        """
        answer = yield get(
            "rollouts",
            queue=queue,
            status=status,
            purpose=purpose,
            candidate_id=candidate_id,
            task_id=task_id,
            limit=limit,
            cursor=cursor,
        )
        page = answer.read(_Page)
        return page.rollouts, page.next_cursor

    @endpoint
    def counts(
        self,
        queue: str | None = None,
        purpose: str | None = None,
        candidate_id: str | None = None,
        task_id: str | None = None,
    ) -> Steps[dict[RolloutStatus, int]]:
        """Number of rollouts by status; statuses without rollouts are omitted.

        Args:
            queue: Only those of this queue.
            purpose: Only those whose purpose has this prefix.
            candidate_id: Only those of this candidate.
            task_id: Only those of this task.
        """
        answer = yield get(
            "rollouts",
            "counts",
            queue=queue,
            purpose=purpose,
            candidate_id=candidate_id,
            task_id=task_id,
        )
        return answer.read(_Counts).counts

    @endpoint
    def claim(
        self,
        queue: str | Sequence[str],
        worker: str,
        limit: int = 1,
        lease_s: float = 60.0,
        now: float | None = None,
        *,
        wait_s: float = 0.0,
    ) -> Steps[builtins.list[Claim]]:
        """Claim the oldest queued rollouts of a queue.

        If the response is lost, its rollouts stay claimed until their lease expires, and are then
        queued again.

        Args:
            queue: The queue; or several, which take turns. A name that ends with /* stands for
                every queue that begins so.
            worker: Name of the worker, as HOST/PID/START.
            limit: Maximum number of rollouts to claim; the server returns a thousand at most.
            lease_s: Seconds until the claims expire, unless renewed by a heartbeat.
            now: Ignored.
            wait_s: Seconds that the server waits when nothing is queued, 60 at most.
        """
        if limit <= 0:
            return []
        body = {
            **({"queue": queue} if isinstance(queue, str) else {"queues": list(queue)}),
            "worker": worker,
            "limit": min(limit, CLAIMS),
            "lease_s": lease_s,
            "wait_s": wait_s,
        }
        answer = yield post("rollouts", "claim", body=body, waits_s=wait_s)
        return answer.read(_Claims).claims

    @endpoint
    def heartbeat(
        self, pairs: Sequence[Pair], lease_s: float = 60.0, now: float | None = None
    ) -> Steps[set[Pair]]:
        """Extend leases; return the attempts that are still running."""
        running: set[Pair] = set()
        for part in chunks(pairs):
            body = {"attempts": part, "lease_s": lease_s}
            answer = yield post("rollouts", "heartbeat", body=body)
            running.update(answer.read(_Running).running)
        return running

    @endpoint
    def finish(
        self, outcomes: Sequence[Outcome], now: float | None = None
    ) -> Steps[dict[Pair, RolloutStatus | None]]:
        """Report outcomes of attempts, with their spans and the agent's own scores.

        Sent twice, the same outcome is accepted twice and stored once.

        Returns:
            The rollout's new status for each, or None where it was refused: the fence is not the
            newest, or the attempt has ended otherwise.

        Raises:
            InputError: The server refuses one of them; those of earlier requests are stored.
        """
        answers: dict[Pair, RolloutStatus | None] = {}
        for _, part in batches(outcomes):
            answer = yield post("rollouts", "finish", body={"outcomes": part})
            results = answer.read(_Results).results
            answers.update(
                ((outcome.rollout_id, outcome.fence), outcome.status) for outcome in results
            )
        return answers

    @endpoint
    def release(self, pairs: Sequence[Pair], now: float | None = None) -> Steps[set[Pair]]:
        """Release attempts: their rollouts are queued again, and no failure is counted.

        Returns:
            The released attempts; the others had ended.
        """
        released: set[Pair] = set()
        for part in chunks(pairs):
            answer = yield post("rollouts", "release", body={"attempts": part})
            released.update(answer.read(_Released).released)
        return released

    @endpoint
    def cancel(self, ids: Sequence[str], now: float | None = None) -> Steps[int]:
        """Cancel rollouts that are queued or running; return the number of cancelled ones."""
        cancelled = 0
        for part in chunks(ids):
            answer = yield post("rollouts", "cancel", body={"ids": part})
            cancelled += answer.read(_Cancelled).cancelled
        return cancelled

    @endpoint
    def attempts(self, rollout_id: str) -> Steps[builtins.list[Attempt]]:
        """Every attempt at a rollout, oldest first.

        Raises:
            InputError: The rollout is unknown.
        """
        answer = yield get("rollouts", rollout_id, "attempts")
        return answer.read(_Attempts).attempts
