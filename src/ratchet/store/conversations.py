"""Repository of conversations: their messages and the steps that produced them."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    Connection,
    Text,
    and_,
    distinct,
    exists,
    func,
    select,
    text,
    tuple_,
    type_coerce,
)

from ratchet.store.columns import clean
from ratchet.store.dialogue import ConversationStep, RecordedCall, dialogue
from ratchet.store.engine import Database, starts_with
from ratchet.store.long_texts import references_of
from ratchet.store.span_rows import LIVE_HEAD, MAX_ID, ROLLOUT_HEAD
from ratchet.store.summaries import NAMES_NO_TRACE, FeedbackFigures, combined_feedback, feedback_of
from ratchet.store.tables import feedback, spans, trace_rows
from ratchet.store.texts import read_texts
from ratchet.store.traces import cursor_of, position_of
from ratchet.store.usage import Price, call_of, cost_of
from ratchet.types.trace import Conversation, ConversationLog, ModelCall, Operation

MAX_SPANS = 20_000
"""Maximum number of a conversation's spans that its log is built from, the newest ones."""

_HEADS = text("spans.head > 0")
_IN_CONVERSATIONS = text("spans.conversation_id > ''")
"""A literal, since SQLite ignores a partial index when its condition is a bound argument."""

_recorded_call = msgspec.json.Decoder(RecordedCall).decode
_FIELDS = {field.encode_name: field.name for field in msgspec.structs.fields(RecordedCall)}
"""Fields of a recorded call by attribute."""


class Conversations:
    """Conversations by id; their turns are traces."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self,
        *,
        agent: str | None = None,
        rollouts: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> tuple[builtins.list[Conversation], str | None]:
        """List one page of conversations, the most recently active first.

        Args:
            agent: Only those with this live agent.
            rollouts: Conversations of rollouts instead of live ones.
            limit: Conversations per page.
            cursor: Cursor returned with the previous page.

        Returns:
            The page, and the cursor of the next one or None after the last.

        Raises:
            InputError: The cursor is invalid.
        """
        kind = ROLLOUT_HEAD if rollouts else LIVE_HEAD
        later = spans.alias("later")
        last: builtins.list[Any] = [
            text("later.head > 0"),
            text("later.conversation_id > ''"),
            later.c.head == kind,
            later.c.conversation_id == spans.c.conversation_id,
            tuple_(later.c.start_ns, later.c.seq) > tuple_(spans.c.start_ns, spans.c.seq),
        ]
        mine: builtins.list[Any] = [_HEADS, _IN_CONVERSATIONS, spans.c.head == kind]
        if agent is not None:
            mine.append(spans.c.agent == clean(agent))
            last.append(later.c.agent == clean(agent))
        position = tuple_(spans.c.start_ns, spans.c.seq)
        if cursor is not None:
            mine.append(position < tuple_(*position_of(cursor)))
        query = (
            select(spans.c.start_ns, spans.c.seq, spans.c.conversation_id, spans.c.agent)
            .where(*mine, ~exists().where(and_(*last)))
            .order_by(spans.c.start_ns.desc(), spans.c.seq.desc())
            .limit(limit + 1)
        )

        def work(connection: Connection) -> tuple[builtins.list[Conversation], str | None]:
            rows = connection.execute(query).all()
            page = rows[:limit]
            figures = _figures(connection, [(row.conversation_id, row.agent) for row in page])
            more = len(rows) > limit and page
            return figures, cursor_of((page[-1].start_ns, page[-1].seq)) if more else None

        return self._database.read(work)

    def get(self, id: str) -> Conversation | None:
        """Return the summary of a conversation; None if it is unknown."""
        return self._database.read(lambda c: _one(c, clean(id)))

    def find(self, prefix: str, limit: int = 10) -> builtins.list[str]:
        """Find ids of conversations by prefix, sorted."""
        if not prefix or len(prefix) > MAX_ID:
            return []
        query = (
            select(spans.c.conversation_id)
            .where(_HEADS, _IN_CONVERSATIONS, starts_with(spans.c.conversation_id, clean(prefix)))
            .distinct()
            .order_by(spans.c.conversation_id)
            .limit(limit)
        )
        return self._database.read(lambda c: builtins.list(c.scalars(query)))

    def log(self, id: str) -> ConversationLog | None:
        """Reconstruct the messages of a conversation, each once.

        None when the conversation is unknown.
        """
        conversation_id = clean(id)
        columns = (
            *(spans.c[name] for name in ConversationStep._fields[:-1]),
            type_coerce(spans.c.attributes, Text).label("attributes"),
            spans.c.texts,
        )
        query = (
            spans_of_conversation(conversation_id, *columns)
            .order_by(spans.c.start_ns.desc(), spans.c.seq.desc())
            .limit(MAX_SPANS + 1)
        )

        def work(
            connection: Connection,
        ) -> tuple[Conversation, list[ConversationStep], bool] | None:
            conversation = _one(connection, conversation_id)
            if conversation is None:
                return None
            rows = connection.execute(query).all()
            newest, texts = read_texts(connection, rows[:MAX_SPANS])
            values = {number: _parsed(text) for number, text in texts.items()}
            steps = [_step(row, texts, values) for row in reversed(newest)]
            return conversation, steps, len(rows) > MAX_SPANS

        read = self._database.read(work)
        if read is None:
            return None
        conversation, steps, cut = read
        log = dialogue(steps, conversation_id)
        return ConversationLog(
            conversation=conversation,
            instructions=log.instructions,
            messages=log.messages,
            cut=log.cut or cut,
        )

    def operations(
        self, id: str, *, limit: int = 100, cursor: str | None = None, price: Price | None = None
    ) -> tuple[builtins.list[Operation], str | None]:
        """List one page of the steps of a conversation, in order of their start.

        Args:
            id: The conversation.
            limit: Steps per page.
            cursor: Cursor returned with the previous page.
            price: Prices of calls that recorded no cost.

        Returns:
            The page, and the cursor of the next one or None after the last.

        Raises:
            InputError: The cursor is invalid.
        """
        position = tuple_(spans.c.start_ns, spans.c.seq)
        query = spans_of_conversation(clean(id), spans).where(
            spans.c.conversation_id.in_(("", clean(id)))
        )
        if cursor is not None:
            query = query.where(position > tuple_(*position_of(cursor)))
        query = query.order_by(spans.c.start_ns, spans.c.seq).limit(limit + 1)
        rows = self._database.read(lambda c: c.execute(query).all())
        page = rows[:limit]
        more = len(rows) > limit and page
        return (
            [_operation(row, price) for row in page],
            cursor_of((page[-1].start_ns, page[-1].seq)) if more else None,
        )


def spans_of_conversation(id: str, *columns: Any) -> Any:
    """Select columns of the spans of a conversation's traces."""
    heads = spans.alias("heads")
    turns = (
        select(heads.c.rollout_seq, heads.c.fence, heads.c.trace_id)
        .where(
            text("heads.head > 0"),
            text("heads.conversation_id > ''"),
            heads.c.conversation_id == id,
        )
        .distinct()
        .subquery("turns")
    )
    return select(*columns).join_from(
        turns,
        spans,
        and_(
            spans.c.rollout_seq == turns.c.rollout_seq,
            spans.c.fence == turns.c.fence,
            spans.c.trace_id == turns.c.trace_id,
        ),
    )


def _one(connection: Connection, id: str) -> Conversation | None:
    query = (
        select(spans.c.agent)
        .where(_HEADS, _IN_CONVERSATIONS, spans.c.conversation_id == id)
        .order_by(spans.c.start_ns.desc(), spans.c.seq.desc())
        .limit(1)
    )
    agent = connection.scalar(query)
    return None if agent is None else _figures(connection, [(id, agent)])[0]


def _figures(
    connection: Connection, ids_and_agents: Sequence[tuple[str, str]]
) -> builtins.list[Conversation]:
    """Summarise conversations; each is given with its agent."""
    ids = [id for id, _ in ids_and_agents]
    if not ids:
        return []
    mine = (_HEADS, _IN_CONVERSATIONS, spans.c.conversation_id.in_(ids))
    count_query = select(
        spans.c.conversation_id,
        func.count(distinct(spans.c.trace_id)),
        func.min(spans.c.start_ns),
        func.max(spans.c.start_ns),
    ).where(*mine)
    counts = {
        row[0]: row for row in connection.execute(count_query.group_by(spans.c.conversation_id))
    }
    # Feedback that also names a trace is counted with the trace.
    of_them = feedback_of(connection, feedback.c.conversation_id, set(ids), NAMES_NO_TRACE)
    turns = select(spans.c.conversation_id, spans.c.trace_id).where(*mine).distinct().subquery()
    of_turns = (
        select(turns.c.conversation_id, func.count(), func.min(feedback.c.value))
        .join(feedback, feedback.c.trace_id == turns.c.trace_id)
        .group_by(turns.c.conversation_id)
    )
    by_turns = {row[0]: FeedbackFigures(row[1], row[2]) for row in connection.execute(of_turns)}
    first = (
        select(turns.c.conversation_id, func.min(trace_rows.c.place).label("place"))
        .join(trace_rows, trace_rows.c.trace_id == turns.c.trace_id)
        .group_by(turns.c.conversation_id)
        .subquery()
    )
    inputs = select(first.c.conversation_id, trace_rows.c.input).join(
        trace_rows, trace_rows.c.place == first.c.place
    )
    titles = {row.conversation_id: row.input for row in connection.execute(inputs)}
    found_conversations = []
    for id, agent in ids_and_agents:
        figures = combined_feedback(of_them.get(id), by_turns.get(id))
        _, number, start_ns, last_ns = counts[id]
        found_conversations.append(
            Conversation(
                id=id,
                agent=agent,
                turns=number,
                start_ns=start_ns,
                last_ns=last_ns,
                feedback=figures.number,
                worst=figures.worst,
                title=titles.get(id, ""),
            )
        )
    return found_conversations


def _parsed(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _step(row: Any, texts: Mapping[int, str], values: Mapping[int, Any]) -> ConversationStep:
    """Build a step; messages are given as values, since most of them are in many steps."""
    call = _recorded_call(row.attributes)
    long = {
        _FIELDS[key]: [values[n] for n in numbers] if separator else texts[numbers[0]]
        for key, (separator, numbers) in references_of(row.texts).items()
        if key in _FIELDS
    }
    return ConversationStep(
        trace_id=row.trace_id,
        span_id=row.span_id,
        parent_id=row.parent_id,
        name=row.name,
        start_ns=row.start_ns,
        end_ns=row.end_ns,
        conversation_id=row.conversation_id,
        call=msgspec.structs.replace(call, **long) if long else call,
    )


def _operation(row: Any, price: Price | None) -> Operation:
    attributes = row.attributes
    kind = attributes.get("gen_ai.operation.name")
    call: ModelCall | None = call_of(attributes, failed=row.status == "error")
    if call is None or not (row.usage or call.model):
        call = None
    elif call.cost_usd is None:
        call = msgspec.structs.replace(call, cost_usd=cost_of(call, price))
    return Operation(
        kind=kind if isinstance(kind, str) and kind else "step",
        name=row.name,
        trace_id=row.trace_id,
        span_id=row.span_id,
        parent_id=row.parent_id,
        start_ns=row.start_ns,
        duration_s=max(0, row.end_ns - row.start_ns) / 1e9,
        status=row.status,
        message=row.message,
        call=call,
    )
