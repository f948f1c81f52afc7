"""The work queue: claims with leases and fencing tokens, heartbeats, results and expiry."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from sqlalchemy import Connection, select

from ratchet.store.engine import Database, chunks
from ratchet.store.keys import hold
from ratchet.store.lifecycle import REPORTABLE, LockedRollout, StatusChange, end_of, require
from ratchet.store.rows import attempt_of, rollout_of
from ratchet.store.scores import Scores
from ratchet.store.spans import Spans
from ratchet.store.statements import (
    END_ATTEMPT,
    END_ROLLOUT,
    HAND_OUT,
    ID_OF_ATTEMPT,
    LEASES,
    NEW_ATTEMPT,
    PROLONG,
    QUEUE_OF_ATTEMPT,
    REQUEUE,
    attempt_end,
    attempt_stop,
    ended,
    finished,
    new_attempt,
    requeued,
)
from ratchet.store.tables import RUNNING, attempts, rollouts
from ratchet.store.turns import QUEUE_WILDCARD, Turns, queued_queues
from ratchet.types import FINAL, Attempt, AttemptStatus, Claim, InputError, Outcome, RolloutStatus

Pair: TypeAlias = tuple[str, int]
"""Rollout id and fence, which identify an attempt."""

Answers: TypeAlias = dict[Pair, RolloutStatus | None]


class Queue:
    """The part of `store.rollouts` for runners.

    An attempt runs until it is ended. After its lease has expired, the next `expire` or `claim` may
    end it, and from then on its heartbeats and its result are refused. Until then they are
    accepted, however late: nobody else has the rollout, and the attempt is already paid for (a
    laptop slept, a virtual machine was paused, a killed runner's worker reports late).

    The times that methods take are the caller's; leases are kept by the clock that all machines of
    a store share.
    """

    def __init__(self, database: Database, spans: Spans, scores: Scores) -> None:
        self._database = database
        self._spans = spans
        self._scores = scores
        self._turns = Turns()

    def claim(
        self, queue: str | Sequence[str], worker: str, limit: int, lease_s: float, now: float
    ) -> list[Claim]:
        """Expire the overdue leases of a queue, then claim its oldest queued rollouts.

        Args:
            queue: The queue; or several, which take turns. A name that ends with /* stands for
                every queue that begins so.
            worker: The worker that will run them, as HOST/PID/START.
            limit: Maximum number of claims.
            lease_s: Seconds until the leases expire without a heartbeat.
            now: Unix seconds.
        """
        return self.claim_each(queue, [(worker, limit)], lease_s, now)[0]

    def claim_each(
        self,
        queue: str | Sequence[str],
        requests: Sequence[tuple[str, int]],
        lease_s: float,
        now: float,
    ) -> list[list[Claim]]:
        """Claim rollouts for several workers in one transaction, in the order given.

        Args:
            queue: As for `claim`.
            requests: Each worker with its maximum number of claims.
            lease_s: As for `claim`.
            now: Unix seconds.

        Returns:
            The claims of each worker.
        """
        # The worker of each rollout that may be found, in order.
        slots = [number for number, (_, limit) in enumerate(requests) for _ in range(limit)]
        if not slots:
            return [[] for _ in requests]
        now = self._database.lease_clock.shared(now)
        queues = (queue,) if isinstance(queue, str) else tuple(queue)
        # Of several, or of those that a pattern stands for: the overdue leases of all queues.
        only = queues[0] if len(queues) == 1 and not queues[0].endswith(QUEUE_WILDCARD) else None

        def work(connection: Connection) -> list[list[Claim]]:
            claims: list[list[Claim]] = [[] for _ in requests]
            self._expire(connection, now, only, ())
            rows = self._turns.take(connection, queues, len(slots))
            if not rows:
                return claims
            for row in rows:
                require(row.status, "running")
            until = now + lease_s
            connection.execute(HAND_OUT, [{"at": row.seq} for row in rows])
            served = list(zip(slots, rows, strict=False))
            new = [new_attempt(row, requests[slot][0], until, now) for slot, row in served]
            connection.execute(NEW_ATTEMPT, new)
            for slot, row in served:
                fence = row.fence + 1
                claims[slot].append(Claim(rollout_of(row, "running", fence), fence, until))
            return claims

        return self._database.write(work)

    def heartbeat(self, pairs: Sequence[Pair], lease_s: float, now: float) -> set[Pair]:
        """Extend leases to `now + lease_s`; return the attempts that still run.

        An overdue lease is extended too, unless its attempt was expired.
        """
        if not pairs:
            return set()
        now = self._database.lease_clock.shared(now)

        def work(connection: Connection) -> set[Pair]:
            running = _running_of(connection, pairs)
            rows = [
                {"at": rollout.seq, "at_fence": rollout.fence, "until": now + lease_s}
                for rollout in running.values()
            ]
            if rows:
                connection.execute(PROLONG, rows)
            return set(running)

        return self._database.write(work)

    def finish(self, outcomes: Sequence[Outcome], now: float) -> Answers:
        """End attempts and store their spans and the agent's own scores, in one transaction.

        An attempt with an overdue lease may still finish, unless it was expired. Scores are stored
        when this outcome ends the rollout, not when it is queued again. A rollout's cost is that of
        all of its attempts: what their runners report, and the model calls in their spans.

        Args:
            outcomes: Results of attempts.
            now: Unix seconds.

        Returns:
            The rollout's status after each outcome, or None where it was refused: the fence is not
            the newest, or the attempt has already ended or expired. Nothing of a refused outcome is
            stored.

        Raises:
            InputError: An outcome's status cannot be reported for an attempt.
        """
        for outcome in outcomes:
            if outcome.status not in REPORTABLE:
                raise InputError(
                    f"Rollout {outcome.rollout_id} is reported as {outcome.status!r}; an attempt "
                    f"ends as one of {sorted(REPORTABLE)}.",
                    hint="Use `release` to give up an attempt.",
                )
        if not outcomes:
            return {}
        tries = 0

        def work(connection: Connection) -> Answers:
            nonlocal tries
            tries += 1
            answers = self._finish(connection, outcomes, now)
            if tries > 1:
                # The connection broke: the first run may have been committed without our knowledge.
                refused = [o for o in outcomes if answers[o.rollout_id, o.fence] is None]
                answers.update(_already_written(connection, refused))
            return answers

        return self._database.write(work)

    def already(self, outcomes: Sequence[Outcome]) -> Answers:
        """Return the status after each outcome that is already stored exactly as reported.

        For callers that may have missed the acceptance of their report.
        """
        return self._database.read(lambda c: _already_written(c, outcomes))

    def release(self, pairs: Sequence[Pair], now: float) -> set[Pair]:
        """Release attempts: their rollouts are queued again, and no failure is counted.

        Returns:
            The released attempts; the others had ended.
        """
        if not pairs:
            return set()

        def work(connection: Connection) -> set[Pair]:
            mine = _running_of(connection, pairs)
            locked = list(mine.values())
            _take_back(connection, locked, "released", "Released by its runner.", now)
            return set(mine)

        return self._database.write(work)

    def expire(
        self, now: float, queue: str | None = None, dead_workers: Collection[str] = ()
    ) -> list[str]:
        """Requeue rollouts whose lease has expired or whose worker is dead.

        Args:
            now: Unix seconds.
            queue: Only this queue; all queues by default.
            dead_workers: Workers known to be dead, regardless of leases.

        Returns:
            Ids of the rollouts, oldest first.
        """
        now = self._database.lease_clock.shared(now)
        return self._database.write(lambda c: self._expire(c, now, queue, dead_workers))

    def cancel(self, ids: Sequence[str], now: float) -> int:
        """Cancel queued and running rollouts; return how many were cancelled.

        A runner learns of it from its next heartbeat; later reports are refused.
        """
        if not ids:
            return 0

        def work(connection: Connection) -> int:
            locked = hold(connection, ids)
            going = [rollout for rollout in locked.values() if rollout.status not in FINAL]
            for rollout in going:
                require(rollout.status, "cancelled")
            running = [rollout for rollout in going if rollout.status == "running"]
            _end_attempts(connection, running, "cancelled", "Cancelled.", now)
            rows = [
                ended(rollout, StatusChange("cancelled", rollout.failures, ""), now)
                for rollout in going
            ]
            if rows:
                connection.execute(END_ROLLOUT, rows)
            return len(rows)

        return self._database.write(work)

    def queues(self, prefix: str = "", limit: int = 100) -> list[str]:
        """Names of queues that have queued rollouts, in order.

        Args:
            prefix: Only names that begin so.
            limit: Maximum number of names.
        """
        return self._database.read(lambda c: queued_queues(c, prefix, limit=limit))

    def attempts(self, rollout_id: str) -> list[Attempt]:
        """List the attempts at a rollout, oldest first."""
        query = (
            select(attempts, rollouts.c.id.label("rollout_id"))
            .join_from(rollouts, attempts, rollouts.c.seq == attempts.c.rollout_seq)
            .where(rollouts.c.id == rollout_id)
            .order_by(attempts.c.fence)
        )
        return self._database.read(lambda c: [attempt_of(row) for row in c.execute(query)])

    def running(self, queue: str | None = None) -> list[Attempt]:
        """List running attempts, of one queue or of all, oldest rollout first."""
        query = (
            select(attempts, ID_OF_ATTEMPT.label("rollout_id"))
            .where(RUNNING)
            .order_by(attempts.c.rollout_seq)
        )
        if queue is not None:
            query = query.where(QUEUE_OF_ATTEMPT.in_([queue]))
        return self._database.read(lambda c: [attempt_of(row) for row in c.execute(query)])

    def _finish(self, connection: Connection, outcomes: Sequence[Outcome], now: float) -> Answers:
        locked = hold(connection, (o.rollout_id for o in outcomes))
        answers: Answers = {}
        accepted: list[tuple[Outcome, LockedRollout, StatusChange]] = []
        for outcome in outcomes:
            pair = (outcome.rollout_id, outcome.fence)
            rollout = locked.get(outcome.rollout_id)
            if pair in answers or rollout is None or not rollout.runs(outcome.fence):
                answers.setdefault(pair, None)
                continue
            change = end_of(rollout, outcome.status, outcome.error)
            answers[pair] = change.status
            accepted.append((outcome, rollout, change))
        if not accepted:
            return answers
        connection.execute(END_ATTEMPT, [attempt_end(o, rollout) for o, rollout, _ in accepted])
        again = [requeued(h, ch, o.cost_usd) for o, h, ch in accepted if ch.status == "queued"]
        final = [(o, h, ch) for o, h, ch in accepted if ch.status in FINAL]
        if again:
            connection.execute(REQUEUE, again)
        if final:
            connection.execute(END_ROLLOUT, [finished(*ending) for ending in final])
        self._spans.add_all(
            connection, ((h.seq, h.fence, span) for o, h, _ in accepted for span in o.spans)
        )
        own = ((h.seq, score) for o, h, _ in final for score in o.scores)
        self._scores.add_all(connection, own, now)
        return answers

    def _expire(
        self, connection: Connection, now: float, queue: str | None, dead: Collection[str]
    ) -> list[str]:
        running = select(ID_OF_ATTEMPT).select_from(attempts).where(RUNNING)
        if queue is not None:
            running = running.where(QUEUE_OF_ATTEMPT.in_([queue]))
        late = set(connection.scalars(running.where(attempts.c.lease_until <= now)))
        gone: set[str] = set()
        for chunk in chunks(sorted(dead)):
            gone |= set(connection.scalars(running.where(attempts.c.worker.in_(chunk))))
        if not late and not gone:
            return []
        # These were read before locking: check again, since some may have ended or been extended.
        locked = hold(connection, late | gone)
        leases = _leases(connection, locked.values())
        only_gone = {
            id: rollout for id, rollout in locked.items() if id in gone and rollout.seq in leases
        }
        only_late = {
            id: rollout
            for id, rollout in locked.items()
            if id not in gone and rollout.seq in leases and leases[rollout.seq] <= now
        }
        _take_back(connection, list(only_late.values()), "expired", "Its lease ran out.", now)
        _take_back(connection, list(only_gone.values()), "expired", "Its worker disappeared.", now)
        expired = only_late | only_gone
        return sorted(expired, key=lambda id: expired[id].seq)


def _running_of(connection: Connection, pairs: Sequence[Pair]) -> dict[Pair, LockedRollout]:
    """Lock the rollouts of attempts; return those whose attempt is running."""
    locked = hold(connection, (id for id, _ in pairs))
    return {
        (id, fence): rollout
        for id, fence in pairs
        if (rollout := locked.get(id)) and rollout.runs(fence)
    }


def _leases(connection: Connection, locked: Iterable[LockedRollout]) -> dict[int, float]:
    """Lease expiry by seq, in Unix seconds, of rollouts with a running attempt."""
    leases: dict[int, float] = {}
    for chunk in chunks([rollout.seq for rollout in locked]):
        rows = connection.execute(LEASES, {"seqs": chunk})
        leases.update((seq, until) for seq, until in rows)
    return leases


def _take_back(
    connection: Connection,
    locked: Sequence[LockedRollout],
    status: AttemptStatus,
    error: str,
    now: float,
) -> None:
    """End attempts that no executor reported on, and queue their rollouts again."""
    _end_attempts(connection, locked, status, error, now)
    changes = [(rollout, end_of(rollout, status, error)) for rollout in locked]
    again = [
        requeued(rollout, change, 0.0) for rollout, change in changes if change.status == "queued"
    ]
    over = [ended(rollout, change, now) for rollout, change in changes if change.status != "queued"]
    if again:
        connection.execute(REQUEUE, again)
    if over:
        connection.execute(END_ROLLOUT, over)


def _end_attempts(
    connection: Connection,
    running: Sequence[LockedRollout],
    status: AttemptStatus,
    error: str,
    now: float,
) -> None:
    rows = [attempt_stop(rollout, status, error, now) for rollout in running]
    if rows:
        connection.execute(END_ATTEMPT, rows)


def _already_written(connection: Connection, outcomes: Sequence[Outcome]) -> Answers:
    """Return the status after each outcome that is stored exactly as reported."""
    answers: Answers = {}
    for outcome in outcomes:
        query = (
            select(attempts.c.status, attempts.c.ended_at, rollouts.c.status)
            .join_from(rollouts, attempts, rollouts.c.seq == attempts.c.rollout_seq)
            .where(rollouts.c.id == outcome.rollout_id)
            .where(attempts.c.fence == outcome.fence)
        )
        row = connection.execute(query).first()
        if row is not None and tuple(row[:2]) == (outcome.status, outcome.ended_at):
            answers[outcome.rollout_id, outcome.fence] = row[2]
    return answers
