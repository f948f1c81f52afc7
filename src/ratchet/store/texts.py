"""Tables of long texts: stores each text once, and deletes those that no span refers to.

A span's row refers to its texts by number. Which trace uses which texts is stored beside, so that
texts without a use are found without reading all spans.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, exists, select, text, tuple_, update
from sqlalchemy.exc import OperationalError

from ratchet.store.engine import Database, chunks
from ratchet.store.long_texts import numbers_in, references_of, references_text, restored
from ratchet.store.span_rows import Row, span_of
from ratchet.store.tables import spans, text_traces, text_uses, texts
from ratchet.types import Span

# An arbitrary number, the same in every Ratchet. Transactions that store references to texts share
# the lock, and one that deletes texts holds it alone. SQLite has one writer anyway.
TEXTS_LOCK = 7_236_142_460

LOCK_WAIT_S = 0.2
"""Longest time that a deletion waits for running transactions, while new ones wait for it."""

_LOCK_NOT_AVAILABLE = "55P03"

_DIGEST = 20
"""Bytes of a text's hash, a truncated SHA-256."""

_KEYS_AT_ONCE = 100


class TraceKey(NamedTuple):
    """A live trace, or an attempt's part of a trace."""

    rollout_seq: int
    fence: int
    trace_id: str


_KEY = [text_traces.c[name] for name in TraceKey._fields]


def store_texts(database: Database, connection: Connection, rows: Sequence[Row]) -> list[Row]:
    """Store the long texts of rows that are not stored yet.

    Returns:
        The rows with references instead of texts.
    """
    if all(row.texts.__class__ is str for row in rows):
        return list(rows)
    stored_rows = list(rows)
    bodies: dict[bytes, bytes] = {}
    uses: dict[TraceKey, dict[bytes, None]] = {}
    ends: dict[TraceKey, int] = {}
    digests: dict[int, dict[str, tuple[str, list[bytes]]]] = {}
    for at, row in enumerate(rows):
        if isinstance(row.texts, str):
            continue
        trace = TraceKey(row.rollout_seq, row.fence, row.trace_id)
        used = uses.setdefault(trace, {})
        ends[trace] = min(row.end_ns, ends.get(trace, row.end_ns))
        digests[at] = {}
        for key, (separator, items) in row.texts.items():
            listed = [hashlib.sha256(item).digest()[:_DIGEST] for item in items]
            bodies.update(zip(listed, items, strict=True))
            used.update(dict.fromkeys(listed))
            digests[at][key] = separator, listed
    if not database.is_sqlite:
        connection.execute(text("SELECT pg_advisory_xact_lock_shared(:lock)"), {"lock": TEXTS_LOCK})
    numbers = _numbers(database, connection, bodies)
    owners = _owners(database, connection, ends)
    pairs = [
        {"trace_seq": owners[trace], "text_seq": number}
        for trace in sorted(uses)  # in one order, as in `_numbers`
        for number in sorted({numbers[digest] for digest in uses[trace]})
    ]
    if pairs:
        connection.execute(database.insert_new(text_uses, "trace_seq", "text_seq"), pairs)
    for at, digest_lists in digests.items():
        references = {
            key: (separator, [numbers[digest] for digest in listed])
            for key, (separator, listed) in digest_lists.items()
        }
        stored_rows[at] = stored_rows[at]._replace(texts=references_text(references))
    return stored_rows


def _numbers(
    database: Database, connection: Connection, bodies: Mapping[bytes, bytes]
) -> dict[bytes, int]:
    """Numbers of texts by digest; new ones are stored."""
    numbers = _known(connection, list(bodies))
    new = [digest for digest in bodies if digest not in numbers]
    if not new:
        return numbers
    if not database.is_sqlite:
        new.sort()  # transactions with the same texts wait for one another in one order
    rows = [{"hash": digest, "body": _compressed(bodies[digest])} for digest in new]
    connection.execute(database.insert_new(texts, "hash"), rows)
    return numbers | _known(connection, new)


def _known(connection: Connection, digests: Sequence[bytes]) -> dict[bytes, int]:
    numbers: dict[bytes, int] = {}
    for chunk in chunks(digests):
        query = select(texts.c.hash, texts.c.seq).where(texts.c.hash.in_(chunk))
        numbers.update((bytes(row[0]), row[1]) for row in connection.execute(query))
    return numbers


def _owners(
    database: Database, connection: Connection, ends: Mapping[TraceKey, int]
) -> dict[TraceKey, int]:
    """Numbers of traces in `text_traces`; new ones are stored."""
    keys = sorted(ends)
    rows = [{**key._asdict(), "end_ns": ends[key]} for key in keys]
    connection.execute(database.insert_new(text_traces, *TraceKey._fields), rows)
    seqs: dict[TraceKey, int] = {}
    for chunk in chunks(keys, _KEYS_AT_ONCE):
        query = select(text_traces.c.seq, *_KEY).where(tuple_(*_KEY).in_(chunk))
        seqs.update((TraceKey(*row[1:]), row[0]) for row in connection.execute(query))
    return seqs


def _compressed(body: bytes) -> bytes:
    return zlib.compress(body, wbits=-zlib.MAX_WBITS)


def read_texts(connection: Connection, rows: Iterable[Any]) -> tuple[list[Any], dict[int, str]]:
    """Read the texts that rows of spans refer to.

    Returns:
        The rows, without those whose texts are gone: on Postgres a span may be deleted after its
        row was read. And the texts by number.
    """
    listed = list(rows)
    needed = [numbers_in([row.texts]) for row in listed]
    texts_by_number: dict[int, str] = {}
    for chunk in chunks(sorted(set().union(*needed))):
        query = select(texts.c.seq, texts.c.body).where(texts.c.seq.in_(chunk))
        for number, body in connection.execute(query):
            texts_by_number[number] = zlib.decompress(body, wbits=-zlib.MAX_WBITS).decode()
    complete = [
        row for row, own in zip(listed, needed, strict=True) if own <= texts_by_number.keys()
    ]
    return complete, texts_by_number


def spans_of(connection: Connection, rows: Iterable[Any]) -> list[Span]:
    """Build spans from full rows, with their long texts."""
    complete, texts_by_number = read_texts(connection, rows)
    return [
        span_of(row, restored(row.attributes, references_of(row.texts), texts_by_number))
        for row in complete
    ]


def lock_texts(connection: Connection) -> bool:
    """On Postgres, keep other transactions from referring to texts until this one ends.

    Returns:
        Whether it was possible. If not, a running transaction refers to texts for too long, and
        this one can only be ended.
    """
    connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_WAIT_S * 1000:.0f}"))
    try:
        with connection.begin_nested():
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": TEXTS_LOCK})
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", "") != _LOCK_NOT_AVAILABLE:
            raise
        return False
    connection.execute(text("SET LOCAL lock_timeout = 0"))
    return True


def left_traces(
    connection: Connection, ended_ns: int, after: int, limit: int
) -> tuple[dict[int, TraceKey], int | None]:
    """Of traces that lost spans, find those with no span left that ended before a moment.

    Args:
        connection: An open transaction.
        ended_ns: The moment, in Unix nanoseconds.
        after: Number of the trace after which to begin.
        limit: Traces to examine.

    Returns:
        The traces by number, and the number of the last one examined if there may be more.
    """
    mine = [spans.c[name] == text_traces.c[name] for name in TraceKey._fields]
    holds = exists().where(*mine, spans.c.end_ns < ended_ns)
    query = (
        select(text_traces.c.seq, *_KEY, holds.label("holds"))
        .where(text_traces.c.seq > after, text_traces.c.end_ns < ended_ns)
        .order_by(text_traces.c.seq)
        .limit(limit)
    )
    rows = connection.execute(query).all()
    trace_keys = {row.seq: TraceKey(*row[1:4]) for row in rows if not row.holds}
    return trace_keys, rows[-1].seq if len(rows) == limit else None


def release_texts(connection: Connection, traces: Mapping[int, TraceKey]) -> int:
    """Delete the texts that only deleted spans of these traces referred to.

    In an open transaction that holds the lock.

    Args:
        connection: The transaction.
        traces: Traces by their number in `text_traces`.

    Returns:
        Number of deleted texts.
    """
    trace_seq, text_seq = text_uses.c.trace_seq, text_uses.c.text_seq
    unused: set[int] = set()
    for seq, key in traces.items():
        mine = [spans.c[name] == value for name, value in key._asdict().items()]
        rows = connection.execute(select(spans.c.texts, spans.c.end_ns).where(*mine)).all()
        needed = numbers_in(row.texts for row in rows)
        noted = set(connection.scalars(select(text_seq).where(trace_seq == seq)))
        unused |= noted - needed
        if needed:
            for chunk in chunks(sorted(noted - needed)):
                connection.execute(delete(text_uses).where(trace_seq == seq, text_seq.in_(chunk)))
            # Not examined again until these have ended before the moment.
            ends = min(row.end_ns for row in rows)
            connection.execute(
                update(text_traces).where(text_traces.c.seq == seq).values(end_ns=ends)
            )
        else:
            connection.execute(delete(text_uses).where(trace_seq == seq))
            connection.execute(delete(text_traces).where(text_traces.c.seq == seq))
    gone = 0
    used = exists().where(text_seq == texts.c.seq)
    for chunk in chunks(sorted(unused)):
        gone += connection.execute(delete(texts).where(texts.c.seq.in_(chunk), ~used)).rowcount
    return gone
