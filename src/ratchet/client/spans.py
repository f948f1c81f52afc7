"""Spans, scores and feedback of a server."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

import msgspec

from ratchet.client.call import RemoteRepository, Steps, TransportT, batches, endpoint, get, post
from ratchet.types import Feedback, InputError, Score, Span, SpanRecord


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """A span in a request. The server computes its cost from its attributes."""

    span: Span
    agent: str | None


class _Scored(msgspec.Struct, frozen=True):
    rollout_id: str
    score: Score


class _Stored(msgspec.Struct, frozen=True):
    stored: int


class _Spans(msgspec.Struct, frozen=True):
    spans: list[Span]
    next_cursor: str | None = None


class _Scores(msgspec.Struct, frozen=True):
    scores: list[Score]


class _Feedback(msgspec.Struct, frozen=True):
    feedback: builtins.list[Feedback]
    next_cursor: str | None = None


class Spans(RemoteRepository[TransportT]):
    """Spans by rollout, trace and live agent; each is stored once."""

    @endpoint
    def put(self, records: Sequence[SpanRecord]) -> Steps[int]:
        """Store spans of live agents; they are committed when this returns.

        Returns:
            Number of stored spans.

        Raises:
            InputError: One belongs to a rollout.
        """
        stored = 0
        requests = []
        for record in records:
            if record.rollout_id:
                raise InputError(
                    f"The span {record.span.name[:100]!r} belongs to the rollout "
                    f"{record.rollout_id!r}, so it is not live traffic.",
                    hint="Spans of an attempt are in the outcome that its runner reports.",
                )
            requests.append(_Record(span=record.span, agent=record.agent or None))
        for _, part in batches(requests):
            answer = yield post("spans", body={"records": part})
            stored += answer.read(_Stored).stored
        return stored

    @endpoint
    def of(self, rollout_id: str, fence: int | None = None) -> Steps[list[Span]]:
        """Spans of a rollout in the order they started.

        Args:
            rollout_id: The rollout.
            fence: Only those of this attempt; by default all.

        Raises:
            InputError: The rollout is unknown.
        """
        answer = yield get("rollouts", rollout_id, "spans", fence=fence)
        return answer.read(_Spans).spans

    @endpoint
    def of_trace(self, trace_id: str) -> Steps[list[Span]]:
        """Spans of a trace in the order they started."""
        answer = yield get("spans", trace_id=trace_id)
        return answer.read(_Spans).spans

    @endpoint
    def live(
        self, agent: str, limit: int = 100, cursor: str | None = None
    ) -> Steps[tuple[list[Span], str | None]]:
        """One page of a live agent's spans, newest first.

        Returns:
            The page, and the cursor of the next or None after the last.
        """
        answer = yield get("spans", agent=agent, limit=limit, cursor=cursor)
        page = answer.read(_Spans)
        return page.spans, page.next_cursor


class Scores(RemoteRepository[TransportT]):
    """Scores by rollout; the last score of each evaluator and version."""

    @endpoint
    def add(self, items: Sequence[tuple[str, Score]], now: float | None = None) -> Steps[None]:
        """Store scores, each with the id of its rollout.

        Raises:
            InputError: A rollout is unknown.
        """
        for _, part in batches([_Scored(id, score) for id, score in items]):
            answer = yield post("scores", body={"scores": part})
            answer.read(_Stored)

    @endpoint
    def of(self, rollout_ids: Sequence[str]) -> Steps[dict[str, list[Score]]]:
        """Scores by rollout id, in the order they were first given.

        Raises:
            InputError: A rollout is unknown.
        """
        scores: dict[str, list[Score]] = {}
        for rollout_id in rollout_ids:
            answer = yield get("rollouts", rollout_id, "scores")
            scores[rollout_id] = answer.read(_Scores).scores
        return scores


class FeedbackLog(RemoteRepository[TransportT]):
    """Feedback by its subject; an item whose id is already stored is ignored."""

    @endpoint
    def add(self, items: Sequence[Feedback], now: float | None = None) -> Steps[int]:
        """Give feedback; return the number of new items."""
        stored = 0
        for _, part in batches(items):
            answer = yield post("feedback", body={"feedback": part})
            stored += answer.read(_Stored).stored
        return stored

    @endpoint
    def list(
        self,
        *,
        rollout_id: str | None = None,
        trace_id: str | None = None,
        conversation_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Steps[tuple[builtins.list[Feedback], str | None]]:
        """One page of feedback, newest first.

        Args:
            rollout_id: Only about this rollout.
            trace_id: Only about this trace.
            conversation_id: Only about this conversation.
            limit: Page size, 1,000 at most.
            cursor: Cursor returned with the previous page.

        Returns:
            The page, and the cursor of the next or None after the last.
        """
        answer = yield get(
            "feedback",
            rollout_id=rollout_id,
            trace_id=trace_id,
            conversation_id=conversation_id,
            limit=limit,
            cursor=cursor,
        )
        page = answer.read(_Feedback)
        return page.feedback, page.next_cursor
