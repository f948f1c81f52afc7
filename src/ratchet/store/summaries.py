"""Computes summaries of traces from their spans, on demand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select, text

from ratchet.store.counting import Used
from ratchet.store.engine import chunks
from ratchet.store.keys import NO_ROLLOUT
from ratchet.store.tables import feedback, rollouts, spans
from ratchet.store.usage import Price, total, used_by
from ratchet.types.trace import Trace

TRACES_PER_STATEMENT = 200

_HEADS = text("spans.head > 0")
_USING = text("spans.usage > ''")


NAMES_NO_TRACE = func.length(feedback.c.trace_id) == 0
"""Condition on feedback. Not a comparison with the empty string: SQL would use the index, in which
those may be most of the rows."""


class SummaryKey(NamedTuple):
    """Key of a trace's spans: a live trace, or an attempt's part of a trace."""

    rollout_seq: int
    fence: int
    trace_id: str


class _Name(NamedTuple):
    """Name of a trace, from its root or else its first span."""

    name: str
    agent: str
    conversation_id: str
    rootless: bool


class FeedbackFigures(NamedTuple):
    """Summary of feedback: count and lowest value."""

    number: int = 0
    worst: float | None = None


def summaries(
    connection: Connection,
    keys: Sequence[SummaryKey],
    price: Price | None = None,
    since_ns: int | None = None,
    *,
    usage: bool = True,
    failed: bool = False,
) -> dict[SummaryKey, Trace]:
    """Summarise traces, in the order of the keys; traces deleted in the meantime are omitted.

    Args:
        connection: An open transaction.
        keys: The traces.
        price: Prices of calls that recorded no cost.
        since_ns: Start before which none of the traces has a span, if known. On Postgres, earlier
            partitions are not searched then.
        usage: Sum tokens and costs; without, they are 0.
        failed: Omit traces without an error, which is known before most is read.
    """
    by_key: dict[SummaryKey, Trace] = {}
    # Apart, since Postgres has them in different partitions.
    live = [key for key in keys if key.rollout_seq == NO_ROLLOUT]
    attempts = [key for key in keys if key.rollout_seq != NO_ROLLOUT]
    if failed:
        live, attempts = (_failed(connection, part, since_ns) for part in (live, attempts))
    for some in (*chunks(live, TRACES_PER_STATEMENT), *chunks(attempts, TRACES_PER_STATEMENT)):
        by_key.update(_some(connection, some, price, since_ns, usage))
    return {key: by_key[key] for key in keys if key in by_key}


def _some(
    connection: Connection,
    keys: Sequence[SummaryKey],
    price: Price | None,
    since_ns: int | None,
    usage: bool,
) -> Iterator[tuple[SummaryKey, Trace]]:
    since = _since(since_ns)
    counts = _counts(connection, keys, since)
    names = _names(connection, keys, since)
    used = _used(connection, keys, since) if usage else {}
    parents = _parents(connection, [key for key, calls in used.items() if len(calls) > 1], since)
    owners = _owners(connection, keys)
    conversations = {name.conversation_id for name in names.values()} - {""}
    of_traces = feedback_of(connection, feedback.c.trace_id, {key.trace_id for key in keys})
    # Feedback that also names a trace is counted with the trace.
    of_conversations = feedback_of(
        connection, feedback.c.conversation_id, conversations, NAMES_NO_TRACE
    )
    attempted = {id for id, _ in owners.values()}
    of_rollouts = feedback_of(connection, feedback.c.rollout_id, attempted, NAMES_NO_TRACE)
    for key in keys:
        if key not in counts or key not in names:
            continue
        number, start_ns, end_ns, errors = counts[key]
        name = names[key]
        rollout_id, queue = owners.get(key.rollout_seq, ("", ""))
        sums = total(used.get(key, ()), parents.get(key, {}), price)
        figures = combined_feedback(
            of_traces.get(key.trace_id),
            of_conversations.get(name.conversation_id),
            of_rollouts.get(rollout_id),
        )
        yield (
            key,
            Trace(
                trace_id=key.trace_id,
                name=name.name,
                agent=queue or name.agent,
                start_ns=start_ns,
                duration_s=max(0, end_ns - start_ns) / 1e9,
                spans=number,
                errors=errors,
                rootless=name.rootless,
                input_tokens=sums.input_tokens,
                output_tokens=sums.output_tokens,
                cost_usd=sums.cost.usd,
                known_usd=sums.cost.known_usd if sums.cost.unpriced else 0.0,
                unpriced=sums.cost.unpriced,
                models=sums.models,
                conversation_id=name.conversation_id,
                rollout_id=rollout_id,
                fence=key.fence,
                feedback=figures.number,
                worst=figures.worst,
            ),
        )


_KEY = (spans.c.rollout_seq, spans.c.fence, spans.c.trace_id)

_Since: TypeAlias = tuple[ColumnElement[bool], ...]
"""Condition on the start of spans, or none."""


def _since(since_ns: int | None) -> _Since:
    return () if since_ns is None else (spans.c.start_ns >= since_ns,)


def _failed(
    connection: Connection, keys: Sequence[SummaryKey], since_ns: int | None
) -> list[SummaryKey]:
    """Those traces that have a failed span."""
    failed: set[SummaryKey] = set()
    for some in chunks(keys, TRACES_PER_STATEMENT):
        query = select(*_KEY).distinct().where(among(some), spans.c.status == "error")
        rows = connection.execute(query.where(*_since(since_ns))).all()
        failed.update(SummaryKey(*row) for row in rows)
    return [key for key in keys if key in failed]


def among(keys: Iterable[SummaryKey]) -> ColumnElement[bool]:
    """Condition that a span belongs to one of these traces; served by the unique key of spans."""
    live: list[str] = []
    attempts: dict[tuple[int, int], list[str]] = {}
    for key in keys:
        if key.rollout_seq == NO_ROLLOUT and key.fence == 0:
            live.append(key.trace_id)
        else:
            attempts.setdefault((key.rollout_seq, key.fence), []).append(key.trace_id)
    of = [
        and_(spans.c.rollout_seq == seq, spans.c.fence == fence, spans.c.trace_id.in_(traces))
        for (seq, fence), traces in attempts.items()
    ]
    if live:
        alone = (spans.c.rollout_seq == NO_ROLLOUT, spans.c.fence == 0)
        of.append(and_(*alone, spans.c.trace_id.in_(live)))
    return or_(*of)


def _counts(
    connection: Connection, keys: Sequence[SummaryKey], since: _Since
) -> dict[SummaryKey, tuple[int, int, int, int]]:
    """Number of spans, first start, last end and number of errors."""
    failed = case((spans.c.status == "error", 1), else_=0)
    # With a clock that jumped back, a span may end before it starts.
    end = case((spans.c.end_ns > spans.c.start_ns, spans.c.end_ns), else_=spans.c.start_ns)
    query = (
        select(*_KEY, func.count(), func.min(spans.c.start_ns), func.max(end), func.sum(failed))
        .where(among(keys), *since)
        .group_by(*_KEY)
    )
    return {
        SummaryKey(*row[:3]): (row[3], row[4], row[5], int(row[6]))
        for row in connection.execute(query)
    }


def _names(
    connection: Connection, keys: Sequence[SummaryKey], since: _Since
) -> dict[SummaryKey, _Name]:
    columns = (*_KEY, spans.c.start_ns, spans.c.parent_id, spans.c.name, spans.c.agent)
    heads = select(*columns, spans.c.conversation_id).where(
        _HEADS,
        spans.c.trace_id.in_({key.trace_id for key in keys}),
        spans.c.rollout_seq.in_({key.rollout_seq for key in keys}),
        *since,
    )
    requested = set(keys)
    by_key: dict[SummaryKey, list[Any]] = {}
    for row in connection.execute(heads.order_by(spans.c.start_ns, spans.c.seq)).all():
        key = SummaryKey(*row[:3])
        if key in requested:
            by_key.setdefault(key, []).append(row)
    names: dict[SummaryKey, _Name] = {}
    unsure: list[SummaryKey] = []
    for key, rows in by_key.items():
        roots = [row for row in rows if row.parent_id is None]
        conversation = next((row.conversation_id for row in rows if row.conversation_id), "")
        row = roots[0] if roots else rows[0]
        names[key] = _Name(row.name, row.agent, conversation, not roots)
        if not roots:
            unsure.append(key)
    if unsure:
        # The root is not the head when its clock was behind or another span began first.
        roots_of = select(*columns).where(among(unsure), spans.c.parent_id.is_(None), *since)
        for root in connection.execute(roots_of.order_by(spans.c.start_ns.desc())):
            key = SummaryKey(*root[:3])
            names[key] = names[key]._replace(name=root.name, agent=root.agent, rootless=False)
    return names


def _used(
    connection: Connection, keys: Sequence[SummaryKey], since: _Since
) -> dict[SummaryKey, list[Used]]:
    query = select(*_KEY, spans.c.span_id, spans.c.parent_id, spans.c.usage)
    usages: dict[SummaryKey, list[Used]] = {}
    for row in connection.execute(query.where(among(keys), _USING, *since)).all():
        usages.setdefault(SummaryKey(*row[:3]), []).append(used_by(row[3], row[4], row[5]))
    return usages


def _parents(
    connection: Connection, keys: Sequence[SummaryKey], since: _Since
) -> dict[SummaryKey, dict[str, str | None]]:
    """Parent of every span, for traces in which a call may be recorded twice."""
    if not keys:
        return {}
    query = select(*_KEY, spans.c.span_id, spans.c.parent_id).where(among(keys), *since)
    parents: dict[SummaryKey, dict[str, str | None]] = {}
    for rollout_seq, fence, trace_id, span_id, parent_id in connection.execute(query).all():
        parents.setdefault(SummaryKey(rollout_seq, fence, trace_id), {})[span_id] = parent_id
    return parents


def _owners(connection: Connection, keys: Sequence[SummaryKey]) -> dict[int, tuple[str, str]]:
    """Id and queue of the rollouts."""
    seqs = {key.rollout_seq for key in keys} - {NO_ROLLOUT}
    if not seqs:
        return {}
    query = select(rollouts.c.seq, rollouts.c.id, rollouts.c.queue).where(rollouts.c.seq.in_(seqs))
    return {row[0]: (row[1], row[2]) for row in connection.execute(query)}


def feedback_of(
    connection: Connection, column: Any, ids: set[str], *conditions: ColumnElement[bool]
) -> dict[str, FeedbackFigures]:
    """Summarise feedback by subject.

    Args:
        connection: An open transaction.
        column: Column of the subject.
        ids: Ids of the subjects.
        conditions: Further conditions.
    """
    figures: dict[str, FeedbackFigures] = {}
    for some in chunks(sorted(ids - {""})):
        query = select(column, func.count(), func.min(feedback.c.value)).where(
            column.in_(some), *conditions
        )
        for row in connection.execute(query.group_by(column)):
            figures[row[0]] = FeedbackFigures(row[1], row[2])
    return figures


def combined_feedback(*parts: FeedbackFigures | None) -> FeedbackFigures:
    """Merge summaries of feedback about several subjects."""
    present = [part for part in parts if part is not None]
    values = [part.worst for part in present if part.worst is not None]
    return FeedbackFigures(sum(part.number for part in present), min(values) if values else None)
