"""Scans new traces for problems: what failed, and which failures belong together.

A scan goes on where the last one ended, whoever made it: the command, the server or the autopilot.
Killed in the middle, it looks at the last page again and finds the same occurrences; what was found
and not grouped is grouped by the next one.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence, Set
from itertools import pairwise
from typing import TypeAlias

import msgspec

from ratchet.autopilot.problem_reports import DAYS
from ratchet.autopilot.problem_states import settle
from ratchet.curate.problems import Background, Profile, group, occurrences_of
from ratchet.curate.problems.resemblance import masked, question_terms
from ratchet.curate.problems.symptoms import acts_of, as_text
from ratchet.curate.recorded_values import Incomplete, input_of
from ratchet.llm import price
from ratchet.store import Store
from ratchet.store.problems import ScanPlace
from ratchet.types import Occurrence, Problem, Score
from ratchet.types.cycle import DAY_S
from ratchet.types.trace import ObservedTrace, TraceRecording

LOW_SCORE = 0.5
"""Scores up to this are low, unless the project says otherwise."""

POOL = 2_000
"""Maximum number of an agent's occurrences grouped at once."""

FAILURE_READER, SCORE_READER, COACH_READER, GROUPER = "failures", "scores", "readings", "groups"
"""Names of what is scanned, each with its own place in the store, and of the last grouping."""

LEASE = "problems"
SCAN_LEASE_S = 120.0

RETURNS = 3
"""Number of traces after a fix in which a problem must recur to have returned."""

ScoreTrace: TypeAlias = Callable[[TraceRecording], Awaitable[Sequence[Score]]]
"""Scores of a live answer."""

_decode_background = msgspec.json.Decoder(Background).decode
_decode_profile = msgspec.json.Decoder(Profile).decode


class Scanned(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a scan."""

    traces: int = 0
    occurrences: int = 0
    begun: tuple[Problem, ...] = ()
    """New problems."""
    returned: tuple[Problem, ...] = ()
    """Fixed problems that returned."""
    elsewhere: bool = False
    """Whether another process was already scanning, so that this one did not."""


async def scan(
    store: Store,
    *,
    now: float,
    score: ScoreTrace | None = None,
    low_score: float = LOW_SCORE,
    on_page: Callable[[int], None] = lambda traces: None,
) -> Scanned:
    """Scan what was stored since the last scan.

    Args:
        store: The store.
        now: Unix seconds.
        score: Scores live answers; without it, only imported scores count.
        low_score: A score of at most this is low.
        on_page: Called with the number of traces that were looked at so far.

    Raises:
        StoreError: The store cannot be read or written.
    """
    holder = f"{os.getpid()}.{secrets.token_hex(4)}"
    lease = store.leases.acquire(LEASE, holder, now=time.time(), ttl_s=SCAN_LEASE_S)
    if lease is None:
        return Scanned(elsewhere=True)
    try:
        with store.leases.guard(lease):
            since = now - DAYS * DAY_S
            traces = found = 0
            agents = set(store.problems.ungrouped_agents()) if _is_ungrouped(store) else set()
            for reader in (None,) if score is None else (None, score):
                while (page := await _page(store, since, now, reader, low_score)) is not None:
                    traces += page.traces if reader is None else 0
                    found += page.occurrences
                    agents |= page.agents
                    on_page(traces)
                    store.leases.acquire(LEASE, holder, now=time.time(), ttl_s=SCAN_LEASE_S)
            begun: list[Problem] = []
            for agent in sorted(agents):
                begun += _group(store, agent, since, now)
            if agents:
                store.problems.record([], GROUPER, ScanPlace(at=now), {})
            settle(store, now)
            returned = _returned(store, now)
    finally:
        store.leases.release(lease)
    return Scanned(traces=traces, occurrences=found, begun=tuple(begun), returned=tuple(returned))


def _is_ungrouped(store: Store) -> bool:
    """Whether something was found or read that is not grouped yet."""
    found_at = max(
        store.problems.place(reader).at for reader in (FAILURE_READER, SCORE_READER, COACH_READER)
    )
    return store.problems.place(GROUPER).at < found_at


class _Page(msgspec.Struct, frozen=True):
    traces: int
    occurrences: int
    agents: set[str]


async def _page(
    store: Store, since: float, now: float, score: ScoreTrace | None, low_score: float
) -> _Page | None:
    """Scan the next traces; None if there are none.

    Who scores has a place of its own: a server looks at traces, but cannot run the project's
    evaluators.
    """
    reader = FAILURE_READER if score is None else SCORE_READER
    place = store.problems.place(reader)
    changed = store.recordings.changed(
        place.spans, place.feedback, since_ns=int(since * 1e9), price=price
    )
    if (changed.spans, changed.feedback) == (place.spans, place.feedback):
        return None
    backgrounds: dict[str, Background] = {}
    agents: set[str] = set()
    found: list[Occurrence] = []
    imported = [o.recording.trace.rollout_id for o in changed.traces if o.imported]
    scores_of = store.scores.of(imported) if imported else {}
    ordered = sorted(changed.traces, key=lambda observed: observed.recording.trace.start_ns)
    asked = _asked_before(store, ordered, changed.talks)
    for observed in ordered:
        trace = observed.recording.trace
        if observed.imported:
            scores: Sequence[Score] = scores_of.get(trace.rollout_id, ())
        elif score is not None and observed.recording.ended:
            scores = await score(observed.recording)
        else:
            scores = ()
        occurrences = occurrences_of(
            observed,
            asked_before=asked.get(trace.trace_id, ""),
            scores=scores,
            low_score=low_score,
        )
        found += [occurrence for occurrence in occurrences if occurrence.at >= since]
        agents.add(trace.agent)
        if score is not None:
            continue
        background = backgrounds.get(trace.agent)
        if background is None:
            words = store.problems.words(trace.agent)
            background = _decode_background(words) if words else Background()
            backgrounds[trace.agent] = background
        question = masked(_input_text(observed.recording))
        background.add(question_terms(question, acts_of(observed)))
    store.problems.record(
        found,
        reader,
        ScanPlace(spans=changed.spans, feedback=changed.feedback, at=now),
        {
            agent: msgspec.json.encode(background.trimmed()).decode()
            for agent, background in backgrounds.items()
        },
    )
    return _Page(len(ordered), len(found), agents)


def _input_text(recording: TraceRecording) -> str:
    try:
        return as_text(input_of(recording))
    except Incomplete:
        return ""


def _asked_before(
    store: Store, ordered: Sequence[ObservedTrace], talks: Set[str]
) -> dict[str, str]:
    """The previous turn's question, as text, by the trace of a turn.

    Args:
        store: The store.
        ordered: Traces, the earliest first.
        talks: Conversations that have several traces.
    """
    turns: dict[str, list[TraceRecording]] = {}
    for observed in ordered:
        conversation_id = observed.recording.trace.conversation_id
        if conversation_id in talks and not observed.imported:
            turns.setdefault(conversation_id, []).append(observed.recording)
    before = store.recordings.turns_before({id: of[0].trace.start_ns for id, of in turns.items()})
    return {
        turn.trace.trace_id: _input_text(previous)
        for id, of in turns.items()
        for previous, turn in pairwise([before[id], *of] if id in before else of)
    }


def _group(store: Store, agent: str, since: float, now: float) -> tuple[Problem, ...]:
    """Find the problems of an agent's new occurrences."""
    words = store.problems.words(agent)
    background = _decode_background(words) if words else Background()
    profiles = {
        id: _decode_profile(profile) for id, profile in store.problems.profiles(agent).items()
    }
    grouped = group(
        store.problems.ungrouped(agent, since, POOL),
        store.problems.list(agent),
        profiles,
        background,
        now,
    )
    store.problems.assign(
        grouped.problem_of,
        grouped.begun,
        {id: msgspec.json.encode(profile).decode() for id, profile in grouped.profiles.items()},
    )
    return grouped.begun


def _returned(store: Store, now: float) -> list[Problem]:
    """Fixed problems that recur after the release that fixed them."""
    returned = []
    for problem in store.problems.list(state="fixed"):
        again = store.problems.traces_since(problem.id, problem.fixed_at)
        if again >= RETURNS:
            why = f"{again} traces since the fix show it again."
            returned.append(store.problems.change(problem.id, "returned", reason=why, now=now))
    return returned
