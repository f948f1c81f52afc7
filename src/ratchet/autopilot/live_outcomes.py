"""Outcomes of live traces, for a canary and a watch: page by page, oldest first."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from ratchet.autopilot.recorded_scores import RecordedScores
from ratchet.bind.recognise import Recogniser
from ratchet.curate.recorded_values import user_of
from ratchet.llm import price
from ratchet.observe.system_prompts import leading_user_texts, system_prompts
from ratchet.store import Store
from ratchet.types import LiveOutcome
from ratchet.types.trace import (
    ARM,
    CANDIDATE,
    EXPERIMENT,
    GROUP,
    RELEASE,
    RESOURCES,
    UNIT,
    TraceFilter,
    TraceRecording,
)
from ratchet.worker.evaluator import Evaluator

MAX_CONCURRENT_SCORES = 16

PAGE = 200
"""Traces that are read at once."""

TIMEOUT_S = 600.0
"""How long a live call may take before it counts as failed, in seconds."""


class OutcomePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some outcomes, and where to continue."""

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

    Calls are read in the order of their starts, and a page ends before the first that has not ended
    and still may. So an outcome's place does not depend on how long it took: with those that ended
    read first, a candidate whose bad calls take longest would look good for a while.

    Args:
        store: The store with the traces.
        agent: The live agent's name.
        evaluator: See `RecordedScores`.
        wait_s: How long after its start a trace is read, in seconds: enough for its delivery, and
            for the feedback that is to count. A trace that is stored later is missed.
    """

    def __init__(
        self, store: Store, agent: str, evaluator: Evaluator | None, *, wait_s: float
    ) -> None:
        self._store = store
        self._agent = agent
        self._scores = RecordedScores(store, evaluator)
        self._wait_s = wait_s

    async def read(
        self,
        cursor: str | None,
        *,
        since: float,
        now: float,
        experiment_id: str = "",
        timeout_s: float = TIMEOUT_S,
        prompts: Recogniser | None = None,
    ) -> OutcomePage:
        """Read the next outcomes.

        Reading a page again, after a crash, gives the same outcomes, and pays no judge twice.

        Args:
            cursor: That of the previous page; None begins.
            since: Only traces that began at or after this time, in Unix seconds.
            now: Unix seconds.
            experiment_id: Only outcomes of this canary, and of each unit only that of its first
                trace. Empty: every trace.
            timeout_s: A call that has not ended this many seconds after its start has failed: its
                score is 0 and its latency this, whatever comes later.
            prompts: Tells what was run by a call that does not say it; None to leave that open.

        Raises:
            StoreError: The store cannot be read or written.
        """
        until_ns = int((now - self._wait_s) * 1e9)
        criteria = TraceFilter(agent=self._agent, since_ns=int(since * 1e9), until_ns=until_ns)
        begun_ns = until_ns - int(timeout_s * 1e9)

        def ready(recording: TraceRecording) -> bool:
            """Whether a trace has ended, or is no longer waited for."""
            return recording.ended or recording.started_ns < begun_ns

        read = functools.partial(
            self._store.recordings.following,
            criteria,
            cursor=cursor,
            limit=PAGE,
            price=price,
            ready=ready,
        )
        recordings, following = await asyncio.to_thread(read)
        left_out: Counter[str] = Counter()
        usable: list[TraceRecording] = []
        for recording in recordings:
            reason = _not_counted(recording, experiment_id)
            if reason:
                left_out[reason] += 1
            else:
                usable.append(recording)
        if experiment_id:
            units = [(_unit(recording), recording.trace.trace_id) for recording in usable]
            first = await asyncio.to_thread(self._store.traffic.count_units, experiment_id, units)
            left_out["its unit was counted before"] += first.count(False)
            usable = [
                recording for recording, is_first in zip(usable, first, strict=True) if is_first
            ]
        outcomes = await self._outcomes(usable, timeout_s, prompts)
        return OutcomePage(
            outcomes=tuple(outcomes),
            cursor=following,
            examined=len(recordings),
            left_out={reason: count for reason, count in left_out.items() if count},
        )

    async def _outcomes(
        self, recordings: Sequence[TraceRecording], timeout_s: float, prompts: Recogniser | None
    ) -> list[LiveOutcome]:
        gate = asyncio.Semaphore(MAX_CONCURRENT_SCORES)

        async def outcome(recording: TraceRecording) -> LiveOutcome:
            if not recording.ended or recording.took_s > timeout_s:
                return _timed_out(_outcome(recording, prompts), recording, timeout_s)
            async with gate:
                score, reason = await self._scores.of(recording)
                scored = _outcome(recording, prompts)
                return msgspec.structs.replace(scored, score=score, reason=reason)

        return list(await asyncio.gather(*map(outcome, recordings)))


def _not_counted(recording: TraceRecording, experiment_id: str) -> str:
    """Why a trace has no outcome; empty if it has one."""
    if not recording.ended and recording.unfinished is None:
        return "it has not ended, and has no start that says what it ran"
    if experiment_id and recording.attributes.get(EXPERIMENT) != experiment_id:
        return "it is not in the canary"
    return ""


def _unit(recording: TraceRecording) -> str:
    trace = recording.trace
    stated = recording.attributes.get(UNIT)
    return str(stated or trace.conversation_id or user_of(recording) or trace.trace_id)


def _outcome(recording: TraceRecording, prompts: Recogniser | None) -> LiveOutcome:
    """What came of a trace, without its score."""
    trace, attributes = recording.trace, recording.attributes
    arm = attributes.get(ARM)
    return LiveOutcome(
        trace_id=trace.trace_id,
        unit=_unit(recording),
        at=trace.start_ns / 1e9 + trace.duration_s,
        candidate_id=_text(attributes, CANDIDATE),
        experiment_id=_text(attributes, EXPERIMENT),
        arm=arm if arm in ("baseline", "candidate") else None,
        error=recording.failed,
        latency_s=trace.duration_s,
        cost_usd=trace.cost_usd,
        group=_text(attributes, GROUP),
        release=_text(attributes, RELEASE),
        versions=_versions(recording, prompts),
    )


def _timed_out(outcome: LiveOutcome, recording: TraceRecording, timeout_s: float) -> LiveOutcome:
    """The failure of a call that did not finish in time."""
    return msgspec.structs.replace(
        outcome,
        at=recording.started_ns / 1e9 + timeout_s,
        score=0.0,
        reason=f"it did not finish within {timeout_s:g} s",
        error=True,
        latency_s=timeout_s,
    )


def _versions(recording: TraceRecording, prompts: Recogniser | None) -> dict[str, str]:
    """Version of each resource that the call ran, by name, as far as that is known.

    An agent's own process says it of what its source declares. Of other prompts, the text tells
    that the model was sent.
    """
    versions: dict[str, str] = {}
    if prompts is not None and recording.first_call is not None:
        attributes = recording.first_call.attributes
        for text in system_prompts(attributes) or leading_user_texts(attributes):
            if (prompt := prompts.find(text)) is not None:
                versions[prompt.name] = prompt.version
    declared = recording.attributes.get(RESOURCES)
    for resource in declared if isinstance(declared, list) else ():
        name, _, version = str(resource).rpartition("@")
        versions[name] = version
    return versions


def _text(attributes: Mapping[str, object], key: str) -> str:
    value = attributes.get(key)
    return value if isinstance(value, str) else ""
