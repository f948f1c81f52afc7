"""Mirrors live inputs of a project's agent to a cycle's candidate, with the project's runner."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from ratchet.autopilot.models_in_calls import adopt_models
from ratchet.autopilot.project import Project
from ratchet.autopilot.runner import open_runner
from ratchet.autopilot.shadow import NICENESS, SWITCHED_OFF, Mirror, MirrorBounds, ShadowStage
from ratchet.evaluate import Evaluator
from ratchet.observe.decorators import MIRROR
from ratchet.prove import ShadowPair
from ratchet.store import Store
from ratchet.types import Candidate
from ratchet.types.trace import TraceFilter

PAIRS_PER_MEASUREMENT = 25
"""Pairs after which a measurement ends, so that they are stored."""

MEASUREMENT_LIMIT_S = 60.0
"""Seconds after which it ends with fewer: starting workers takes a while, so they wait a little for
traffic."""


class CandidateMirror:
    """Mirrors one live agent's inputs.

    Args:
        project: The project.
        store: Its store.
        agent: The live agent's name.
        evaluator: Scores live answers; None when feedback does.
        clock: Unix seconds.
        say: Receives sentences.
    """

    def __init__(
        self,
        project: Project,
        store: Store,
        agent: str,
        evaluator: Evaluator | None,
        clock: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        self._project = project
        self._store = store
        self._agent = agent
        self._evaluator = evaluator
        self._clock = clock
        self._say = say

    def refusal(self) -> str:
        """Why live inputs may not be mirrored; empty when they may."""
        if self._evaluator is None:
            return (
                "live answers are scored by feedback, which a candidate's answers do not get"
                " (evaluator under [autopilot])."
            )
        share = self._store.agents.settings(self._agent).mirror
        if share == 0:
            return f"{SWITCHED_OFF}."
        if share is None and self._project.config.live.mirror is False and not self._is_marked():
            return "the agent does not allow it (mirror under [live], or @ratchet.agent)."
        return ""

    def _is_marked(self) -> bool:
        """Whether the newest live call was of an agent that allows it."""
        newest, _, _ = self._store.recordings.page(TraceFilter(agent=self._agent))
        return bool(newest) and newest[0].root.attributes.get(MIRROR) is True

    async def some(
        self, stage_id: str, candidate_id: str, cursor: str | None, *, since: float
    ) -> tuple[Sequence[ShadowPair], str | None]:
        """Mirror some inputs; return the pairs, and where to continue.

        Raises:
            AgentError: The agent does not load.
            StoreError: The store cannot be read or written.
        """
        assert self._evaluator is not None
        agent = self._project.load_agent()
        candidate = self._store.candidates.get(candidate_id)
        adopt_models(self._store, agent, candidate)
        active = self._store.agents.active(self._agent)
        release: Candidate = (
            self._store.candidates.get(active.candidate_id)
            if active
            else self._project.source_candidate(agent)
        )
        self._store.candidates.put(release, self._clock())
        stage = ShadowStage(
            experiment_id=stage_id,
            agent=self._agent,
            candidate=candidate,
            release=release,
            release_id=active.candidate_id if active else "",
            queue=f"shadow-{stage_id[:24]}",
            max_attempts=self._project.local_attempts,
            settle_s=self._project.config.autopilot.wait_s,
        )
        bounds = MirrorBounds.of(self._project.config.live)
        pairs: list[ShadowPair] = []
        ends = time.monotonic() + MEASUREMENT_LIMIT_S
        async with open_runner(
            self._project,
            self._store,
            agent,
            stage.queue,
            self._say,
            take_over=True,
            niceness=NICENESS,
        ) as runner:
            mirror = Mirror(self._store, runner, self._evaluator, stage, bounds)
            while len(pairs) < PAIRS_PER_MEASUREMENT and time.monotonic() < ends:
                mirrored = await mirror.some(cursor, since=since, now=self._clock())
                pairs += mirrored.pairs
                cursor = mirrored.cursor
                if mirrored.halted:
                    self._say(f"Mirroring is paused: {mirrored.halted}.")
                if mirrored.halted == SWITCHED_OFF:
                    break
                if not mirrored.pairs:
                    await asyncio.sleep(1.0)
        return pairs, cursor
