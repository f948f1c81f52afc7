"""Index of live traces: a row for each, its words, and figures over many of them.

Whoever stores a span marks its trace as stale in the same transaction, which is all that ingest
pays. `catch_up` computes the rows of stale traces from their spans, and takes the marks away in the
transaction that writes the rows: after a kill, what is not indexed is still marked. A server
catches up in the background, and every reader takes a bounded step before it reads.
"""

from __future__ import annotations

import builtins
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, case, delete, exists, func, insert, select, text

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
from ratchet.store.tables import spans, stale_traces, trace_rows, trace_sums
from ratchet.store.trace_texts import TraceLines, TraceTexts, lines_of, texts_by_trace
from ratchet.store.usage import Price
from ratchet.types import Feedback
from ratchet.types.trace import OWN_AGENTS, ModelCall, Trace, TraceFacets, TraceFilter

TRACES_PER_STEP = 100
"""Traces that one step indexes: SQLite's other writers wait that long."""

WINDOW = 2_000
"""Traces that are examined together, for conditions without an index."""

MAX_TRACES_SEARCHED = 20_000
"""Maximum number of traces examined for a page; the next page continues."""

FACETED = 10_000
"""Traces whose facets are counted: the newest that match."""

MAX_FACET_VALUES = 50
"""Values of a facet that are listed, the most frequent first."""

HOUR_NS = 3_600 * 10**9

# An arbitrary number, the same in every Ratchet: on Postgres one process catches up at a time.
INDEX_LOCK = 7_236_142_461

_SUMMED = ("traces", "errors", "unpriced", "rated", "known_usd", "worst")
"""Columns of `trace_sums`, in the order of `AgentFigures`."""

_TO_SUM = tuple(
    trace_rows.c[name] for name in ("agent", "errors", "unpriced", "known_usd", "worst")
)

_EARLIEST, _LATEST = -(2**63), 2**63 - 1

_IN_CONVERSATIONS = text("spans.head > 0 AND spans.conversation_id > ''")
"""A literal, since SQLite ignores a partial index when its condition is a bound argument."""


class IndexState(NamedTuple):
    """How far the index is up to date."""

    complete_until: float | None
    """Unix seconds of the first change that it does not show yet; None if it shows all."""
    newest_mark: int
    """A number that grows whenever a trace changes."""


COMPLETE = IndexState(None, 0)


class IndexedTrace(NamedTuple):
    """A live trace in the index."""

    place: int
    trace_id: str


class AgentFigures(NamedTuple):
    """Figures over the traces of an agent that began in one interval of time, on one day."""

    agent: str
    step: int
    """Number of the interval, from 0; -1 for the part of the first day before it."""
    day: int
    """Days in UTC since the start of 1970."""
    traces: int
    errors: int
    """Number of traces with a failed span."""
    unpriced: int
    """Traces with a call whose price is unknown."""
    rated: int
    """Traces with feedback that has a value."""
    known_usd: float
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
    """Rows of live traces, kept up to date with their spans."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_sqlite = database.is_sqlite
        self._add_sums = database.adding(trace_sums, ("hour", "agent"), _SUMMED)

    def catch_up(self, price: Price | None = None, *, limit: int = TRACES_PER_STEP) -> IndexState:
        """Index stale traces in the order in which they were marked.

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
        """Index all stale traces, however many there are; otherwise like `catch_up`."""
        while self.catch_up(price).complete_until is not None:
            pass

    def state(self) -> IndexState:
        """How far the index is up to date."""
        return self._database.read(_state)

    def reprice(self, price: Price) -> None:
        """Mark the traces with a call of unknown price whose models now have a price.

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
            self._sum_up(connection, rows, 1)
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

    def _sum_up(self, connection: Connection, rows: Iterable[Any], times: int) -> None:
        """Add rows to the sums, or with -1 subtract them."""
        sums: dict[tuple[int, str], builtins.list[float]] = {}
        for row in rows:
            summed = sums.setdefault((row["place"] // HOUR_NS, row["agent"]), [0] * len(_SUMMED))
            worst = row["worst"]
            figures = (
                1,
                row["errors"] > 0,
                row["unpriced"] > 0,
                worst is not None,
                row["known_usd"],
                worst or 0.0,
            )
            for number, figure in enumerate(figures):
                summed[number] += times * figure
        changes = [
            {"hour": hour, "agent": agent, **dict(zip(_SUMMED, summed, strict=True))}
            for (hour, agent), summed in sorted(sums.items())
        ]
        if changes:
            connection.execute(self._add_sums, changes)
        if times < 0:
            # So that what floating-point sums are off by goes with the last trace.
            for hours in chunks(sorted({hour for hour, _ in sums})):
                emptied = trace_sums.c.hour.in_(hours), trace_sums.c.traces == 0
                connection.execute(delete(trace_sums).where(*emptied))

    def _remove(self, connection: Connection, column: Any, values: Sequence[Any]) -> int:
        key = "rowid" if self._is_sqlite else "place"
        gone = text(f"DELETE FROM trace_words WHERE {key} = :place")  # noqa: S608
        removed = 0
        for chunk in chunks(values):
            query = select(trace_rows.c.place, *_TO_SUM).where(column.in_(chunk))
            rows = connection.execute(query).mappings().all()
            if rows:
                places = [row["place"] for row in rows]
                connection.execute(gone, [{"place": place} for place in places])
                connection.execute(delete(trace_rows).where(trace_rows.c.place.in_(places)))
                self._sum_up(connection, rows, -1)
            removed += len(rows)
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
        phrases = self._phrases(criteria)
        conditions = _conditions(criteria)
        page: builtins.list[IndexedTrace] = []
        looked_at = 0
        size = min(limit + 1, WINDOW)
        while looked_at < MAX_TRACES_SEARCHED:
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
        """The traces among these that match a filter."""
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
        """The indexed content of each live trace."""
        columns = (trace_rows.c.trace_id, trace_rows.c.input, trace_rows.c.output)
        query = select(*columns, trace_rows.c.error, trace_rows.c.user_id)
        return {
            row[0]: TraceLines(*row[1:])
            for chunk in chunks(sorted(trace_ids))
            for row in connection.execute(query.where(trace_rows.c.trace_id.in_(chunk)))
        }

    def facets(self, criteria: TraceFilter) -> TraceFacets:
        """Count the values of the newest `FACETED` live traces that match a filter.

        Args:
            criteria: Filter.
        """
        phrases = self._phrases(criteria)
        row = trace_rows.c
        query = select(row.agent, row.models, row.user_id, row.errors, row.feedback)
        conditions = _conditions(criteria)

        def work(connection: Connection) -> TraceFacets:
            places = self._places(connection, criteria, phrases, FACETED + 1, None)
            fitting = builtins.list[Any]()
            for window in chunks(places[:FACETED]):
                of = query.where(row.place.in_(window), *conditions)
                fitting += connection.execute(of).all()
            return _facets(fitting, len(places) > FACETED)

        return self._database.read(work)

    def figures(self, since_h: int, step_h: int) -> builtins.list[AgentFigures]:
        """Sum up live traces by agent and interval of time, without Ratchet's own model calls.

        Args:
            since_h: Start of the first step, in hours from 1970 on. Its whole day is summed up.
            step_h: Hours of a step.
        """
        sums = trace_sums.c
        after_h = sums.hour - since_h
        step = case((after_h < 0, -1), else_=after_h // step_h).label("step")
        day = (sums.hour // 24).label("day")
        query = (
            select(sums.agent, step, day, *(func.sum(sums[name]) for name in _SUMMED))
            .where(sums.hour >= since_h // 24 * 24, sums.agent.not_in(sorted(OWN_AGENTS)))
            .group_by(sums.agent, step, day)
        )
        return self._database.read(
            lambda connection: [
                # Of whole numbers, Postgres gives sums as decimals.
                AgentFigures(row[0], *map(int, row[1:7]), *row[7:])
                for row in connection.execute(query)
            ]
        )

    def counts_since(self, since_ns: int) -> dict[str, int]:
        """Number of live traces that began at or after a Unix time in nanoseconds, by agent."""
        whole_h = -(-since_ns // HOUR_NS)
        row, sums = trace_rows.c, trace_sums.c
        begun = row.place.between(since_ns, whole_h * HOUR_NS - 1)
        within = select(row.agent, func.count()).where(begun).group_by(row.agent)
        whole = select(sums.agent, func.sum(sums.traces)).where(sums.hour >= whole_h)

        def work(connection: Connection) -> dict[str, int]:
            counts: dict[str, int] = {}
            for query in (within, whole.group_by(sums.agent)):
                for agent, number in connection.execute(query):
                    if agent not in OWN_AGENTS:
                        counts[agent] = counts.get(agent, 0) + int(number)
            return counts

        return self._database.read(work)

    def _phrases(self, criteria: TraceFilter) -> builtins.list[Phrase] | None:
        """Phrases that a matching trace all contains; None if none is known.

        What it is filtered by is among its words, so few traces are looked at for a rare user. On
        Postgres the words of a name are searched apart, since it keeps 256 places of a word.
        """
        named = (criteria.user, criteria.model, criteria.conversation_id)
        names = [words for name in named if name and (words := words_in(name))]
        if not self._is_sqlite:
            names = [[word] for words in names for word in words]
        known = [Phrase(tuple(words), False) for words in names]
        if criteria.search is None:
            return known or None
        searched = phrases_of(criteria.search)
        return [*searched, *known] if searched else []

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
        """Those of `places` whose traces contain the words of all `phrases`."""
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
    """Rows at these places that match, newest first."""
    for chunk in chunks(places):
        fitting = query.where(trace_rows.c.place.in_(chunk), *conditions)
        yield from connection.execute(fitting.order_by(trace_rows.c.place.desc())).all()


def _facets(rows: Sequence[Any], more: bool) -> TraceFacets:
    agents, listed, users, errors, feedback = zip(*rows, strict=True) if rows else ((),) * 5
    models = Counter[str]()
    for names, number in Counter(listed).items():
        models.update(dict.fromkeys(decode(names), number))
    return TraceFacets(
        agents=_most(Counter(agents)),
        models=_most(models),
        users=_most(Counter(user for user in users if user)),
        failed=sum(number > 0 for number in errors),
        feedback=sum(number > 0 for number in feedback),
        traces=len(rows),
        more=more,
    )


def _most(counts: Mapping[str, int]) -> dict[str, int]:
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return dict(ordered[:MAX_FACET_VALUES])
