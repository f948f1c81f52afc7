"""The parts of a cycle for a project: capture, learning, live stages, releases, notifications."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from ratchet.autopilot.cycle.capturing import capture_tasks
from ratchet.autopilot.cycle.detection import noticed
from ratchet.autopilot.cycle.learning import learn_and_prove
from ratchet.autopilot.cycle.live_stages import LiveStages, LiveTraffic
from ratchet.autopilot.cycle.notifying import notify
from ratchet.autopilot.cycle.parts import Captured, Learned, Noticed, RequestState, StageMeasurement
from ratchet.autopilot.cycle.releasing import (
    activate_candidate,
    deactivate_candidate,
    propose_candidate,
    request_state,
    revert_merged,
    withdraw_request,
)
from ratchet.autopilot.live_scores import live_scores
from ratchet.autopilot.problem_readings import look
from ratchet.autopilot.problem_reports import DAYS, reports, trace_counts
from ratchet.autopilot.problem_scan import scan
from ratchet.autopilot.project import Project
from ratchet.store import Store
from ratchet.types import (
    NEEDS_WORK,
    ActionKind,
    Activation,
    Cycle,
    CycleAction,
    ProblemReport,
    TrafficSplit,
)
from ratchet.types.cycle import DAY_S


class ProjectParts:
    """The parts of a project's cycles; see `Parts`.

    Args:
        project: The project.
        store: Its store.
        traffic: The live agent's traffic.
        agent: The live agent's name.
        clock: Unix seconds.
        say: Receives sentences about the progress.
    """

    def __init__(
        self,
        project: Project,
        store: Store,
        traffic: LiveTraffic,
        *,
        agent: str,
        clock: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        self.project = project
        self.store = store
        self.traffic = traffic
        self.agent = agent
        self.clock = clock
        self.say = say
        self.stages = LiveStages(project, store, traffic, clock)

    async def noticed(self, since: float) -> Noticed | None:
        """See `Parts`."""
        policy = self.project.config.autopilot
        newest = await self.traffic.newest(policy.window)
        sentence = noticed(policy, [outcome for outcome in newest if outcome.at > since])
        worst = await self._worst_problem()
        if not sentence and (worst is None or not self._is_too_often(worst, since)):
            return None
        if worst is None:
            return Noticed(sentence=sentence)
        of_problem = (
            f"The worst problem is {worst.problem.id}, in {100 * worst.share:.1f} % of the traces:"
            f" {worst.problem.title}"
        )
        return Noticed(sentence=f"{sentence} {of_problem}".strip(), problem_id=worst.problem.id)

    def _is_too_often(self, worst: ProblemReport, since: float) -> bool:
        """Whether a problem alone is more than `max_bad` of the traces since a time."""
        policy, now = self.project.config.autopilot, self.clock()
        since = max(since, now - DAYS * DAY_S)
        traces = trace_counts(self.store, since).get(self.agent, 0)
        often = self.store.problems.traces_since(worst.problem.id, since)
        return traces >= policy.min_traces and often * worst.loss > policy.max_bad * traces

    async def _worst_problem(self) -> ProblemReport | None:
        """The worst problem of the agent that nobody works on, once new traces are looked at."""
        score, low_score = live_scores(self.project, self.store)
        await scan(self.store, now=self.clock(), score=score, low_score=low_score)
        await look(self.project, self.store, self.say, agent=self.agent)
        found, _ = reports(self.store, now=self.clock(), agent=self.agent)
        return next((r for r in found if r.problem.state in NEEDS_WORK and r.traces), None)

    def active(self) -> Activation | None:
        """See `Parts`."""
        return self.store.agents.active(self.agent)

    def why_no_shadow(self, cycle: Cycle) -> str:
        """See `Parts`."""
        return self.traffic.why_no_mirroring()

    def capture(self, cycle: Cycle) -> Captured:
        """See `Parts`."""
        return capture_tasks(self.project, self.store, cycle, self.clock())

    async def learn(self, cycle: Cycle) -> Learned:
        """See `Parts`."""
        return await learn_and_prove(self.project, self.store, cycle, self.say)

    async def shadow(self, cycle: Cycle) -> StageMeasurement:
        """See `Parts`."""
        return await self.stages.shadow(cycle)

    async def canary(self, cycle: Cycle) -> StageMeasurement:
        """See `Parts`."""
        return await self.stages.canary(cycle)

    async def watch(self, cycle: Cycle) -> StageMeasurement:
        """See `Parts`."""
        return await self.stages.watch(cycle)

    async def request_state(self, cycle: Cycle) -> RequestState:
        """See `Parts`."""
        return await asyncio.to_thread(request_state, self.project, self.store, cycle)

    async def perform(self, action: CycleAction, cycle: Cycle) -> dict[str, Any]:
        """See `Parts`."""
        return await self.ACTIONS[action.kind](self, action, cycle)

    async def _split(self, action: CycleAction, cycle: Cycle) -> dict[str, Any]:
        enrolled = float(action.body["enrolled"])
        self.store.traffic.put(
            TrafficSplit(
                agent=self.agent,
                experiment_id=cycle.id if enrolled else "",
                candidate_id=cycle.candidate_id if enrolled else "",
                enrolled=enrolled,
                started_at=self.clock(),
                reason=f"Cycle {cycle.id[:12]}, {cycle.state}.",
            )
        )
        return {}

    async def _propose(self, action: CycleAction, cycle: Cycle) -> dict[str, Any]:
        return await propose_candidate(self.project, self.store, cycle, self.say)

    async def _close_request(self, action: CycleAction, cycle: Cycle) -> dict[str, Any]:
        why = str(action.body["why"])
        return await asyncio.to_thread(withdraw_request, self.project, self.store, cycle, why)

    async def _activate(self, action: CycleAction, cycle: Cycle) -> dict[str, Any]:
        return activate_candidate(self.project, self.store, cycle)

    async def _deactivate(self, action: CycleAction, cycle: Cycle) -> dict[str, Any]:
        return deactivate_candidate(self.store, self.agent, action, cycle, self.clock())

    async def _revert(self, action: CycleAction, cycle: Cycle) -> dict[str, Any]:
        why = str(action.body["why"])
        return await asyncio.to_thread(revert_merged, self.project, self.store, cycle, why)

    async def _notify(self, action: CycleAction, cycle: Cycle) -> dict[str, Any]:
        return await notify(action, cycle, self.project.config.notify)

    ACTIONS: ClassVar[
        dict[ActionKind, Callable[[Any, CycleAction, Cycle], Awaitable[dict[str, Any]]]]
    ] = {
        "split": _split,
        "propose": _propose,
        "close_request": _close_request,
        "activate": _activate,
        "deactivate": _deactivate,
        "revert": _revert,
        "notify": _notify,
    }
