"""The shadow stage: runs recorded live inputs for a candidate, elsewhere and later.

The user's process does nothing for it: its calls are recorded anyway. Each mirrored input is a
rollout in the project's workers, with their sandbox, and is paired with what the user got. A tool
with side effects does not act: it gives its recorded result, or the rollout ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ratchet.autopilot.cycle_sections import LiveSection
from ratchet.autopilot.live_outcomes import TIMEOUT_S
from ratchet.autopilot.recorded_rollout import (
    Unusable,
    is_redacted,
    recorded_input,
    recorded_rollout,
    spans_of_trace,
)
from ratchet.autopilot.recorded_scores import RecordedScores
from ratchet.evaluate import Scorer
from ratchet.observe.decorators import MIRROR
from ratchet.observe.replay import REPLAY, REPLAYED, recorded_calls
from ratchet.prove.shadow import ShadowPair
from ratchet.run.paid import RolloutRunner
from ratchet.store import Store
from ratchet.types import Candidate, Rollout, Score, Task
from ratchet.types.trace import CANDIDATE, GROUP, TraceFilter, TraceRecording
from ratchet.types.traffic import position
from ratchet.types.wording import counted
from ratchet.worker.evaluator import Evaluator

NICENESS = 19
"""How much the priority of the shadow's workers is lowered, as in nice(2)."""

SALT = "mirror"

PAGE = 25
"""Number of traces mirrored at once; the cost is checked after each batch."""

MAX_EXAMINED = 2_000
"""Maximum number of traces that one call examines."""

HALT_CHECK_S = 0.25
"""Seconds between checks of the switch while rollouts run."""

STALE_S = 3_600.0
"""Older traces are not mirrored, in seconds: where there is more traffic than `per_minute`, the
newest counts."""

SIDE_EFFECT = "SideEffectBlocked"
"""`error.type` of the span of a tool that was blocked."""


class MirrorBounds(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a shadow stage."""

    share: float | None = None
    """Share of live calls; None for the calls of agents that allow it with `mirror=True`."""
    per_minute: float = 60.0
    """Maximum number of inputs per minute."""
    dollars: float = 5.0
    """Maximum cost of the stage's rollouts, in dollars."""
    rerun: bool = False
    """Whether the release answers mirrored inputs again, too, instead of being judged by what was
    recorded. Then answers need not be whole, and inputs may be redacted: both sides get the same.
    """

    @classmethod
    def of(cls, section: LiveSection) -> MirrorBounds:
        """The bounds that [live] of `ratchet.toml` sets."""
        share = None if section.mirror is False else float(section.mirror)
        return cls(
            share=share,
            per_minute=section.per_minute,
            dollars=section.dollars,
            rerun=section.rerun,
        )


class ShadowStage(msgspec.Struct, frozen=True, kw_only=True):
    """Whose traffic is mirrored, and to whom."""

    experiment_id: str
    agent: str
    """Name of the live agent."""
    candidate: Candidate
    release: Candidate
    """The candidate that live calls run: the active one, or the agent's own source."""
    release_id: str = ""
    """The active candidate; empty for the agent's own source."""
    queue: str
    max_attempts: int
    settle_s: float = 60.0
    """How long after its start a trace is read, in seconds: enough for its end."""

    @property
    def purpose(self) -> str:
        """Purpose of the stage's rollouts."""
        return f"shadow/{self.experiment_id}"


class Mirrored(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of pairs, and where to continue."""

    pairs: tuple[ShadowPair, ...]
    """Oldest first."""
    cursor: str | None
    """Cursor of the next call; store it once the pairs have been used."""
    left_out: dict[str, int]
    """Number of live calls that were not mirrored, by reason."""
    blocked: dict[str, int]
    """How often a tool with side effects was blocked, by name."""
    replayed: dict[str, int]
    """How often a tool got its recorded result instead of acting, by name."""
    halted: str = ""
    """Why the stage may not continue now; empty if it may."""


class _Tools(NamedTuple):
    """Names of the tools with side effects that a rollout called, once for each call."""

    blocked: list[str]
    replayed: list[str]


class Mirror:
    """Mirrors live calls to a candidate.

    Args:
        store: The store with the traces.
        runner: Runs the rollouts.
        evaluator: Scores answers without an expected one; the same for both sides.
        stage: Whose traffic is mirrored, and to whom.
        bounds: What it may take.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self,
        store: Store,
        runner: RolloutRunner,
        evaluator: Evaluator,
        stage: ShadowStage,
        bounds: MirrorBounds,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._runner = runner
        self._name = evaluator.name
        self._scorer = Scorer(store, (evaluator,))
        self._recorded = RecordedScores(store, evaluator)
        self._stage = stage
        self._bounds = bounds
        self._clock = clock
        self._allowed = bounds.per_minute
        self._allowed_at = clock()

    async def some(self, cursor: str | None, *, since: float, now: float) -> Mirrored:
        """Mirror the next live calls, as many as the bounds allow.

        A call that was killed repeats nothing that it paid for when it is made again: the id of a
        rollout follows from the trace and the candidate.

        Args:
            cursor: That of the previous call; None begins.
            since: Only calls that began at or after this time, in Unix seconds.
            now: Unix seconds.

        Raises:
            StoreError: The store cannot be read or written.
            AgentError: No worker loads the agent.
        """
        pairs: list[ShadowPair] = []
        left_out: Counter[str] = Counter()
        blocked: Counter[str] = Counter()
        replayed: Counter[str] = Counter()
        share, halted = await self._share(), await self._halted()
        examined = 0
        while not halted and examined < MAX_EXAMINED:
            room = min(PAGE, self._refilled())
            if room < 1:
                halted = f"{counted(self._bounds.per_minute, 'input')} mirrored within a minute"
                break
            recordings, following = await self._read(cursor, since, now, room)
            if not recordings:
                break
            examined += len(recordings)
            inputs, reasons = self._chosen(recordings, share)
            mirrored = await self._mirrored(recordings, inputs)
            if mirrored is None:
                halted = SWITCHED_OFF
                break  # this page comes again: what has ended is not run again
            self._allowed -= len(inputs)
            cursor = following
            left_out.update(reasons)
            left_out["it was stopped by the switch"] += len(inputs) - len(mirrored)
            for pair, tools in mirrored:
                pairs.append(pair)
                blocked.update(tools.blocked)
                replayed.update(tools.replayed)
            halted = await self._halted()
        return Mirrored(
            pairs=tuple(pairs),
            cursor=cursor,
            left_out={reason: count for reason, count in left_out.items() if count},
            blocked=dict(blocked),
            replayed=dict(replayed),
            halted=halted,
        )

    def _refilled(self) -> int:
        """How many inputs may be mirrored now."""
        now = self._clock()
        gained = (now - self._allowed_at) / 60.0 * self._bounds.per_minute
        self._allowed = min(self._bounds.per_minute, self._allowed + gained)
        self._allowed_at = now
        return int(self._allowed)

    async def _halted(self) -> str:
        if await self._is_switched_off():
            return SWITCHED_OFF
        cost = await asyncio.to_thread(self._store.rollouts.cost, purpose=self._stage.purpose)
        if cost.known_usd >= self._bounds.dollars:
            return f"the stage's {self._bounds.dollars:g} dollars are spent"
        return ""

    async def _share(self) -> float | None:
        """The share that the agent's settings allow, or that of the bounds."""
        settings = await asyncio.to_thread(self._store.agents.settings, self._stage.agent)
        return self._bounds.share if settings.mirror is None else settings.mirror

    async def _is_switched_off(self) -> bool:
        return await self._share() == 0

    async def _read(
        self, cursor: str | None, since: float, now: float, limit: int
    ) -> tuple[list[TraceRecording], str | None]:
        stage = self._stage
        criteria = TraceFilter(
            agent=stage.agent,
            since_ns=int(max(since, now - STALE_S) * 1e9),
            until_ns=int((now - stage.settle_s) * 1e9),
        )
        begun_ns = int((now - stage.settle_s - TIMEOUT_S) * 1e9)

        def ready(recording: TraceRecording) -> bool:
            """Whether a call has ended, or is no longer waited for."""
            return recording.ended or recording.started_ns < begun_ns

        read = self._store.recordings.following
        return await asyncio.to_thread(
            functools.partial(read, criteria, cursor=cursor, limit=limit, ready=ready)
        )

    def _chosen(
        self, recordings: Sequence[TraceRecording], share: float | None
    ) -> tuple[dict[str, object], Counter[str]]:
        """Inputs to mirror by trace id, and why others are not mirrored."""
        inputs: dict[str, object] = {}
        reasons: Counter[str] = Counter()
        for recording in recordings:
            try:
                inputs[recording.trace.trace_id] = self._input(recording, share)
            except Unusable as reason:
                reasons[str(reason)] += 1
        return inputs, reasons

    def _input(self, recording: TraceRecording, share: float | None) -> object:
        """The input of a call that is to be mirrored; Unusable says why it is not."""
        trace, attributes = recording.trace, recording.attributes
        if not recording.ended:
            raise Unusable("it has not ended")
        if share is None and attributes.get(MIRROR) is not True:
            raise Unusable("its agent does not allow it")
        if share is not None and position(SALT, self._stage.experiment_id, trace.trace_id) >= share:
            raise Unusable("it is not in the share")
        if attributes.get(CANDIDATE, "") != self._stage.release_id:
            raise Unusable("it did not run the release")
        task_input = recorded_input(recording, redacted=self._bounds.rerun)
        if not self._bounds.rerun and is_redacted(recorded_rollout(recording).output):
            raise Unusable("its answer was redacted")
        return task_input

    async def _mirrored(
        self, recordings: Sequence[TraceRecording], inputs: Mapping[str, object]
    ) -> list[tuple[ShadowPair, _Tools]] | None:
        """The pairs of a page with the names of blocked tools; None when the switch stopped it."""
        stage = self._stage
        sides = (stage.release, stage.candidate) if self._bounds.rerun else (stage.candidate,)
        recorded = {
            trace_id: await asyncio.to_thread(self._recorded_calls, trace_id) for trace_id in inputs
        }
        planned = {
            trace_id: [
                self._rollout(side, trace_id, task_input, recorded[trace_id]) for side in sides
            ]
            for trace_id, task_input in inputs.items()
        }
        rollouts = [rollout for both in planned.values() for rollout in both]
        ended = await self._run(rollouts, sides) if rollouts else {}
        if ended is None:
            return None
        scores = await self._scorer.score(ended.values())
        pairs = []
        for recording in recordings:
            both = planned.get(recording.trace.trace_id)
            if both is None or any(ended[rollout.id].status == "cancelled" for rollout in both):
                continue
            answered = [ended[rollout.id] for rollout in both]
            pairs.append(await self._pair(recording, answered, scores))
        return pairs

    def _rollout(
        self, side: Candidate, trace_id: str, task_input: object, recorded: list[list[str]]
    ) -> Rollout:
        stage = self._stage
        return Rollout.of(
            Task(trace_id, task_input, metadata={REPLAY: recorded} if recorded else {}),
            side.id,
            scope=["shadow", stage.experiment_id],
            seed_parts=["shadow", stage.experiment_id],
            queue=stage.queue,
            purpose=stage.purpose,
            max_attempts=stage.max_attempts,
        )

    async def _run(
        self, rollouts: Sequence[Rollout], sides: Sequence[Candidate]
    ) -> dict[str, Rollout] | None:
        """Run rollouts to their ends; None when the switch stopped them."""
        running = asyncio.ensure_future(self._runner.run(rollouts, sides))
        try:
            while not running.done():
                await asyncio.wait({running}, timeout=HALT_CHECK_S)
                if not running.done() and await self._is_switched_off():
                    ids = [rollout.id for rollout in rollouts]
                    await asyncio.to_thread(self._store.rollouts.cancel, ids, time.time())
                    return None
        finally:
            if not running.done():
                running.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await running
        return running.result()

    async def _pair(
        self,
        recording: TraceRecording,
        answered: Sequence[Rollout],
        scores: Mapping[str, Mapping[str, Score]],
    ) -> tuple[ShadowPair, _Tools]:
        candidate = answered[-1]
        if self._bounds.rerun:
            baseline = _value(scores[answered[0].id].get(self._name))
        else:
            baseline, _ = await self._recorded.of(recording)
        blocked = candidate.status == "inconclusive"
        group = recording.attributes.get(GROUP)
        pair = ShadowPair(
            trace_id=recording.trace.trace_id,
            baseline=baseline,
            candidate=None if blocked else _value(scores[candidate.id].get(self._name)),
            blocked=candidate.error if blocked else "",
            group=group if isinstance(group, str) else "",
            rollout_id=candidate.id,
        )
        acted = blocked or REPLAY in candidate.metadata
        return pair, await asyncio.to_thread(self._tools, candidate.id) if acted else _Tools([], [])

    def _recorded_calls(self, trace_id: str) -> list[list[str]]:
        """Calls of tools with side effects that can be replayed in a rollout of this trace."""
        calls = recorded_calls(spans_of_trace(self._store, trace_id))
        return [call for call in calls if not is_redacted(call)]

    def _tools(self, rollout_id: str) -> _Tools:
        """The tools with side effects that were called in a rollout."""
        spans = self._store.spans.of(rollout_id)
        return _Tools(
            [
                span.name
                for span in spans
                if span.attributes.get("error.type") == SIDE_EFFECT
                and span.attributes.get("gen_ai.operation.name") == "execute_tool"
            ],
            [span.name for span in spans if span.attributes.get(REPLAYED) is True],
        )


SWITCHED_OFF = "mirroring is switched off for this agent"


def _value(score: Score | None) -> float | None:
    return None if score is None else score.value
