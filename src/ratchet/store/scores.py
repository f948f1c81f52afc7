"""Repository of evaluators' scores of rollouts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, case, func, select

from ratchet.store.columns import clean
from ratchet.store.engine import Database, chunks, starts_with
from ratchet.store.keys import keys_of
from ratchet.store.rows import cost_of
from ratchet.store.tables import rollouts, scores
from ratchet.types import FINAL, Cost, RolloutStatus, Score


class Mean(NamedTuple):
    """Mean of one evaluator's scores of one candidate's rollouts."""

    candidate_id: str
    evaluator: str
    mean: float | None
    """Mean of the values; None if every score is an error."""
    n: int
    """Number of scores with a value."""
    errors: int
    """Number of scores with an error; not part of the mean."""


class TaskMean(NamedTuple):
    """Mean of one evaluator's scores of a candidate's rollouts on one task."""

    mean: float | None
    """None when every score is an error."""
    rollouts: tuple[str, ...]
    """Ids of the rollouts, oldest first."""


class MeasuredRollout(NamedTuple):
    """An ended rollout's result by one evaluator, and its cost and duration."""

    candidate_id: str
    task_id: str
    seed: int
    """Differs between repetitions; a rollout that was run again keeps its seed."""
    status: RolloutStatus
    value: float | None
    """The evaluator's newest score; None if there is none."""
    version: str
    """The evaluator's version; empty if it did not score."""
    duration_s: float | None
    cost: Cost


class Scores:
    """Scores by rollout; each evaluator version has at most one per rollout, the last."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._upsert = database.upsert(
            scores,
            ("rollout_seq", "evaluator", "version"),
            ("value", "unit", "rationale", "error", "created_at"),
        )

    def add(self, items: Sequence[tuple[str, Score]], now: float) -> None:
        """Store scores; a later one of the same evaluator version replaces the earlier.

        Args:
            items: Rollout id and score.
            now: Unix seconds.

        Raises:
            InputError: A rollout is unknown.
        """

        def work(connection: Connection) -> None:
            keys = keys_of(connection, (rollout_id for rollout_id, _ in items))
            self.add_all(connection, ((keys[id], score) for id, score in items), now)

        self._database.write(work)

    def add_all(
        self, connection: Connection, items: Iterable[tuple[int, Score]], now: float
    ) -> None:
        """Store scores by their rollouts' keys in an open transaction."""
        rows: list[dict[str, Any]] = [
            {
                "rollout_seq": rollout_seq,
                "evaluator": score.evaluator,
                "version": score.version,
                "value": score.value,
                "unit": score.unit,
                "rationale": score.rationale,
                "error": score.error,
                "created_at": now,
            }
            for rollout_seq, score in items
        ]
        if rows:
            connection.execute(self._upsert, rows)

    def of(self, rollout_ids: Sequence[str]) -> dict[str, list[Score]]:
        """Return scores by rollout id, in the order first given, for every requested id."""
        stored = {id: clean(id) for id in rollout_ids}

        def work(connection: Connection) -> dict[str, list[Score]]:
            by_id: dict[str, list[Score]] = {id: [] for id in stored.values()}
            for chunk in chunks(list(by_id)):
                query = (
                    select(scores, rollouts.c.id.label("rollout_id"))
                    .join_from(rollouts, scores, rollouts.c.seq == scores.c.rollout_seq)
                    .where(rollouts.c.id.in_(chunk))
                    .order_by(scores.c.seq)
                )
                for row in connection.execute(query):
                    by_id[row.rollout_id].append(_score(row))
            return by_id

        by_id = self._database.read(work)
        return {id: by_id[as_stored] for id, as_stored in stored.items()}

    def means(
        self,
        purpose: str | None = None,
        candidate_id: str | None = None,
        *,
        version: str | None = None,
    ) -> list[Mean]:
        """Mean score by candidate and evaluator, sorted by both.

        Args:
            purpose: Only rollouts whose purpose has this prefix.
            candidate_id: Only this candidate's rollouts.
            version: Only this evaluator version's scores.
        """
        query = (
            select(
                rollouts.c.candidate_id,
                scores.c.evaluator,
                func.avg(scores.c.value),
                func.count(scores.c.value),
                func.sum(case((scores.c.value.is_(None), 1), else_=0)),
            )
            .join_from(scores, rollouts, scores.c.rollout_seq == rollouts.c.seq)
            .group_by(rollouts.c.candidate_id, scores.c.evaluator)
            .order_by(rollouts.c.candidate_id, scores.c.evaluator)
        )
        if purpose is not None:
            query = query.where(starts_with(rollouts.c.purpose, purpose))
        if candidate_id is not None:
            query = query.where(rollouts.c.candidate_id == candidate_id)
        if version is not None:
            query = query.where(scores.c.version == version)
        return self._database.read(lambda c: [Mean(*row) for row in c.execute(query)])

    def by_task(self, queue: str, candidate_id: str, evaluator: str) -> dict[str, TaskMean]:
        """Mean score by task, in the order in which the tasks were first run.

        Args:
            queue: Queue of the rollouts; a run's is its id.
            candidate_id: The candidate.
            evaluator: Name of the evaluator; the newest version's scores count.
        """
        query = (
            select(rollouts.c.task_id, rollouts.c.id, scores.c.value)
            .join_from(rollouts, scores, rollouts.c.seq == scores.c.rollout_seq)
            .where(
                rollouts.c.queue == clean(queue),
                rollouts.c.candidate_id == clean(candidate_id),
                scores.c.evaluator == clean(evaluator),
            )
            .order_by(rollouts.c.seq, scores.c.seq)
        )

        def work(connection: Connection) -> dict[str, TaskMean]:
            values: dict[str, dict[str, float | None]] = {}
            for task, rollout, value in connection.execute(query):
                values.setdefault(task, {})[rollout] = value
            return {task: _task_mean(task_values) for task, task_values in values.items()}

        return self._database.read(work)

    def measured(self, queue: str, purpose: str, evaluator: str) -> list[MeasuredRollout]:
        """Result, cost and duration of each ended rollout of a queue, in order of creation.

        Args:
            queue: Queue of the rollouts; a run's is its id.
            purpose: Only rollouts whose purpose has this prefix.
            evaluator: Name of the evaluator; the newest version's score counts.
        """
        theirs = (rollouts.c.seq == scores.c.rollout_seq) & (scores.c.evaluator == clean(evaluator))
        query = (
            select(
                rollouts.c.seq,
                rollouts.c.candidate_id,
                rollouts.c.task_id,
                rollouts.c.seed,
                rollouts.c.status,
                rollouts.c.duration_s,
                rollouts.c.known_usd,
                rollouts.c.reported_usd,
                rollouts.c.unpriced,
                scores.c.value,
                scores.c.version,
            )
            .join_from(rollouts, scores, theirs, isouter=True)
            .where(
                rollouts.c.queue == clean(queue),
                rollouts.c.status.in_(sorted(FINAL - {"cancelled"})),
                starts_with(rollouts.c.purpose, purpose),
            )
            .order_by(rollouts.c.seq, scores.c.seq)
        )

        def work(connection: Connection) -> dict[int, MeasuredRollout]:
            return {
                row.seq: MeasuredRollout(
                    row.candidate_id,
                    row.task_id,
                    row.seed,
                    row.status,
                    row.value,
                    row.version or "",
                    row.duration_s,
                    cost_of(row),
                )
                for row in connection.execute(query)
            }

        return list(self._database.read(work).values())


def _task_mean(values: dict[str, float | None]) -> TaskMean:
    numbers = [value for value in values.values() if value is not None]
    return TaskMean(sum(numbers) / len(numbers) if numbers else None, tuple(values))


def _score(row: Any) -> Score:
    return Score(
        evaluator=row.evaluator,
        version=row.version,
        value=row.value,
        unit=row.unit,
        rationale=row.rationale,
        error=row.error,
    )
