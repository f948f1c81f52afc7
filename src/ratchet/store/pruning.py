"""Pruning: deletes old rows in short, bounded steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    Connection,
    Table,
    delete,
    exists,
    func,
    select,
    text,
    tuple_,
)

from ratchet.store.engine import Database, chunks
from ratchet.store.keys import NO_ROLLOUT
from ratchet.store.references import OVER, used_candidates, used_datasets
from ratchet.store.tables import (
    attempts,
    audit,
    candidates,
    dataset_tasks,
    datasets,
    events,
    feedback,
    journal,
    keys,
    occurrences,
    rollouts,
    runs,
    scores,
    spans,
    tasks,
    trace_rows,
    transitions,
)
from ratchet.store.texts import left_traces, lock_texts, release_texts
from ratchet.store.trace_index import TraceIndex
from ratchet.types import FINAL, Stage

LOGIN = "login:"
"""Prefix of the names of keys that logins create."""

PATIENCE_S = 2.0
"""Seconds that a step waits for an unreachable or locked database; a later step continues."""

# An arbitrary number, the same in every Ratchet: one server prunes at a time.
PRUNE_LOCK = 7_236_142_459


class PruningStep(NamedTuple):
    """Result of a step, and the position of the next one."""

    deleted: int
    """Number of rows."""
    after: int | None
    """Argument of the next step; None if nothing is left to do or another server prunes."""


class Pruning:
    """Deletes old rows, oldest first.

    Each method examines `limit` rows after a given one and deletes the old ones. The newest row of
    a table always stays: SQLite would reuse its number, and readers that follow a table by number
    would miss the new row.
    """

    def __init__(self, database: Database, index: TraceIndex) -> None:
        self._database = database
        self._index = index

    def events(self, before: float, after: int = 0, limit: int = 500) -> PruningStep:
        """Delete events older than a moment.

        Args:
            before: Unix seconds.
            after: 0, then the `after` of the previous step.
            limit: Rows to examine.
        """
        return self._log(events, events.c.at, before, after, limit)

    def audit(self, before: float, after: int = 0, limit: int = 500) -> PruningStep:
        """Delete rows of the audit log older than a moment; arguments as for `events`."""
        return self._log(audit, audit.c.at, before, after, limit)

    def logins(self, before: float, after: int = 0, limit: int = 500) -> PruningStep:
        """Delete keys of logins that expired before a moment; arguments as for `events`."""

        def work(connection: Connection) -> PruningStep:
            if not self._is_mine(connection):
                return PruningStep(0, None)
            over = (
                select(keys.c.seq)
                .where(keys.c.seq > after, keys.c.expires_at <= before)
                .where(keys.c.name.startswith(LOGIN, autoescape=True))
                .order_by(keys.c.seq)
                .limit(limit)
            )
            seqs = list(connection.scalars(over))
            for some in chunks(seqs):
                connection.execute(delete(keys).where(keys.c.seq.in_(some)))
            return PruningStep(len(seqs), seqs[-1] if len(seqs) == limit else None)

        return self._database.write(work, patience_s=PATIENCE_S)

    def feedback(self, before: float, after: int = 0, limit: int = 500) -> PruningStep:
        """Delete feedback older than a moment; arguments as for `events`."""
        # Senders set the times: rows after one from the future may still be old.
        return self._log(feedback, feedback.c.created_at, before, after, limit, in_order=False)

    def occurrences(self, before: float, after: int = 0, limit: int = 500) -> PruningStep:
        """Delete occurrences of problems older than a moment; arguments as for `events`.

        They quote traces, so they go with those. The problem and its history stay.
        """
        return self._log(occurrences, occurrences.c.at, before, after, limit, in_order=False)

    def rollouts(self, before: float, after: int = 0, limit: int = 500) -> PruningStep:
        """Delete rollouts that ended before a moment, with their attempts, spans, transitions
        and scores.

        Those for which `is_needed` holds are kept. Arguments as for `events`.
        """
        rows = self._window(
            rollouts,
            after,
            limit,
            rollouts.c.status,
            rollouts.c.purpose,
            rollouts.c.created_at,
            rollouts.c.ended_at,
        )
        stages = self._stages({row.purpose for row in rows})
        old = [
            row.seq
            for row in rows
            if row.status in FINAL
            # Runners report when a rollout ended, and their clocks may be behind.
            and max(row.created_at, row.ended_at or 0.0) < before
            and not is_needed(row.purpose, stages)
        ]
        aged = any(row.created_at < before for row in rows)
        following = rows[-1].seq if aged and len(rows) == limit else None
        if not old:
            return PruningStep(0, following)

        def work(connection: Connection) -> PruningStep:
            if not self._is_mine(connection):
                return PruningStep(0, None)
            gone = 0
            for table in (spans, transitions):
                their_seqs = select(table.c.seq).where(table.c.rollout_seq.in_(old)).limit(limit)
                seqs = connection.scalars(their_seqs).all()
                for chunk in chunks(seqs):
                    # Their rollouts name the partition of spans on Postgres.
                    theirs = table.c.seq.in_(chunk), table.c.rollout_seq.in_(old)
                    connection.execute(delete(table).where(*theirs))
                gone += len(seqs)
                if len(seqs) == limit:
                    # More are left: examine the same rollouts again. They are deleted after these.
                    return PruningStep(gone, after)
            for table in (scores, attempts):
                gone += connection.execute(
                    delete(table).where(table.c.rollout_seq.in_(old))
                ).rowcount
            gone += connection.execute(delete(rollouts).where(rollouts.c.seq.in_(old))).rowcount
            return PruningStep(gone, following)

        return self._database.write(work, patience_s=PATIENCE_S)

    def journal(self, before: float, after: int = 0, limit: int = 500) -> PruningStep:
        """Delete journal entries older than a moment, of runs that ended before it.

        Entries of a run without a row of its own, such as a `Trainer`'s, are deleted when the
        newest of them is older than the moment. Arguments as for `events`.
        """
        rows = self._window(journal, after, limit, journal.c.run_id, journal.c.created_at)
        aged = [row for row in rows if row.created_at < before]
        following = rows[-1].seq if aged and len(rows) == limit else None
        run_ids = {row.run_id for row in aged}

        def work(connection: Connection) -> PruningStep:
            if not self._is_mine(connection):
                return PruningStep(0, None)
            ended = self._ended_runs(connection, run_ids, before)
            old = [row.seq for row in aged if row.run_id in ended]
            gone = 0
            for chunk in chunks(old):
                gone += connection.execute(delete(journal).where(journal.c.seq.in_(chunk))).rowcount
            return PruningStep(gone, following)

        return (
            self._database.write(work, patience_s=PATIENCE_S) if aged else PruningStep(0, following)
        )

    def candidates(self, before: float, after: int = 0, limit: int = 500) -> PruningStep:
        """Delete unreferenced candidates that were last proposed before a moment.

        See `used_candidates`. The versions of their resources stay. Arguments as for `events`.
        """
        rows = self._window(candidates, after, limit, candidates.c.id, candidates.c.put_at)
        old = [row.id for row in rows if row.put_at < before]
        following = rows[-1].seq if len(rows) == limit else None

        def work(connection: Connection) -> PruningStep:
            if not self._is_mine(connection):
                return PruningStep(0, None)
            gone = 0
            for chunk in chunks(sorted(set(old) - used_candidates(connection, old))):
                # Whoever stored it again just now is about to use it.
                unused = candidates.c.id.in_(chunk), candidates.c.put_at < before
                gone += connection.execute(delete(candidates).where(*unused)).rowcount
            return PruningStep(gone, following)

        return (
            self._database.write(work, patience_s=PATIENCE_S) if old else PruningStep(0, following)
        )

    def datasets(self, before: float, after: int = 0, limit: int = 500) -> PruningStep:
        """Delete unreferenced datasets that were last stored before a moment.

        See `used_datasets`. The newest of each name stays. `tasks` deletes their tasks. Arguments
        as for `events`.
        """
        rows = self._window(datasets, after, limit, datasets.c.version, datasets.c.put_at)
        old = {row.seq: row.version for row in rows if row.put_at < before}
        following = rows[-1].seq if len(rows) == limit else None
        newer = datasets.alias()
        followed = exists().where(
            newer.c.name == datasets.c.name,
            tuple_(newer.c.put_at, newer.c.seq) > tuple_(datasets.c.put_at, datasets.c.seq),
        )

        def work(connection: Connection) -> PruningStep:
            if not self._is_mine(connection):
                return PruningStep(0, None)
            used = used_datasets(connection)
            gone = 0
            for chunk in chunks([seq for seq, version in old.items() if version not in used]):
                unused = datasets.c.seq.in_(chunk), datasets.c.put_at < before, followed
                gone += connection.execute(delete(datasets).where(*unused)).rowcount
            return PruningStep(gone, following)

        return (
            self._database.write(work, patience_s=PATIENCE_S) if old else PruningStep(0, following)
        )

    def tasks(self, before: float, after: int = 0, limit: int = 500) -> PruningStep:
        """Delete the task lists of deleted datasets, and tasks that are in no other dataset.

        Args:
            before: Ignored.
            after: 0, then the `after` of the previous step.
            limit: Rows of a list to delete.
        """

        def work(connection: Connection) -> PruningStep:
            if not self._is_mine(connection):
                return PruningStep(0, None)
            version = _abandoned(connection)
            if version is None:
                return PruningStep(0, None)
            mine = dataset_tasks.c.version == version
            columns = dataset_tasks.c.position, dataset_tasks.c.content
            first = select(*columns).where(mine).order_by(dataset_tasks.c.position).limit(limit)
            rows = connection.execute(first).all()
            last = rows[-1].position
            connection.execute(delete(dataset_tasks).where(mine, dataset_tasks.c.position <= last))
            gone = len(rows)
            for chunk in chunks(sorted({row.content for row in rows})):
                referenced = exists().where(dataset_tasks.c.content == tasks.c.content)
                lone = tasks.c.content.in_(chunk), ~referenced
                gone += connection.execute(delete(tasks).where(*lone)).rowcount
            return PruningStep(gone, after + 1)

        abandoned = self._database.read(_abandoned, patience_s=PATIENCE_S)
        if abandoned is None:
            return PruningStep(0, None)
        return self._database.write(work, patience_s=PATIENCE_S)

    def texts(self, before: float, after: int = 0, limit: int = 500) -> PruningStep:
        """Delete long texts that no span refers to any more.

        Args:
            before: Unix seconds. Spans that ended before it may have been deleted.
            after: 0, then the `after` of the previous step.
            limit: Traces to examine.
        """
        ended_ns = int(before * 1e9)
        trace_keys, following = self._database.read(
            lambda c: left_traces(c, ended_ns, after, limit), patience_s=PATIENCE_S
        )
        if not trace_keys:
            return PruningStep(0, following)

        def work(connection: Connection) -> PruningStep:
            if not self._is_mine(connection):
                return PruningStep(0, None)
            if not self._database.is_sqlite and not lock_texts(connection):
                return PruningStep(0, None)
            return PruningStep(release_texts(connection, trace_keys), following)

        return self._database.write(work, patience_s=PATIENCE_S)

    def trace_rows(self, before: float, after: int = 0, limit: int = 500) -> PruningStep:
        """Delete the index rows of live traces without a span.

        Args:
            before: Unix seconds. Traces that began before it may have been deleted.
            after: 0, then the `after` of the previous step.
            limit: Traces to examine.
        """
        place, trace_id = trace_rows.c.place, trace_rows.c.trace_id
        mine = spans.c.rollout_seq == NO_ROLLOUT, spans.c.fence == 0, spans.c.trace_id == trace_id
        query = (
            select(place, exists().where(*mine).label("holds"))
            .where(place < int(before * 1e9))
            .order_by(place)
            .limit(limit)
        )
        if after:
            query = query.where(place > after)
        rows = self._database.read(lambda c: c.execute(query).all(), patience_s=PATIENCE_S)
        following = rows[-1].place if len(rows) == limit else None
        gone = [row.place for row in rows if not row.holds]
        if not gone:
            return PruningStep(0, following)

        def work(connection: Connection) -> PruningStep:
            if not self._is_mine(connection):
                return PruningStep(0, None)
            return PruningStep(self._index.remove(connection, gone), following)

        return self._database.write(work, patience_s=PATIENCE_S)

    def _ended_runs(
        self, connection: Connection, run_ids: Collection[str], before: float
    ) -> set[str]:
        """Return the runs among these whose journal is no longer needed."""
        known_ids: set[str] = set()
        ended: set[str] = set()
        for chunk in chunks(sorted(run_ids)):
            query = select(runs.c.id, runs.c.stage, runs.c.updated_at).where(runs.c.id.in_(chunk))
            for row in connection.execute(query):
                known_ids.add(row.id)
                if row.stage in OVER and row.updated_at < before:
                    ended.add(row.id)
        for chunk in chunks(sorted(set(run_ids) - known_ids)):
            newest = func.max(journal.c.created_at)
            query = select(journal.c.run_id).where(journal.c.run_id.in_(chunk))
            query = query.group_by(journal.c.run_id).having(newest < before)
            ended.update(connection.scalars(query))
        return ended

    def _log(
        self,
        table: Table,
        at: Column[Any],
        before: float,
        after: int,
        limit: int,
        *,
        in_order: bool = True,
    ) -> PruningStep:
        rows = self._window(table, after, limit, at)
        old = [row[0] for row in rows if row[1] < before]
        more = len(rows) == limit and (bool(old) or not in_order)
        following = rows[-1].seq if more else None
        if not old:
            return PruningStep(0, following)

        def work(connection: Connection) -> PruningStep:
            if not self._is_mine(connection):
                return PruningStep(0, None)
            deleted = connection.execute(delete(table).where(table.c.seq.in_(old)))
            return PruningStep(deleted.rowcount, following)

        return self._database.write(work, patience_s=PATIENCE_S)

    def _window(self, table: Table, after: int, limit: int, *columns: Column[Any]) -> Sequence[Any]:
        newest = select(func.max(table.c.seq)).scalar_subquery()
        query = (
            select(table.c.seq, *columns)
            .where(table.c.seq > after, table.c.seq < newest)
            .order_by(table.c.seq)
            .limit(limit)
        )
        # Read outside the deleting transaction, so that SQLite's writers do not wait.
        return self._database.read(lambda c: c.execute(query).all(), patience_s=PATIENCE_S)

    def _stages(self, purposes: set[str]) -> dict[str, Stage]:
        """Return the stages of the runs in these purposes."""
        parts = sorted({part for purpose in purposes for part in purpose.split("/")[1:]})

        def work(connection: Connection) -> dict[str, Stage]:
            stages: dict[str, Stage] = {}
            for chunk in chunks(parts):
                query = select(runs.c.id, runs.c.stage).where(runs.c.id.in_(chunk))
                stages.update((row.id, row.stage) for row in connection.execute(query))
            return stages

        return self._database.read(work, patience_s=PATIENCE_S)

    def _is_mine(self, connection: Connection) -> bool:
        """Whether no other server is pruning. SQLite has one writer anyway."""
        if self._database.is_sqlite:
            return True
        lock = text("SELECT pg_try_advisory_xact_lock(:lock)")
        return bool(connection.scalar(lock, {"lock": PRUNE_LOCK}))


def _abandoned(connection: Connection) -> str | None:
    """Return a dataset version that has tasks but no dataset any more, or None."""
    heads = set(connection.scalars(select(datasets.c.version)))
    lowest = select(func.min(dataset_tasks.c.version))
    version: str | None = ""
    # By index, from one version to the next: a version may have very many rows.
    while (
        version := connection.scalar(lowest.where(dataset_tasks.c.version > version))
    ) is not None:
        if version not in heads:
            break
    return version


def is_needed(purpose: str, stages: Mapping[str, Stage]) -> bool:
    """Whether rollouts of a purpose are kept regardless of age.

    They are kept if they are evidence of an experiment, or if their run may resume: it would
    otherwise run and pay for them again.

    Args:
        purpose: Such as `prove/RUN`, `learn/RUN` or `improve/RUN/learn`.
        stages: Stages of known runs, by id.
    """
    parts = purpose.split("/")
    if "prove" in parts:
        return True
    return any(part in stages and stages[part] not in OVER for part in parts[1:])
