"""Index of live traces: one row for each, its words, and figures over many of them.

Whoever stores a span marks its trace as stale in the same transaction, which is all that ingest
pays. `catch_up` computes the rows of stale traces from their spans, and takes the marks away in the
transaction that writes the rows: after a kill, what is not indexed is still marked. A server
catches up in the background, and every reader takes a bounded step before it reads.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, bindparam, case, delete, exists, func, insert, select, text

from ratchet.store.columns import clean, decode, encode
from ratchet.store.engine import Database, chunks
from ratchet.store.keys import NO_ROLLOUT
from ratchet.store.search_words import (
    Phrase,
    match_text,
    phrases_of,
    tsquery_text,
    tsvector_text,
    words_in,
)
from ratchet.store.summaries import SummaryKey, summaries
from ratchet.store.tables import spans, stale_traces, trace_rows
from ratchet.store.trace_texts import TraceLines, TraceTexts, lines_of, texts_by_trace
from ratchet.store.usage import Price
from ratchet.types import Feedback
from ratchet.types.trace import OWN_AGENTS, ModelCall, Trace, TraceFacets, TraceFilter

BATCH = 100
"""Traces that one step indexes: SQLite's other writers wait for so long."""

WINDOW = 2_000
"""Traces that are looked at together, for conditions that no index serves."""

LOOKED_AT = 20_000
"""Traces that are looked at for one page, at most; the next page goes on."""

FACETED = 10_000
"""Traces whose facets are counted: the newest that fit."""

VALUES = 50
"""Values of a facet that are listed, those of the most traces."""

DAY_NS = 86_400 * 10**9

# An arbitrary number, the same in every Ratchet: on Postgres one process catches up at a time.
INDEX_LOCK = 7_236_142_461

_EARLIEST, _LATEST = -(2**63), 2**63 - 1

_IN_CONVERSATIONS = text("spans.head > 0 AND spans.conversation_id > ''")
"""A literal, since SQLite ignores a partial index when its condition is a bound argument."""


class IndexState(NamedTuple):
    """How far the index is."""

    complete_until: float | None
    """Unix seconds of the first change that it does not show yet; None when it shows all."""
    newest_mark: int
    """Grows as long as traces change."""


COMPLETE = IndexState(None, 0)


class IndexedTrace(NamedTuple):
    """A live trace in the index."""

    place: int
    trace_id: str


class AgentFigures(NamedTuple):
    """Figures over the traces of an agent that began in one step of time, on one day."""

    agent: str
    step: int
    """Number of the step, from 0; -1 for what began on the day of the first step, before it."""
    day: int
    """Number of the day in UTC, from 1970 on."""
    traces: int
    errors: int
    """Traces with a failed span."""
    known_usd: float
    unpriced: int
    """Traces with a call whose price is unknown."""
    rated: int
    """Traces with feedback that has a value."""
    worst_sum: float
    """Sum of the lowest value of each of these."""


def mark_stale(connection: Connection, trace_ids: Iterable[str]) -> None:
    """Mark live traces whose spans or feedback changed, in the transaction that changes them."""
    now = time.time()
    marks = [(trace_id, now) for trace_id in trace_ids]
    if marks:
        # Directly to the driver: this is what ingest pays for the index.
        mark = "?" if connection.dialect.name == "sqlite" else "%s"
        statement = f"INSERT INTO stale_traces (trace_id, since) VALUES ({mark}, {mark})"  # noqa: S608
        connection.exec_driver_sql(statement, marks)


def mark_rated(connection: Connection, items: Iterable[Feedback]) -> None:
    """Mark the live traces that feedback is about, in the transaction that stores it."""
    listed = builtins.list(items)
    trace_ids = {clean(item.trace_id) for item in listed if item.trace_id}
    conversations = {clean(i.conversation_id) for i in listed if not i.trace_id} - {""}
    for chunk in chunks(sorted(conversations)):
        of = select(spans.c.trace_id).where(_IN_CONVERSATIONS, spans.c.conversation_id.in_(chunk))
        trace_ids.update(connection.scalars(of))
    mark_stale(connection, sorted(trace_ids))


class TraceIndex:
    """Rows of live traces, kept up with their spans."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_sqlite = database.is_sqlite

    def catch_up(self, price: Price | None = None, *, limit: int = BATCH) -> IndexState:
        """Index stale traces, those first that were marked first.

        Args:
            price: Prices of calls that recorded no cost.
            limit: Traces to index.

        Returns:
            How far the index is after that.
        """

        def work(connection: Connection) -> IndexState:
            if self._is_sqlite or _is_first(connection):
                self._index(connection, price, limit)
            return _state(connection)

        state = self._database.read(_state)
        return state if state.complete_until is None else self._database.write(work)

    def complete(self, price: Price | None = None) -> None:
        """Index all stale traces, however many there are; as `catch_up` where one step is asked."""
        while self.catch_up(price).complete_until is not None:
            pass

    def state(self) -> IndexState:
        """How far the index is."""
        return self._database.read(_state)

    def reprice(self, price: Price) -> None:
        """Mark the traces with a call of unknown price whose models have one by now.

        Args:
            price: Prices of calls that recorded no cost.
        """
        unpriced = select(trace_rows.c.models).where(trace_rows.c.unpriced > 0).distinct()
        listed = self._database.read(lambda connection: connection.scalars(unpriced).all())
        known = [
            models
            for models in listed
            if any(
                price(ModelCall(model=model, input_tokens=1, output_tokens=1)) is not None
                for model in decode(models)
            )
        ]

        def work(connection: Connection) -> None:
            for chunk in chunks(known):
                of = trace_rows.c.unpriced > 0, trace_rows.c.models.in_(chunk)
                mark_stale(connection, connection.scalars(select(trace_rows.c.trace_id).where(*of)))

        if known:
            self._database.write(work)

    def _index(self, connection: Connection, price: Price | None, limit: int) -> None:
        query = select(stale_traces.c.seq, stale_traces.c.trace_id)
        marks = connection.execute(query.order_by(stale_traces.c.seq).limit(limit)).all()
        trace_ids = builtins.list(dict.fromkeys(mark.trace_id for mark in marks))
        keys = [SummaryKey(NO_ROLLOUT, 0, trace_id) for trace_id in trace_ids]
        traces = summaries(connection, keys, price)
        texts = texts_by_trace(connection, traces)
        self._remove(connection, trace_rows.c.trace_id, trace_ids)
        places = _free_places(connection, {key: traces[key].start_ns for key in texts})
        if places:
            rows = [_row(places[key], traces[key], texts[key]) for key in texts]
            connection.execute(insert(trace_rows), rows)
            words = [(places[key], texts[key].words(traces[key])) for key in texts]
            self._add_words(connection, words)
        for chunk in chunks([mark.seq for mark in marks]):
            connection.execute(delete(stale_traces).where(stale_traces.c.seq.in_(chunk)))

    def _add_words(
        self, connection: Connection, words: Sequence[tuple[int, builtins.list[str]]]
    ) -> None:
        if self._is_sqlite:
            statement = "INSERT INTO trace_words (rowid, words) VALUES (:place, :words)"
            rows = [{"place": place, "words": " ".join(listed)} for place, listed in words]
        else:
            statement = "INSERT INTO trace_words VALUES (:place, CAST(:words AS tsvector))"
            rows = [{"place": place, "words": tsvector_text(listed)} for place, listed in words]
        connection.execute(text(statement), rows)

    def _remove(self, connection: Connection, column: Any, values: Sequence[Any]) -> int:
        key = "rowid" if self._is_sqlite else "place"
        gone = text(f"DELETE FROM trace_words WHERE {key} = :place")  # noqa: S608
        removed = 0
        for chunk in chunks(values):
            places = connection.scalars(select(trace_rows.c.place).where(column.in_(chunk))).all()
            if places:
                connection.execute(gone, [{"place": place} for place in places])
                connection.execute(delete(trace_rows).where(trace_rows.c.place.in_(places)))
            removed += len(places)
        return removed

    def remove(self, connection: Connection, places: Sequence[int]) -> int:
        """Delete rows and their words; returns how many there were."""
        return self._remove(connection, trace_rows.c.place, places)

    def page(
        self,
        connection: Connection,
        criteria: TraceFilter,
        limit: int,
        after: int | None = None,
    ) -> tuple[builtins.list[IndexedTrace], int | None]:
        """One page of live traces, newest first.

        What the index has no column for (`TraceFilter.recorded`) is left to the caller.

        Args:
            connection: An open transaction.
            criteria: Filter.
            limit: Traces of the page.
            after: Place after which to go on.

        Returns:
            The traces, and the place after which the next page begins; None after
            the last. A page may be short although there is a next one.
        """
        phrases = _phrases(criteria)
        conditions = _conditions(criteria)
        page: builtins.list[IndexedTrace] = []
        looked_at = 0
        size = min(limit + 1, WINDOW)
        while looked_at < LOOKED_AT:
            places = self._places(connection, criteria, phrases, size, after)
            query = select(trace_rows.c.place, trace_rows.c.trace_id)
            for row in _among(connection, query, places, conditions):
                if len(page) == limit:
                    return page, page[-1].place
                page.append(IndexedTrace(*row))
            if len(places) < size:
                return page, None
            after = places[-1]
            looked_at += len(places)
            size = WINDOW
        return page, after

    def holding(
        self, connection: Connection, criteria: TraceFilter, trace_ids: Collection[str]
    ) -> set[str]:
        """Those of some live traces that fit a filter."""
        phrases = None if criteria.search is None else phrases_of(criteria.search)
        fitting: set[str] = set()
        for chunk in chunks(sorted(trace_ids)):
            query = select(trace_rows.c.place, trace_rows.c.trace_id)
            query = query.where(trace_rows.c.trace_id.in_(chunk), *_conditions(criteria))
            by_place = {row.place: row.trace_id for row in connection.execute(query)}
            if phrases is not None and by_place:
                matching = self._matching(connection, phrases, builtins.list(by_place))
                by_place = {place: by_place[place] for place in matching}
            fitting.update(by_place.values())
        return fitting

    def texts_of(self, connection: Connection, trace_ids: Collection[str]) -> dict[str, TraceLines]:
        """What each live trace says that is indexed."""
        columns = (trace_rows.c.trace_id, trace_rows.c.input, trace_rows.c.output)
        query = select(*columns, trace_rows.c.error, trace_rows.c.user_id)
        return {
            row[0]: TraceLines(*row[1:])
            for chunk in chunks(sorted(trace_ids))
            for row in connection.execute(query.where(trace_rows.c.trace_id.in_(chunk)))
        }

    def facets(self, criteria: TraceFilter) -> TraceFacets:
        """Count the values of the newest `FACETED` live traces that fit a filter.

        Args:
            criteria: Filter.
        """
        phrases = _phrases(criteria)
        groups = (
            trace_rows.c.agent,
            trace_rows.c.models,
            trace_rows.c.user_id,
            (trace_rows.c.errors > 0).label("failed"),
            (trace_rows.c.feedback > 0).label("rated"),
        )

        def work(connection: Connection) -> TraceFacets:
            places = self._places(connection, criteria, phrases, FACETED + 1, None)
            more = len(places) > FACETED
            query = select(*groups, func.count()).group_by(*groups)
            counts = [
                row
                for window in chunks(places[:FACETED])
                for row in connection.execute(
                    query.where(trace_rows.c.place.in_(window), *_conditions(criteria))
                )
            ]
            return _facets(counts, more)

        return self._database.read(work)

    def figures(
        self, since_ns: int, step_ns: int, limit: int
    ) -> tuple[builtins.list[AgentFigures], bool]:
        """Sum up live traces by agent and step of time, without Ratchet's own model calls.

        Args:
            since_ns: Start of the first step, Unix time in nanoseconds. Its whole day is summed up.
            step_ns: Length of a step in nanoseconds.
            limit: Traces to sum up, the newest ones.

        Returns:
            The figures, and whether there are more traces than the limit.
        """
        newest = _newest(since_ns // DAY_NS * DAY_NS, limit).subquery().c
        after_ns = newest.place - since_ns
        step = case((after_ns < 0, -1), else_=after_ns // step_ns).label("step")
        day = (newest.place // DAY_NS).label("day")
        query = select(
            newest.agent,
            step,
            day,
            func.count(),
            func.sum(case((newest.errors > 0, 1), else_=0)),
            func.sum(newest.known_usd),
            func.sum(case((newest.unpriced > 0, 1), else_=0)),
            func.count(newest.worst),
            func.coalesce(func.sum(newest.worst), 0.0),
        ).group_by(newest.agent, step, day)

        def work(connection: Connection) -> tuple[builtins.list[AgentFigures], bool]:
            sums = [
                AgentFigures(
                    agent=row[0],
                    step=int(row[1]),
                    day=int(row[2]),
                    traces=int(row[3]),
                    errors=int(row[4]),
                    known_usd=float(row[5]),
                    unpriced=int(row[6]),
                    rated=int(row[7]),
                    worst_sum=float(row[8]),
                )
                for row in connection.execute(query)
            ]
            counted = sum(each.traces for each in sums)
            return sums, counted >= limit

        return self._database.read(work)

    def _places(
        self,
        connection: Connection,
        criteria: TraceFilter,
        phrases: Sequence[Phrase] | None,
        limit: int,
        after: int | None,
    ) -> builtins.list[int]:
        """The next places of traces with these words, newest first."""
        before = _LATEST if after is None else after
        bounds: dict[str, Any] = {
            "since": _EARLIEST if criteria.since_ns is None else criteria.since_ns,
            "before": before if criteria.until_ns is None else min(before, criteria.until_ns),
            "limit": limit,
        }
        if phrases is None:
            statement = "SELECT place FROM trace_rows WHERE place >= :since AND place < :before"
            statement += " ORDER BY place DESC LIMIT :limit"
        elif not phrases:
            return []  # a search without any word: punctuation
        elif self._is_sqlite:
            bounds["search"] = match_text(phrases)
            statement = (
                "SELECT rowid FROM trace_words WHERE trace_words MATCH :search"
                " AND rowid >= :since AND rowid < :before ORDER BY rowid DESC LIMIT :limit"
            )
        else:
            bounds["search"] = tsquery_text(phrases)
            statement = (
                "SELECT place FROM trace_words WHERE words @@ CAST(:search AS tsquery)"
                " AND place >= :since AND place < :before ORDER BY place DESC LIMIT :limit"
            )
        return builtins.list(connection.scalars(text(statement), bounds))

    def _matching(
        self, connection: Connection, phrases: Sequence[Phrase], places: Sequence[int]
    ) -> builtins.list[int]:
        """Those of some places whose traces have these words."""
        if not phrases:
            return []
        if self._is_sqlite:
            key, search = "rowid", match_text(phrases)
            condition = "trace_words MATCH :search"
        else:
            key, search = "place", tsquery_text(phrases)
            condition = "words @@ CAST(:search AS tsquery)"
        statement = text(
            f"SELECT {key} FROM trace_words WHERE {condition} AND {key} IN :places"  # noqa: S608
        ).bindparams(bindparam("places", expanding=True))
        return builtins.list(
            connection.scalars(statement, {"search": search, "places": builtins.list(places)})
        )


def _is_first(connection: Connection) -> bool:
    """On Postgres: whether no other process is catching up."""
    lock = text("SELECT pg_try_advisory_xact_lock(:lock)")
    return bool(connection.scalar(lock, {"lock": INDEX_LOCK}))


def _state(connection: Connection) -> IndexState:
    seq, since = stale_traces.c.seq, stale_traces.c.since
    first = connection.execute(select(seq, since).order_by(seq).limit(1)).first()
    if first is None:
        return COMPLETE
    return IndexState(first.since, connection.scalar(select(func.max(seq))) or 0)


def _free_places(connection: Connection, starts: Mapping[SummaryKey, int]) -> dict[SummaryKey, int]:
    """A place for each new row: its start, or the first free one after it."""
    taken: set[int] = set()
    for chunk in chunks(sorted(set(starts.values()))):
        taken.update(
            connection.scalars(select(trace_rows.c.place).where(trace_rows.c.place.in_(chunk)))
        )
    places: dict[SummaryKey, int] = {}
    for key, start_ns in starts.items():
        place = start_ns
        while place in taken:
            place += 1
            if connection.scalar(select(exists().where(trace_rows.c.place == place))):
                taken.add(place)
        taken.add(place)
        places[key] = place
    return places


def _row(place: int, trace: Trace, texts: TraceTexts) -> dict[str, Any]:
    lines = lines_of(texts)
    return {
        "place": place,
        "trace_id": trace.trace_id,
        "agent": trace.agent,
        "user_id": lines.user,
        "conversation_id": trace.conversation_id,
        "models": encode(trace.models),
        "duration_s": trace.duration_s,
        "errors": trace.errors,
        "known_usd": trace.cost.known_usd,
        "unpriced": sum(trace.cost.unpriced.values()),
        "feedback": trace.feedback,
        "worst": trace.worst,
        "name": trace.name[:1_000],
        "error": lines.error,
        "input": lines.input,
        "output": lines.output,
    }


def _phrases(criteria: TraceFilter) -> builtins.list[Phrase] | None:
    """What a trace says that fits; None where nothing is known of it.

    Names that it must have are among its words, so few are looked at for a rare one. They are no
    phrases: Postgres keeps 256 places of a word.
    """
    named = (criteria.user, criteria.model, criteria.conversation_id)
    words = [Phrase((word,), False) for name in named if name for word in words_in(name)]
    if criteria.search is None:
        return words or None
    searched = phrases_of(criteria.search)
    return [*searched, *words] if searched else []


def _conditions(criteria: TraceFilter) -> builtins.list[Any]:
    row = trace_rows.c
    conditions: builtins.list[Any] = []
    if criteria.agent is not None:
        conditions.append(row.agent == clean(criteria.agent))
    if not criteria.own_calls:
        conditions.append(row.agent.not_in(sorted(OWN_AGENTS)))
    if criteria.user is not None:
        conditions.append(row.user_id == clean(criteria.user))
    if criteria.model is not None:
        conditions.append(row.models.contains(encode(criteria.model), autoescape=True))
    if criteria.conversation_id is not None:
        conditions.append(row.conversation_id == clean(criteria.conversation_id))
    if criteria.errors:
        conditions.append(row.errors > 0)
    if criteria.feedback:
        conditions.append(row.feedback > 0)
    if criteria.min_duration_s is not None:
        conditions.append(row.duration_s >= criteria.min_duration_s)
    if criteria.min_cost_usd is not None:
        conditions.append(row.known_usd >= criteria.min_cost_usd)
    if criteria.name is not None and criteria.name.isascii():
        # SQLite knows upper case of ASCII only; the caller looks at names anyway.
        conditions.append(row.name.icontains(criteria.name, autoescape=True))
    return conditions


def _among(
    connection: Connection, query: Any, places: Sequence[int], conditions: Sequence[Any]
) -> Iterable[Any]:
    """Rows at these places that fit, newest first."""
    for chunk in chunks(places):
        fitting = query.where(trace_rows.c.place.in_(chunk), *conditions)
        yield from connection.execute(fitting.order_by(trace_rows.c.place.desc())).all()


def _newest(since_ns: int, limit: int) -> Any:
    """The newest traces of agents, with their figures."""
    row = trace_rows.c
    return (
        select(
            row.place, row.agent, row.duration_s, row.errors, row.known_usd, row.unpriced, row.worst
        )
        .where(and_(row.place >= since_ns, row.agent.not_in(sorted(OWN_AGENTS))))
        .order_by(row.place.desc())
        .limit(limit)
    )


def _facets(counts: Sequence[Any], more: bool) -> TraceFacets:
    agents: dict[str, int] = {}
    models: dict[str, int] = {}
    users: dict[str, int] = {}
    failed = rated = total = 0
    for agent, listed, user, has_errors, has_feedback, number in counts:
        agents[agent] = agents.get(agent, 0) + number
        for model in decode(listed):
            models[model] = models.get(model, 0) + number
        if user:
            users[user] = users.get(user, 0) + number
        failed += number if has_errors else 0
        rated += number if has_feedback else 0
        total += number
    return TraceFacets(
        agents=_most(agents),
        models=_most(models),
        users=_most(users),
        failed=failed,
        feedback=rated,
        traces=total,
        more=more,
    )


def _most(counts: Mapping[str, int]) -> dict[str, int]:
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return dict(ordered[:VALUES])
