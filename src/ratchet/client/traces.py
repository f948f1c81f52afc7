"""Read-only repositories of traces, recordings and conversations."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from urllib.parse import quote

import msgspec

from ratchet.client.call import RemoteRepository, Steps, TransportT, endpoint, get
from ratchet.types import NotFound
from ratchet.types.trace import (
    EVERY_TRACE,
    Conversation,
    ConversationLog,
    Operation,
    Sort,
    Trace,
    TraceDetail,
    TraceFacets,
    TraceFilter,
    TraceRecording,
)


class _Traces(msgspec.Struct, frozen=True):
    traces: builtins.list[Trace]
    mark: int
    next_cursor: str | None = None


class _Recordings(msgspec.Struct, frozen=True):
    recordings: builtins.list[TraceRecording]
    examined: int
    next_cursor: str | None = None


class _Conversations(msgspec.Struct, frozen=True):
    conversations: builtins.list[Conversation]
    next_cursor: str | None = None


class _Operations(msgspec.Struct, frozen=True):
    operations: builtins.list[Operation]
    next_cursor: str | None = None


class Traces(RemoteRepository[TransportT]):
    """Traces of live agents and, on request, of rollouts."""

    @endpoint
    def list(
        self,
        wanted: TraceFilter = EVERY_TRACE,
        *,
        sort: Sort = "newest",
        limit: int = 100,
        cursor: str | None = None,
    ) -> Steps[tuple[builtins.list[Trace], str | None]]:
        """One page of traces.

        Args:
            wanted: Filter of the traces.
            sort: `newest`; or `slowest` or `costliest`, which sort 2,000 traces for each page, the
                next page the 2,000 before. `ratchet.types.trace.first_of` merges pages.
            limit: Page size, 1,000 at most.
            cursor: Cursor returned with the previous page.

        Returns:
            The page, and the cursor of the next or None after the last. A page may be short or
            empty and still have a next one.
        """
        answer = yield get("traces", sort=sort, limit=limit, cursor=cursor, **_query(wanted))
        page = answer.read(_Traces)
        return page.traces, page.next_cursor

    @endpoint
    def get(self, trace_id: str, *, limit: int = 10_000) -> Steps[TraceDetail | None]:
        """A trace with its spans and its feedback; None if it does not exist.

        Args:
            trace_id: Its id, or a prefix of it.
            limit: Maximum number of spans to return, in order of start.

        Raises:
            InputError: Several traces have the prefix.
        """
        try:
            answer = yield get("traces", trace_id, spans=limit)
        except NotFound:
            return None
        return answer.read(TraceDetail)

    @endpoint
    def mark(self) -> Steps[int]:
        """Position in the store, for use with `after`."""
        answer = yield get("traces", limit=1)
        return answer.read(_Traces).mark

    @endpoint
    def after(
        self, mark: int, wanted: TraceFilter = EVERY_TRACE
    ) -> Steps[tuple[builtins.list[Trace], int]]:
        """Traces with data stored after a mark, earliest first.

        Args:
            mark: Returned by `mark` or this method.
            wanted: Filter of the traces.

        Returns:
            The traces, and the next mark. A trace may be returned again when more of its spans
            arrive.
        """
        answer = yield get("traces", after=mark, **_query(wanted))
        page = answer.read(_Traces)
        return page.traces, page.mark

    @endpoint
    def facets(self, wanted: TraceFilter = EVERY_TRACE) -> Steps[TraceFacets]:
        """Values of the newest 10,000 live traces that match a filter, with the number of each.

        Args:
            wanted: Filter of the traces.
        """
        answer = yield get("trace-facets", **_query(wanted))
        return answer.read(TraceFacets)


class Recordings(RemoteRepository[TransportT]):
    """Inputs and outputs of traces; of a trace at most three spans are read."""

    @endpoint
    def page(
        self,
        criteria: TraceFilter = EVERY_TRACE,
        *,
        wanted: Callable[[Trace], bool] = lambda _: True,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Steps[tuple[builtins.list[TraceRecording], int, str | None]]:
        """One page, newest first.

        Args:
            criteria: Filter.
            wanted: Whether to return a trace that passed it; applied here, not at the server.
            cursor: Cursor returned with the previous page.
            limit: Traces to examine for the page, 200 at most.

        Returns:
            The recordings, the number of traces that were examined for them, and the cursor of the
            next page or None after the last. A page may be empty although there is a next one.
        """
        answer = yield get("recordings", limit=limit, cursor=cursor, **_query(criteria))
        page = answer.read(_Recordings)
        recordings = [recording for recording in page.recordings if wanted(recording.trace)]
        return recordings, page.examined, page.next_cursor


class Conversations(RemoteRepository[TransportT]):
    """Conversations by id; each turn is a trace."""

    @endpoint
    def list(
        self,
        *,
        agent: str | None = None,
        rollouts: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Steps[tuple[builtins.list[Conversation], str | None]]:
        """One page of conversations, most recently active first.

        Args:
            agent: Only those with this live agent.
            rollouts: Those of rollouts instead of live ones.
            limit: Page size, 1,000 at most.
            cursor: Cursor returned with the previous page.

        Returns:
            The page, and the cursor of the next or None after the last.
        """
        of_rollouts = "true" if rollouts else None
        answer = yield get(
            "conversations", agent=agent, rollouts=of_rollouts, limit=limit, cursor=cursor
        )
        page = answer.read(_Conversations)
        return page.conversations, page.next_cursor

    @endpoint
    def log(self, id: str) -> Steps[ConversationLog | None]:
        """Messages of users and models, each once; None if the conversation does not exist."""
        try:
            answer = yield get("conversations", _in_path(id))
        except NotFound:
            return None
        return answer.read(ConversationLog)

    @endpoint
    def operations(
        self, id: str, *, limit: int = 100, cursor: str | None = None
    ) -> Steps[tuple[builtins.list[Operation], str | None]]:
        """One page of the operations of a conversation, in the order they began.

        Returns:
            The page, and the cursor of the next or None after the last.
        """
        answer = yield get("conversations", _in_path(id), "operations", limit=limit, cursor=cursor)
        page = answer.read(_Operations)
        return page.operations, page.next_cursor


def _in_path(id: str) -> str:
    # Servers interpret a slash or dots in a path even when quoted: such an id is quoted once more,
    # and so is one that looks quoted.
    if "/" in id or "%" in id or id in (".", ".."):
        return quote(id, safe="").replace(".", "%2E")
    return id


def _query(wanted: TraceFilter) -> dict[str, str | int | float | None]:
    return {
        "agent": wanted.agent,
        "errors": _flag(wanted.errors),
        "since": None if wanted.since_ns is None else wanted.since_ns / 1e9,
        "until": None if wanted.until_ns is None else wanted.until_ns / 1e9,
        "min_duration_s": wanted.min_duration_s,
        "min_cost_usd": wanted.min_cost_usd,
        "name": wanted.name,
        "conversation_id": wanted.conversation_id,
        "feedback": _flag(wanted.feedback),
        "rollouts": _flag(wanted.rollouts),
        "own_calls": None if wanted.own_calls else "false",
        "candidate_id": wanted.candidate_id,
        "experiment_id": wanted.experiment_id,
        "arm": wanted.arm,
        "group": wanted.group,
        "search": wanted.search,
        "model": wanted.model,
        "user": wanted.user,
    }


def _flag(is_set: bool) -> str | None:
    return "true" if is_set else None
