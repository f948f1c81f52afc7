"""Outcomes of live traces, for a canary and a watch: page by page, oldest first."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from ratchet.autopilot.recorded_scores import RecordedScores
from ratchet.curate.recorded_values import user_of
from ratchet.evaluate.evaluator import Evaluator
from ratchet.llm import price
from ratchet.store import Store
from ratchet.types import LiveOutcome
from ratchet.types.trace import (
    ARM,
    CANDIDATE,
    EXPERIMENT,
    GROUP,
    UNIT,
    TraceFilter,
    TraceRecording,
)

AT_ONCE = 16
"""Outcomes that are scored at once."""

PAGE = 200
"""Traces that are read at once."""


class OutcomePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some outcomes, and where to go on."""

    outcomes: tuple[LiveOutcome, ...]
    """Oldest first."""
    cursor: str | None
    """Of the next page; keep it when the outcomes have been used."""
    examined: int
    """Number of traces that were read; 0 when there is none yet."""
    left_out: dict[str, int]
    """Number of traces without an outcome, by reason."""


class LiveOutcomes:
    """Reads what came of an agent's live traces, in bounded memory.

    Args:
        store: The store with the traces.
        agent: The live agent's name.
        evaluator: See `RecordedScores`.
        wait_s: How long after its start a trace is read, in seconds: enough for its end, for its
            delivery, and for the feedback that is to count. A trace that is stored later is missed.
    """

    def __init__(
        self, store: Store, agent: str, evaluator: Evaluator | None, *, wait_s: float
    ) -> None:
        self._store = store
        self._agent = agent
        self._scores = RecordedScores(store, evaluator)
        self._wait_s = wait_s

    async def read(
        self, cursor: str | None, *, since: float, now: float, experiment_id: str = ""
    ) -> OutcomePage:
        """Read the next outcomes.

        Reading a page again, after a crash, gives the same outcomes, and pays no judge twice.

        Args:
            cursor: That of the previous page; None begins.
            since: Only traces that began at or after this time, in Unix seconds.
            now: Unix seconds.
            experiment_id: Only outcomes of this canary, and of each unit only that of its first
                trace. Empty: every trace.

        Raises:
            StoreError: The store cannot be read or written.
        """
        criteria = TraceFilter(
            agent=self._agent,
            since_ns=int(since * 1e9),
            until_ns=int((now - self._wait_s) * 1e9),
        )
        read = functools.partial(
            self._store.recordings.following, criteria, cursor=cursor, limit=PAGE, price=price
        )
        recordings, following = await asyncio.to_thread(read)
        left_out: Counter[str] = Counter()
        counted: list[TraceRecording] = []
        for recording in recordings:
            reason = _not_counted(recording, experiment_id)
            if reason:
                left_out[reason] += 1
            else:
                counted.append(recording)
        if experiment_id:
            units = [(_unit(one), one.trace.trace_id) for one in counted]
            first = await asyncio.to_thread(self._store.traffic.count_units, experiment_id, units)
            left_out["its unit was counted before"] += first.count(False)
            counted = [one for one, is_first in zip(counted, first, strict=True) if is_first]
        outcomes = await self._outcomes(counted)
        return OutcomePage(
            outcomes=tuple(outcomes),
            cursor=following,
            examined=len(recordings),
            left_out={reason: count for reason, count in left_out.items() if count},
        )

    async def _outcomes(self, recordings: Sequence[TraceRecording]) -> list[LiveOutcome]:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(recording: TraceRecording) -> LiveOutcome:
            async with gate:
                score, reason = await self._scores.of(recording)
                return _outcome(recording, score, reason)

        return list(await asyncio.gather(*map(one, recordings)))


def _not_counted(recording: TraceRecording, experiment_id: str) -> str:
    """Why a trace has no outcome; empty if it has one."""
    if recording.trace.rootless:
        return "it has not ended"
    if experiment_id and recording.attributes.get(EXPERIMENT) != experiment_id:
        return "it is not in the canary"
    return ""


def _unit(recording: TraceRecording) -> str:
    trace = recording.trace
    stated = recording.attributes.get(UNIT)
    return str(stated or trace.conversation_id or user_of(recording) or trace.trace_id)


def _outcome(recording: TraceRecording, score: float | None, reason: str) -> LiveOutcome:
    trace, attributes = recording.trace, recording.attributes
    arm = attributes.get(ARM)
    return LiveOutcome(
        trace_id=trace.trace_id,
        unit=_unit(recording),
        at=trace.start_ns / 1e9 + trace.duration_s,
        candidate_id=_text(attributes, CANDIDATE),
        experiment_id=_text(attributes, EXPERIMENT),
        arm=arm if arm in ("baseline", "candidate") else None,
        score=score,
        reason=reason,
        error=recording.failed,
        latency_s=trace.duration_s,
        cost_usd=trace.cost_usd,
        group=_text(attributes, GROUP),
    )


def _text(attributes: Mapping[str, object], key: str) -> str:
    value = attributes.get(key)
    return value if isinstance(value, str) else ""
