"""The traffic of a project's live agent: outcomes, what came before, and mirrored inputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ratchet.autopilot.cycle.mirroring import CandidateMirror
from ratchet.autopilot.live_outcomes import LiveOutcomes
from ratchet.autopilot.project import Project
from ratchet.autopilot.project_evaluators import project_evaluators
from ratchet.bind.recognise import Recogniser
from ratchet.evaluate import Evaluator
from ratchet.prove import ShadowPair
from ratchet.store import Store
from ratchet.types import ConfigError, LiveOutcome

LOOK_BACK_S = 86_400.0
"""How far back live traces are read at a start, or for what came before a release."""


class ProjectTraffic:
    """See `LiveTraffic`.

    Args:
        project: The project.
        store: Its store.
        agent: The live agent's name.
        clock: Unix seconds.
        say: Receives sentences.
    """

    def __init__(
        self,
        project: Project,
        store: Store,
        agent: str,
        clock: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        self._clock = clock
        policy = project.config.autopilot
        evaluator = live_evaluator(project)
        self._outcomes = LiveOutcomes(store, agent, evaluator, wait_s=policy.wait_s)
        self._mirror = CandidateMirror(project, store, agent, evaluator, clock, say)
        self._timeout_s = project.config.watch.timeout_s
        self._newest: deque[LiveOutcome] = deque(maxlen=policy.window)
        self._since = clock() - LOOK_BACK_S
        self._cursor: str | None = None

    async def outcomes(
        self,
        cursor: str | None,
        *,
        since: float,
        timeout_s: float,
        experiment_id: str = "",
        prompts: Recogniser | None = None,
    ) -> tuple[Sequence[LiveOutcome], str | None]:
        """See `LiveTraffic`."""
        page = await self._outcomes.read(
            cursor,
            since=since,
            now=self._clock(),
            experiment_id=experiment_id,
            timeout_s=timeout_s,
            prompts=prompts,
        )
        return page.outcomes, page.cursor

    async def newest(self, limit: int) -> list[LiveOutcome]:
        """See `LiveTraffic`. What was read once is remembered."""
        while True:
            page = await self._outcomes.read(
                self._cursor, since=self._since, now=self._clock(), timeout_s=self._timeout_s
            )
            self._newest += page.outcomes
            self._cursor = page.cursor
            if not page.examined:
                return list(self._newest)[-limit:]

    async def before(
        self, until: float, limit: int, *, without: str, prompts: Recogniser | None = None
    ) -> list[LiveOutcome]:
        """See `LiveTraffic`."""
        outcomes: deque[LiveOutcome] = deque(maxlen=limit)
        cursor = None
        while True:
            since = until - LOOK_BACK_S
            page = await self._outcomes.read(
                cursor,
                since=since,
                now=self._clock(),
                timeout_s=self._timeout_s,
                prompts=prompts,
            )
            outcomes += [
                outcome
                for outcome in page.outcomes
                if outcome.at < until and not (without and outcome.candidate_id == without)
            ]
            cursor = page.cursor
            # In order of their starts: once all began later, so does what follows.
            later = all(outcome.at - outcome.latency_s >= until for outcome in page.outcomes)
            if not page.examined or (page.outcomes and later):
                return list(outcomes)

    def why_no_mirroring(self) -> str:
        """See `LiveTraffic`."""
        return self._mirror.refusal()

    async def mirror(
        self, stage_id: str, candidate_id: str, cursor: str | None, *, since: float
    ) -> tuple[Sequence[ShadowPair], str | None]:
        """See `LiveTraffic`."""
        return await self._mirror.some(stage_id, candidate_id, cursor, since=since)


def live_evaluator(project: Project) -> Evaluator | None:
    """The evaluator that scores live answers; None when feedback does.

    Raises:
        ConfigError: [autopilot] evaluator names none.
    """
    name = project.config.autopilot.evaluator
    if not name:
        return None
    evaluators = project_evaluators(project)
    for evaluator in evaluators:
        if evaluator.name == name:
            return evaluator
    raise ConfigError(
        f"evaluator = {name!r} under [autopilot] names no evaluator; there are"
        f" {sorted(e.name for e in evaluators)}."
    )
