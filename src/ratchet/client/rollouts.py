"""Rollouts at the server: the queue, and looking them up."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from ratchet.client.call import (
    Carrier,
    RemoteRepository,
    Steps,
    batches,
    chunks,
    endpoint,
    get,
    post,
)
from ratchet.types import Attempt, Claim, InputError, Outcome, Rollout, RolloutStatus

Pair: TypeAlias = tuple[str, int]
"""Rollout id and fence: names one attempt."""

CLAIMS = 1_000
"""Rollouts that one claim takes at most, however many are asked for."""


class _New(msgspec.Struct, frozen=True, kw_only=True):
    """What the server is told of a new rollout."""

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


class Rollouts(RemoteRepository[Carrier]):
    """Rollouts by id and by queue; and the queue that hands them out.

    `now` is there for the store's sake: at a server its own clock counts.
    """

    @endpoint
    def create(self, items: Sequence[Rollout], now: float | None = None) -> Steps[int]:
        """Queue new rollouts, to be handed out in this order, a transaction for every thousand.

        Sent twice, each is created once.

        Returns:
            How many were new; when an answer got lost, those it told of are not among them.

        Raises:
            InputError: One is not `queued`, or the server does not take it as it is.
        """
        for rollout in items:
            if rollout.status != "queued":
                raise InputError(
                    f"Rollout {rollout.id} is {rollout.status!r}; a server takes queued ones.",
                    hint="What ended elsewhere is kept through a store.",
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
        """Rollouts by id; ids that are unknown are left out."""
        found: dict[str, Rollout] = {}
        for part in chunks(dict.fromkeys(ids)):
            answer = yield post("rollouts", "lookup", body={"ids": part})
            found.update(answer.read(_Found).rollouts)
        return found

    @endpoint
    def list(
        self,
        queue: str | None = None,
        status: RolloutStatus | None = None,
        purpose: str | None = None,
        candidate_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Steps[tuple[builtins.list[Rollout], str | None]]:
        """One page of rollouts, newest first. Rollouts made meanwhile move no page.

        Args:
            queue: Only those of this queue.
            status: Only those of this status.
            purpose: Only those whose purpose begins so.
            candidate_id: Only those of this candidate.
            limit: Rollouts on a page, 1,000 at most.
            cursor: Where the page begins, as the page before returned it; None for the first.

        Returns:
            The page, and the cursor of the next or None after the last.
        """
        answer = yield get(
            "rollouts",
            queue=queue,
            status=status,
            purpose=purpose,
            candidate_id=candidate_id,
            limit=limit,
            cursor=cursor,
        )
        page = answer.read(_Page)
        return page.rollouts, page.next_cursor

    @endpoint
    def counts(
        self, queue: str | None = None, purpose: str | None = None
    ) -> Steps[dict[RolloutStatus, int]]:
        """How many rollouts have each status; a status that none has is left out.

        Args:
            queue: Only those of this queue.
            purpose: Only those whose purpose begins so.
        """
        answer = yield get("rollouts", "counts", queue=queue, purpose=purpose)
        return answer.read(_Counts).counts

    @endpoint
    def claim(
        self,
        queue: str,
        worker: str,
        limit: int = 1,
        lease_s: float = 60.0,
        now: float | None = None,
        *,
        wait_s: float = 0.0,
    ) -> Steps[builtins.list[Claim]]:
        """Take the oldest queued rollouts of a queue.

        An answer that gets lost leaves its rollouts claimed until their lease is over; then they
        are handed out again.

        Args:
            queue: Which rollouts.
            worker: Who will run them, as HOST/PID/START.
            limit: How many at most; more than a thousand are not given at once.
            lease_s: Seconds until the claims end unless a heartbeat comes.
            now: Ignored.
            wait_s: How long the server waits for some to be queued, 60 at most.
        """
        if limit <= 0:
            return []
        body = {
            "queue": queue,
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
        """Prolong leases; return the attempts that still run."""
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
        """End attempts, with their spans and the agent's own scores.

        Sent twice, the same outcome is accepted twice and stored once.

        Returns:
            The rollout's status after each, or None where it was refused: the fence is not the
            newest, or the attempt has ended otherwise.

        Raises:
            InputError: The server does not take one of them as it is; those that were sent in a
                request before are stored.
        """
        answers: dict[Pair, RolloutStatus | None] = {}
        for _, part in batches(outcomes):
            answer = yield post("rollouts", "finish", body={"outcomes": part})
            results = answer.read(_Results).results
            answers.update(((one.rollout_id, one.fence), one.status) for one in results)
        return answers

    @endpoint
    def release(self, pairs: Sequence[Pair], now: float | None = None) -> Steps[set[Pair]]:
        """Give attempts back; their rollouts are queued again, and no failure is counted.

        Returns:
            Those that were given back; the others had ended.
        """
        released: set[Pair] = set()
        for part in chunks(pairs):
            answer = yield post("rollouts", "release", body={"attempts": part})
            released.update(answer.read(_Released).released)
        return released

    @endpoint
    def cancel(self, ids: Sequence[str], now: float | None = None) -> Steps[int]:
        """Cancel rollouts that are queued or running; return how many were."""
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
