"""Repository of problems: their occurrences, their states, and how far traces were examined."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, and_, delete, func, insert, select, true, update

from ratchet.store.columns import encode
from ratchet.store.engine import Database, chunks, starts_with
from ratchet.store.tables import (
    occurrences,
    problem_scans,
    problem_transitions,
    problems,
)
from ratchet.types import (
    PROBLEM_TRANSITIONS,
    Conflict,
    Occurrence,
    Problem,
    ProblemReport,
    ProblemState,
    ProblemTransition,
    TraceReading,
)
from ratchet.types.cycle import DAY_S

EXAMPLES_PER_REPORT = 5

_decode = msgspec.json.Decoder(Problem).decode
_decode_occurrence = msgspec.json.Decoder(Occurrence).decode
_decode_reading = msgspec.json.Decoder(TraceReading).decode
_decode_transition = msgspec.json.Decoder(ProblemTransition).decode


class ScanPlace(msgspec.Struct, frozen=True, kw_only=True):
    """How far the store has been searched for problems."""

    spans: int = 0
    """Number of the last span searched."""
    feedback: int = 0
    """Number of the last item of feedback searched."""
    at: float = 0.0
    """When, in Unix seconds."""


_decode_place = msgspec.json.Decoder(ScanPlace).decode


class Problems:
    """Problems by id; an agent's costliest first."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._upsert_scan = database.upsert(problem_scans, ("agent",), ("body",))
        self._upsert_occurrence = database.upsert(
            occurrences, ("id",), ("at", "loss", "cost_usd", "body")
        )

    # ---- looking through traces

    def place(self, reader: str) -> ScanPlace:
        """Return how far a reader has examined traces."""
        body = self._scan(f" {reader}")
        return _decode_place(body) if body else ScanPlace()

    def words(self, agent: str) -> str:
        """Return the agent's words as `record` stored them; empty if there are none."""
        return self._scan(agent)

    def _scan(self, agent: str) -> str:
        query = select(problem_scans.c.body).where(problem_scans.c.agent == agent)
        return self._database.read(lambda c: c.execute(query).scalar()) or ""

    def record(
        self,
        found: Sequence[Occurrence],
        reader: str,
        place: ScanPlace,
        words: Mapping[str, str],
    ) -> None:
        """Store what failed in some traces, and that these were examined, in one transaction.

        An occurrence that is stored already keeps its problem.

        Args:
            found: What failed.
            reader: Who looked.
            place: How far it looked at traces.
            words: The words of each agent whose traces were looked at.
        """
        rows = [_occurrence_row(occurrence) for occurrence in found]
        scans = [{"agent": f" {reader}", "body": encode(place)}]
        scans += [{"agent": agent, "body": body} for agent, body in words.items()]

        def work(connection: Connection) -> None:
            if rows:
                connection.execute(self._upsert_occurrence, rows)
            connection.execute(self._upsert_scan, scans)

        self._database.write(work)

    def ungrouped_agents(self) -> builtins.list[str]:
        """List the agents that have occurrences without a problem, sorted."""
        unowned = occurrences.c.problem_id == ""
        query = select(occurrences.c.agent).where(unowned).distinct().order_by(occurrences.c.agent)
        return self._database.read(lambda c: list(c.scalars(query)))

    def ungrouped(self, agent: str, since: float, limit: int) -> builtins.list[Occurrence]:
        """Return an agent's newest occurrences without a problem, oldest first."""
        query = (
            select(occurrences.c.body, occurrences.c.reading)
            .where(
                occurrences.c.agent == agent,
                occurrences.c.problem_id == "",
                occurrences.c.at >= since,
            )
            .order_by(occurrences.c.at.desc(), occurrences.c.seq.desc())
            .limit(limit)
        )
        rows = self._database.read(lambda c: c.execute(query).all())
        return [_occurrence(row) for row in reversed(rows)]

    def failing(self, agent: str | None, since: float) -> tuple[int, int]:
        """Return the number of failing traces since a time, and of those that are in no problem."""
        traces = (
            select(func.max(occurrences.c.problem_id).label("problem_id"))
            .where(_of(agent), occurrences.c.at >= since)
            .group_by(occurrences.c.trace_id)
            .subquery()
        )
        query = select(func.count(), func.count().filter(traces.c.problem_id == ""))
        row = self._database.read(lambda c: c.execute(query.select_from(traces)).one())
        return row[0], row[1]

    # ---- what a coach reads

    def unread_count(self, agent: str | None, since: float, problem_id: str | None = None) -> int:
        """Return the number of failing traces that a coach may read; see `unread`.

        Args:
            agent: Only of this agent.
            since: Unix seconds.
            problem_id: Only of this problem.
        """
        query = select(func.count(occurrences.c.trace_id.distinct())).where(
            *self._may_be_read(agent, since)
        )
        if problem_id is not None:
            query = query.where(occurrences.c.problem_id == problem_id)
        return self._database.read(lambda c: c.execute(query).scalar()) or 0

    def unread(self, agent: str | None, since: float, limit: int) -> builtins.list[Occurrence]:
        """Return what failed in traces that a coach may read: the worst of each trace.

        They are those of which no program says what failed, which nobody works on, and which were
        not read before. The newest come first.

        Args:
            agent: Only of this agent.
            since: Unix seconds.
            limit: Number of traces.
        """
        conditions = self._may_be_read(agent, since)
        newest = (
            select(occurrences.c.trace_id)
            .where(*conditions)
            .group_by(occurrences.c.trace_id)
            .order_by(func.max(occurrences.c.at).desc(), occurrences.c.trace_id)
            .limit(limit)
        )
        query = (
            select(occurrences.c.body, occurrences.c.reading)
            .where(*conditions, occurrences.c.trace_id.in_(newest))
            .order_by(occurrences.c.at.desc(), occurrences.c.loss.desc(), occurrences.c.seq)
        )
        rows = self._database.read(lambda c: c.execute(query).all())
        worst: dict[str, Occurrence] = {}
        for row in rows:
            occurrence = _occurrence(row)
            worst.setdefault(occurrence.trace_id, occurrence)
        return builtins.list(worst.values())

    def _may_be_read(self, agent: str | None, since: float) -> builtins.list[Any]:
        untouched = [problem.id for problem in self.list(agent, "open") if not problem.run_ids]
        is_read = select(occurrences.c.trace_id).where(occurrences.c.reading > "")
        return [
            _of(agent),
            occurrences.c.at >= since,
            occurrences.c.reading == "",
            occurrences.c.problem_id.in_(["", *untouched]),
            occurrences.c.trace_id.not_in(is_read),
        ]

    def mistakes(self, agent: str, since: float) -> builtins.list[str]:
        """Return the mistakes that a coach named in an agent's traces, most frequent first."""
        query = select(occurrences.c.reading).where(
            _of(agent), occurrences.c.at >= since, occurrences.c.reading > ""
        )
        rows = self._database.read(lambda c: c.execute(query).scalars().all())
        named = Counter(_decode_reading(body).mistake for body in rows)
        named.pop("", None)
        return [mistake for mistake, _ in named.most_common()]

    def read(self, readings: Mapping[str, TraceReading], reader: str, place: ScanPlace) -> None:
        """Store a coach's readings of occurrences, in one transaction.

        They are to be grouped anew. An open problem that nobody worked on and that they leave empty
        is deleted.

        Args:
            readings: By occurrence.
            reader: Who read.
            place: When.
        """

        def work(connection: Connection) -> None:
            left = set()
            for id, reading in readings.items():
                mine = occurrences.c.id == id
                problem_id = select(occurrences.c.problem_id).where(mine)
                left.add(connection.execute(problem_id).scalar())
                connection.execute(
                    update(occurrences).where(mine).values(reading=encode(reading), problem_id="")
                )
            filled = select(occurrences.c.problem_id).where(occurrences.c.problem_id.in_(left))
            emptied = left - {"", None} - set(connection.scalars(filled.distinct()))
            connection.execute(delete(problems).where(problems.c.id.in_(emptied)))
            connection.execute(self._upsert_scan, [{"agent": f" {reader}", "body": encode(place)}])

        self._database.write(work)

    def profiles(self, agent: str) -> dict[str, str]:
        """Return what occurrences are compared with, by problem, as `assign` stored it."""
        query = select(problems.c.id, problems.c.profile).where(problems.c.agent == agent)
        rows = self._database.read(lambda c: c.execute(query).all())
        return {row.id: row.profile for row in rows}

    def assign(
        self,
        problem_of: Mapping[str, str],
        begun: Sequence[Problem],
        profiles: Mapping[str, str],
    ) -> None:
        """Store which problem occurrences belong to, in one transaction.

        Args:
            problem_of: Problem by occurrence.
            begun: New problems.
            profiles: What occurrences are compared with, by problem.
        """
        rows = [{**_row(problem), "profile": profiles[problem.id]} for problem in begun]
        members: dict[str, builtins.list[str]] = {}
        for occurrence_id, problem_id in problem_of.items():
            members.setdefault(problem_id, []).append(occurrence_id)

        def work(connection: Connection) -> None:
            for row in rows:
                connection.execute(self._database.insert_new(problems, "id"), row)
            for id, profile in profiles.items():
                connection.execute(
                    update(problems).where(problems.c.id == id).values(profile=profile)
                )
            for id, occurrence_ids in members.items():
                for chunk in chunks(occurrence_ids):
                    connection.execute(
                        update(occurrences).where(occurrences.c.id.in_(chunk)).values(problem_id=id)
                    )
                self._seen(connection, id)

        self._database.write(work)

    def _seen(self, connection: Connection, id: str) -> None:
        """Update when a problem was first and last seen."""
        stored = connection.execute(
            select(problems.c.body).where(problems.c.id == id).with_for_update()
        ).scalar_one()
        first, last = connection.execute(
            select(func.min(occurrences.c.at), func.max(occurrences.c.at)).where(
                occurrences.c.problem_id == id
            )
        ).one()
        problem = _decode(stored)
        seen = msgspec.structs.replace(
            problem,
            first_seen=min(problem.first_seen, first),
            last_seen=max(problem.last_seen, last),
        )
        connection.execute(update(problems).where(problems.c.id == id).values(body=encode(seen)))

    # ---- problems

    def change(
        self,
        id: str,
        target: ProblemState,
        *,
        reason: str,
        now: float,
        by: str = "",
        **fields: Any,
    ) -> Problem:
        """Move a problem to a state, and store the change.

        Args:
            id: The problem.
            target: Its state; when it is in that already, only the fields change.
            reason: Why, in one sentence.
            now: Unix seconds.
            by: Who wants it; empty for Ratchet.
            fields: Other fields of `Problem` that change.

        Raises:
            Conflict: PROBLEM_TRANSITIONS does not allow it, or there is no such problem.
        """

        def work(connection: Connection) -> Problem:
            stored = connection.execute(
                select(problems.c.body).where(problems.c.id == id).with_for_update()
            ).scalar()
            if stored is None:
                raise Conflict(f"There is no problem {id!r}.")
            before = _decode(stored)
            moved = before.state != target
            if moved and target not in PROBLEM_TRANSITIONS[before.state]:
                allowed = ", ".join(sorted(PROBLEM_TRANSITIONS[before.state]))
                raise Conflict(
                    f"Problem {id} is {before.state} and cannot become {target}; it can become"
                    f" {allowed}."
                )
            state = {"state": target, "reason": reason, "by": by, "changed_at": now}
            after = msgspec.structs.replace(
                before, **(state if moved else {}), version=before.version + 1, **fields
            )
            connection.execute(update(problems).where(problems.c.id == id).values(_row(after)))
            if moved:
                transition = ProblemTransition(
                    source=before.state, target=target, reason=reason, by=by, at=now
                )
                connection.execute(
                    insert(problem_transitions),
                    {"problem_id": id, "body": encode(transition)},
                )
            return after

        return self._database.write(work)

    def get(self, id: str) -> Problem | None:
        """Return a problem, or None."""
        matches = self._select(select(problems.c.body).where(problems.c.id == id))
        return matches[0] if matches else None

    def find(self, prefix: str) -> builtins.list[Problem]:
        """Find by id prefix, oldest first, at most a hundred."""
        query = select(problems.c.body).where(starts_with(problems.c.id, prefix))
        return self._select(query.order_by(problems.c.seq).limit(100))

    def list(
        self, agent: str | None = None, state: ProblemState | None = None
    ) -> builtins.list[Problem]:
        """List problems, oldest first."""
        query = select(problems.c.body).order_by(problems.c.seq)
        if agent is not None:
            query = query.where(problems.c.agent == agent)
        if state is not None:
            query = query.where(problems.c.state == state)
        return self._select(query)

    def transitions(self, id: str) -> builtins.list[ProblemTransition]:
        """Return the changes in a problem's state, oldest first."""
        query = (
            select(problem_transitions.c.body)
            .where(problem_transitions.c.problem_id == id)
            .order_by(problem_transitions.c.seq)
        )
        rows = self._database.read(lambda c: c.execute(query).scalars().all())
        return [_decode_transition(body) for body in rows]

    def occurrences(
        self, id: str, *, since: float = 0.0, limit: int = 100
    ) -> builtins.list[Occurrence]:
        """Return a problem's occurrences, newest first, each trace once."""
        query = (
            select(occurrences.c.body, occurrences.c.reading)
            .where(occurrences.c.problem_id == id, occurrences.c.at >= since)
            .order_by(occurrences.c.at.desc(), occurrences.c.seq.desc())
            .limit(limit)
        )
        rows = self._database.read(lambda c: c.execute(query).all())
        by_trace: dict[str, Occurrence] = {}
        for row in rows:
            occurrence = msgspec.structs.replace(_occurrence(row), problem_id=id)
            by_trace.setdefault(occurrence.trace_id, occurrence)
        return builtins.list(by_trace.values())

    def traces_since(self, id: str, since: float) -> int:
        """Return the number of traces since a time in which a problem occurred."""
        query = select(func.count(occurrences.c.trace_id.distinct())).where(
            occurrences.c.problem_id == id, occurrences.c.at >= since
        )
        return self._database.read(lambda c: c.execute(query).scalar()) or 0

    def reports(
        self, listed: Sequence[Problem], traces: Mapping[str, int], *, days: int, now: float
    ) -> builtins.list[ProblemReport]:
        """Return what problems cost in the last days, worst first.

        Args:
            listed: The problems.
            traces: Number of traces in that time, by agent.
            days: Number of days, the last one ending now.
            now: Unix seconds.
        """
        since = now - days * DAY_S
        reports = [self._report(problem, traces, since, days) for problem in listed]
        return sorted(reports, key=lambda r: (-r.weight, -r.traces, r.problem.id))

    def _report(
        self, problem: Problem, traces: Mapping[str, int], since: float, days: int
    ) -> ProblemReport:
        mine = and_(occurrences.c.problem_id == problem.id, occurrences.c.at >= since)
        of_trace = (
            select(
                func.max(occurrences.c.at).label("at"),
                func.max(occurrences.c.loss).label("loss"),
                func.max(occurrences.c.cost_usd).label("cost_usd"),
            )
            .where(mine)
            .group_by(occurrences.c.trace_id)
        )
        rows = self._database.read(lambda c: c.execute(of_trace).all())
        by_day = [0] * days
        for row in rows:
            by_day[min(int((row.at - since) / DAY_S), days - 1)] += 1
        costs = [row.cost_usd for row in rows]
        count = len(rows)
        return ProblemReport(
            problem=problem,
            traces=count,
            share=min(count / max(traces.get(problem.agent, 0), 1), 1.0),
            loss=sum(row.loss for row in rows) / count if count else 0.0,
            days=tuple(by_day),
            cost_usd=None if None in costs else sum(costs),
            examples=tuple(self.occurrences(problem.id, since=since, limit=EXAMPLES_PER_REPORT)),
        )

    def _select(self, query: Any) -> builtins.list[Problem]:
        rows = self._database.read(lambda c: c.execute(query).scalars().all())
        return [_decode(body) for body in rows]


def _row(problem: Problem) -> dict[str, Any]:
    return {
        "id": problem.id,
        "agent": problem.agent,
        "state": problem.state,
        "version": problem.version,
        "body": encode(problem),
    }


def _of(agent: str | None) -> Any:
    return true() if agent is None else occurrences.c.agent == agent


def _occurrence(row: Any) -> Occurrence:
    occurrence = _decode_occurrence(row.body)
    if not row.reading:
        return occurrence
    return msgspec.structs.replace(occurrence, reading=_decode_reading(row.reading))


def _occurrence_row(occurrence: Occurrence) -> dict[str, Any]:
    return {
        "id": occurrence.id,
        "agent": occurrence.agent,
        "problem_id": "",
        "trace_id": occurrence.trace_id,
        "at": occurrence.at,
        "loss": occurrence.loss,
        "cost_usd": occurrence.cost_usd,
        "reading": None if occurrence.is_message else "",
        "body": encode(occurrence),
    }
