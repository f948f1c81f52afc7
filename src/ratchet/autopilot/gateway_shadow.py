"""Pairs of model calls that the gateway mirrored, for agents that are known only through it."""

from __future__ import annotations

import asyncio
import functools

import msgspec

from ratchet.autopilot.recorded_scores import RecordedScores
from ratchet.prove.shadow import ShadowPair
from ratchet.store import Store
from ratchet.types.trace import EXPERIMENT, TraceFilter, TraceRecording
from ratchet.worker.evaluator import Evaluator

MIRROR_OF = "ratchet.mirror_of"
MIRROR_ID = "ratchet.mirror_id"
"""As in `server/gateway/`, which is above this package."""

PAGE = 100
"""Mirrored calls that are read at once."""


class GatewayPairs(msgspec.Struct, frozen=True, kw_only=True):
    """Some pairs, and where to go on."""

    pairs: tuple[ShadowPair, ...]
    """Oldest first."""
    cursor: str | None
    """Of the next call; keep it when the pairs have been used."""
    unpaired: int
    """Mirrored calls whose live call is not stored."""


async def gateway_pairs(
    store: Store,
    evaluator: Evaluator,
    *,
    agent: str,
    experiment_id: str,
    cursor: str | None,
    since: float,
    now: float,
    settle_s: float = 60.0,
) -> GatewayPairs:
    """Read mirrored model calls with the live calls that they repeat, and score both.

    Args:
        store: The store of the gateway.
        evaluator: Scores answers without an expected one; the same for both sides.
        agent: Name of the live agent.
        experiment_id: The experiment.
        cursor: That of the previous call; None begins.
        since: Only calls that began at or after this time, in Unix seconds.
        now: Unix seconds.
        settle_s: How long after its start a call is read, in seconds: enough for its end.

    Raises:
        StoreError: The store cannot be read or written.
    """
    criteria = TraceFilter(
        agent=f"{agent[:93]}.shadow",
        since_ns=int(since * 1e9),
        until_ns=int((now - settle_s) * 1e9),
    )
    read = functools.partial(store.recordings.following, criteria, cursor=cursor, limit=PAGE)
    recordings, following = await asyncio.to_thread(read)
    scores = RecordedScores(store, evaluator)
    pairs: list[ShadowPair] = []
    unpaired = 0
    for recording in recordings:
        if recording.root.attributes.get(EXPERIMENT) != experiment_id:
            continue
        live = await asyncio.to_thread(_live_call, store, recording)
        if live is None:
            unpaired += 1
            continue
        baseline, _ = await scores.of(live)
        candidate, _ = await scores.of(recording)
        pairs.append(
            ShadowPair(trace_id=live.trace.trace_id, baseline=baseline, candidate=candidate)
        )
    return GatewayPairs(pairs=tuple(pairs), cursor=following, unpaired=unpaired)


def _live_call(store: Store, mirrored: TraceRecording) -> TraceRecording | None:
    """The live call that a mirrored one repeats, as a recording of its own."""
    attributes = mirrored.root.attributes
    recording = store.traces.get(str(attributes.get(MIRROR_OF, "")))
    if recording is None:
        return None
    for span in recording.spans:
        if span.attributes.get(MIRROR_ID) == attributes.get(MIRROR_ID):
            trace = msgspec.structs.replace(
                recording.trace,
                start_ns=span.start_ns,
                duration_s=(span.end_ns - span.start_ns) / 1e9,
                spans=1,
            )
            return TraceRecording(
                trace=trace, root=span, first_call=span, last_call=span, feedback=()
            )
    return None
