"""Scores of recorded live traces: by an evaluator, or by feedback."""

from __future__ import annotations

import asyncio
import functools
import time

from ratchet.autopilot.recorded_rollout import Unusable, recorded_rollout, spans_of_trace
from ratchet.evaluate import Scorer
from ratchet.store import Store
from ratchet.types import Score
from ratchet.types.feedback import is_bad
from ratchet.types.trace import TraceRecording
from ratchet.worker.evaluator import Evaluator

_DAY_NS = 86_400 * 10**9


class RecordedScores:
    """Scores the answers of live calls. A failed call scores 0.

    Args:
        store: The store with the traces.
        evaluator: Scores answers without an expected one. None to score by feedback: the mean of
            its values, where a correction, retry or abandonment is 0.
    """

    def __init__(self, store: Store, evaluator: Evaluator | None) -> None:
        self._store = store
        self._evaluator = evaluator
        self._scorer = Scorer(store, () if evaluator is None else (evaluator,))

    async def of(self, recording: TraceRecording) -> tuple[float | None, str]:
        """The score of a trace, or None and the reason. A judge is paid once per trace.

        Raises:
            StoreError: The store cannot be read or written.
        """
        if recording.failed:
            return 0.0, ""
        if self._evaluator is None:
            return _by_feedback(recording)
        if not getattr(self._evaluator, "is_judge", False):
            return await self._verdict(recording, self._evaluator)
        trace, evaluator, journal = recording.trace, self._evaluator, self._store.journal
        run_id = f"live/{trace.agent}/{trace.start_ns // _DAY_NS}"  # old days are pruned
        key = f"{trace.trace_id}/{evaluator.name}/{evaluator.version}"
        stored_score = await asyncio.to_thread(journal.get, run_id, key)
        if stored_score is None:
            score, reason = await self._verdict(recording, evaluator)
            if score is None:
                return None, reason
            stored_score = await asyncio.to_thread(journal.append, run_id, key, score, time.time())
        return float(stored_score), ""

    async def _verdict(
        self, recording: TraceRecording, evaluator: Evaluator
    ) -> tuple[float | None, str]:
        try:
            score = await self._rated(recording, evaluator)
        except Unusable as error:
            return None, str(error)
        return score.value, "" if score.value is not None else score.error

    async def score(self, recording: TraceRecording) -> Score | None:
        """The evaluator's score of an answer, with its rationale; None without an answer.

        Raises:
            StoreError: The store cannot be read or written.
        """
        if recording.failed or self._evaluator is None:
            return None
        try:
            return await self._rated(recording, self._evaluator)
        except Unusable:
            return None

    async def _rated(self, recording: TraceRecording, evaluator: Evaluator) -> Score:
        rollout = recorded_rollout(recording)
        spans_of = functools.partial(spans_of_trace, self._store)
        score = await self._scorer.rate(rollout, evaluator.name, spans_of)
        assert score is not None
        return score


def _by_feedback(recording: TraceRecording) -> tuple[float | None, str]:
    values = [
        item.value if item.value is not None else 0.0
        for item in recording.feedback
        if item.value is not None or is_bad(item)
    ]
    return (sum(values) / len(values), "") if values else (None, "no feedback was given")
