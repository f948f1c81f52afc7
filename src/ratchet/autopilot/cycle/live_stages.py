"""The live stages of a cycle: observations of live traffic, fed to the tests of `prove`.

Each batch of observations is journaled before a test sees it, with where it ended. A stage that was
killed reads back what it had, reaches the same numbers, and its evidence can be recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from ratchet.autopilot.config import Config
from ratchet.autopilot.cycle.deployed import MergedVersion, UncountedCalls, changed_prompts
from ratchet.autopilot.cycle.old_model import (
    OldModelProgress,
    as_alarm,
    old_model,
    seen_from_the_release,
)
from ratchet.autopilot.cycle.parts import StageMeasurement
from ratchet.autopilot.cycle.stage_calls import (
    BEFORE,
    ObservationBatch,
    batch_key,
    observations_in,
    taken_key,
)
from ratchet.autopilot.project import Project
from ratchet.autopilot.pull_requests import stage_evidence
from ratchet.bind.recognise import Recogniser
from ratchet.prove import (
    CanaryPlan,
    CanaryTest,
    FeedbackRule,
    ShadowPair,
    ShadowPlan,
    ShadowTest,
    WatchedMetric,
    WatchPlan,
    WatchTest,
    expected_mean,
    level,
)
from ratchet.prove.live_metrics import SCORE, LiveGuardrail, live_value
from ratchet.prove.live_state import load_stage, save_stage
from ratchet.prove.stage_evidence import StagePlan, write_stage_evidence
from ratchet.store import Store
from ratchet.types import Candidate, Cycle, Experiment, LiveOutcome, StageDecision
from ratchet.types.stage import Observed

StageTest = TypeVar("StageTest", bound=msgspec.Struct)

FEEDBACK = "feedback"
"""The objective of live stages without an evaluator."""

MIN_MAX_UNITS = 5000
"""Units after which a canary ends, unless [canary] says otherwise or feedback takes more."""

CEILING_RATIO = 4.0
"""Latency and cost are capped at this multiple of their earlier mean."""

MAX_RELEASES = 10_000
"""Number of releases searched for candidates that users got."""


class LiveTraffic(Protocol):
    """The live agent's traffic, read in order. A cursor is opaque text; None is the beginning."""

    async def outcomes(
        self,
        cursor: str | None,
        *,
        since: float,
        timeout_s: float,
        experiment_id: str = "",
        prompts: Recogniser | None = None,
    ) -> tuple[Sequence[LiveOutcome], str | None]:
        """Outcomes of calls that began since a time, oldest first, and the next cursor.

        With an experiment, only those of its units, of each the first. A call that takes longer
        than the time-out has failed. `prompts` tell what a call ran that does not say it.
        """
        ...

    async def newest(self, limit: int) -> list[LiveOutcome]:
        """The newest outcomes of the last day, oldest first."""
        ...

    async def before(
        self, until: float, limit: int, *, without: str, prompts: Recogniser | None = None
    ) -> list[LiveOutcome]:
        """The last outcomes before a time, oldest first, without those of a candidate."""
        ...

    def why_no_mirroring(self) -> str:
        """Why live inputs may not be mirrored; empty when they may."""
        ...

    async def mirror(
        self, stage_id: str, candidate_id: str, cursor: str | None, *, since: float
    ) -> tuple[Sequence[ShadowPair], str | None]:
        """Run the candidate on inputs of calls since a time; the pairs, and the next cursor."""
        ...


class LiveStages:
    """Measures the live stages of one project's cycles.

    Args:
        project: The project.
        store: Its store.
        traffic: The live agent's traffic.
        clock: Unix seconds.
    """

    def __init__(
        self, project: Project, store: Store, traffic: LiveTraffic, clock: Callable[[], float]
    ) -> None:
        self.project = project
        self.store = store
        self.traffic = traffic
        self.clock = clock

    async def shadow(self, cycle: Cycle) -> StageMeasurement:
        """Mirror more live inputs to the candidate."""
        test = _resumed(ShadowTest, cycle)
        if test is None:
            test = ShadowTest.begin(shadow_plan(self.project.config, self._alpha(cycle)))
        batch = self._known(cycle, "shadow")
        if batch is None:
            cursor = cycle.progress.get("cursor")
            pairs_and_cursor = await self.traffic.mirror(
                cycle.id, cycle.candidate_id, cursor, since=cycle.entered_at
            )
            batch = self._journaled(cycle, "shadow", *pairs_and_cursor)
        return self._measured(cycle, "shadow", test, batch, ShadowPair)

    async def canary(self, cycle: Cycle) -> StageMeasurement:
        """Read the outcomes of both arms since the last measurement."""
        test = _resumed(CanaryTest, cycle)
        if test is None:
            test = CanaryTest.begin(await self._canary_plan(cycle))
        batch = self._known(cycle, "canary")
        if batch is None:
            outcomes_and_cursor = await self.traffic.outcomes(
                cycle.progress.get("cursor"),
                since=self._began(cycle),
                timeout_s=self.project.config.canary.timeout_s,
                experiment_id=cycle.id,
            )
            batch = self._journaled(cycle, "canary", *outcomes_and_cursor)
        return self._measured(cycle, "canary", test, batch, LiveOutcome)

    async def watch(self, cycle: Cycle) -> StageMeasurement:
        """Read the release's outcomes since the last measurement, and ask the old model again.

        At run time they are recognised by their candidate, after a merge by what they ran. If the
        release changed a model, the old one gets the same live inputs, where mirroring is allowed.
        """
        test = _resumed(WatchTest, cycle) or WatchTest.begin(await self._watch_plan(cycle))
        waiting = msgspec.convert(cycle.progress.get("waiting", {}), UncountedCalls)
        batch = self._known(cycle, "watch")
        if batch is None:
            outcomes, cursor = await self.traffic.outcomes(
                cycle.progress.get("cursor"),
                since=cycle.entered_at,
                timeout_s=self.project.config.watch.timeout_s,
                prompts=self._prompts(cycle),
            )
            if cycle.request:
                merged = self._merged(cycle)
                ran = [merged.ran_by(outcome) for outcome in outcomes]
                mine = [
                    outcome for outcome, by in zip(outcomes, ran, strict=True) if by == "merged"
                ]
                waiting = waiting.and_these(ran)
            else:
                mine = [
                    outcome for outcome in outcomes if outcome.candidate_id == cycle.candidate_id
                ]
            batch = self._journaled(cycle, "watch", mine, cursor)
        measured = self._measured(cycle, "watch", test, batch, LiveOutcome)
        if cycle.request:
            measured = _deployed(measured, batch, cycle, waiting)
        if measured.decision.verdict is None:
            return await self._beside_old_model(cycle, measured)
        return measured

    async def _beside_old_model(self, cycle: Cycle, watch: StageMeasurement) -> StageMeasurement:
        """The watch's measurement, with what the old model answers on the same live inputs."""
        baseline_id = self._baseline_id(cycle)
        since = watch.progress["seen_at"] if cycle.request else cycle.entered_at
        if not baseline_id or since is None:
            return watch
        candidates = self.store.candidates
        baseline, candidate = candidates.get(baseline_id), candidates.get(cycle.candidate_id)
        old = old_model(baseline, candidate, merged=bool(cycle.request))
        if old is None:
            return watch
        progress = msgspec.convert(cycle.progress.get("old_model", {}), OldModelProgress)
        alarm = None
        if not progress.ended and (refusal := self.traffic.why_no_mirroring()):
            sentence = f"The old model is not asked: {refusal}"
            progress = msgspec.structs.replace(progress, sentence=sentence)
        elif not progress.ended:
            candidates.put(old, self.clock())
            progress, alarm = await self._ask_old_model(cycle, progress, old.id, since)
        sentence = f"{watch.decision.sentence} {progress.sentence}"
        return msgspec.structs.replace(
            watch,
            decision=alarm or msgspec.structs.replace(watch.decision, sentence=sentence),
            progress={**watch.progress, "old_model": msgspec.to_builtins(progress)},
        )

    async def _ask_old_model(
        self, cycle: Cycle, progress: OldModelProgress, old_id: str, since: float
    ) -> tuple[OldModelProgress, StageDecision | None]:
        """Mirror more live inputs to the old model; where that stands, and the alarm if any."""
        view = msgspec.structs.replace(cycle, progress=progress.stage)
        test = _resumed(ShadowTest, view)
        if test is None:
            test = ShadowTest.begin(
                shadow_plan(self.project.config, self.project.config.watch.alpha)
            )
        batch = self._known(view, "old_model")
        if batch is None:
            mirrored, cursor = await self.traffic.mirror(
                f"{cycle.id}-old", old_id, view.progress.get("cursor"), since=since
            )
            rollouts = self.store.rollouts.get([pair.rollout_id for pair in mirrored])
            pairs = seen_from_the_release(mirrored, rollouts)
            batch = self._journaled(view, "old_model", pairs, cursor)
        measured = self._measured(view, "old_model", test, batch, ShadowPair)
        pairs = msgspec.convert(batch.observations, list[ShadowPair])
        rollouts = self.store.rollouts.get([pair.rollout_id for pair in pairs])
        progress = progress.after(measured, pairs, rollouts)
        harmed = measured.decision.verdict == "harm"
        return progress, as_alarm(measured.decision) if harmed else None

    def _baseline_id(self, cycle: Cycle) -> str:
        """What was released before the cycle's candidate; empty if that is not known."""
        if cycle.baseline_id:
            return cycle.baseline_id
        return next(
            (
                release.baseline_id
                for release in self.store.releases.list(limit=MAX_RELEASES)
                if release.candidate_id == cycle.candidate_id
            ),
            "",
        )

    def _measured(
        self,
        cycle: Cycle,
        stage: Observed,
        test: ShadowTest | CanaryTest | WatchTest,
        batch: ObservationBatch,
        kind: type[Any],
    ) -> StageMeasurement:
        """Feed a batch to the test, up to its verdict."""
        units = _taken(cycle)
        for body in batch.observations:
            units += 1
            if test.add(msgspec.convert(body, kind)) is not None:
                self.store.journal.append(cycle.id, taken_key(stage), units, self.clock())
                self._evidence(cycle, stage, test.plan, kind)
                break
        progress = {"test": save_stage(test), "cursor": batch.cursor, "taken": units}
        return StageMeasurement(decision=test.decision(), progress=progress, units=units)

    async def _canary_plan(self, cycle: Cycle) -> CanaryPlan:
        """Expected values of the guardrails' metrics: those before the canary."""
        stored_plan = self.store.journal.get(cycle.id, "canary/plan")
        if stored_plan is None:
            reference = self.project.config.watch.reference
            earlier = await self.traffic.before(
                self._began(cycle), reference, without=cycle.candidate_id
            )
            plan = canary_plan(self.project.config, self._alpha(cycle), earlier)
            body = msgspec.to_builtins(plan)
            stored_plan = self.store.journal.append(cycle.id, "canary/plan", body, self.clock())
        return msgspec.convert(stored_plan, CanaryPlan)

    async def _watch_plan(self, cycle: Cycle) -> WatchPlan:
        """Expected outcomes of a release: those before it, estimated cautiously."""
        stored_plan = self.store.journal.get(cycle.id, "watch/plan")
        if stored_plan is None:
            reference = self.project.config.watch.reference
            own = "" if cycle.request else cycle.candidate_id
            earlier_outcomes = await self.traffic.before(
                cycle.entered_at, reference, without=own, prompts=self._prompts(cycle)
            )
            reference_body = self.store.journal.append(
                cycle.id, BEFORE, msgspec.to_builtins(earlier_outcomes), self.clock()
            )
            plan = watch_plan(
                self.project.config, msgspec.convert(reference_body, list[LiveOutcome])
            )
            body = msgspec.to_builtins(plan)
            stored_plan = self.store.journal.append(cycle.id, "watch/plan", body, self.clock())
        return msgspec.convert(stored_plan, WatchPlan)

    def _merged(self, cycle: Cycle) -> MergedVersion:
        """What the cycle's merged pull request changed."""
        earlier = self.store.journal.get(cycle.id, BEFORE) or []
        return MergedVersion(*self._candidates(cycle), msgspec.convert(earlier, list[LiveOutcome]))

    def _prompts(self, cycle: Cycle) -> Recogniser | None:
        """Recognises the prompts that the cycle's pull request changed; None without one."""
        return changed_prompts(*self._candidates(cycle)) if cycle.request else None

    def _candidates(self, cycle: Cycle) -> tuple[Candidate, Candidate]:
        """The cycle's baseline and candidate."""
        candidates = self.store.candidates
        return candidates.get(cycle.baseline_id), candidates.get(cycle.candidate_id)

    def _began(self, cycle: Cycle) -> float:
        """When the first step of the cycle's canary began."""
        moves = self.store.cycles.transitions(cycle.id)
        return next(move.at for move in moves if move.target == "canary")

    def _alpha(self, cycle: Cycle) -> float:
        """The level of the cycle's shadow and canary, from its stream's budget.

        What is bounded is the share of wrong ones among the candidates that users got. So the level
        depends on which earlier candidates of the stream were released, not on which were proved
        on held-out tasks. A candidate has to pass every stage, so each may have the whole level.
        """
        return level(self.project.config.prove.alpha, self._history(cycle))

    def _history(self, cycle: Cycle) -> tuple[bool, ...]:
        """For each earlier experiment of the stream, whether its candidate was released.

        It is fixed when the first stage begins. A release that was taken back does not count: that
        only lowers the level.
        """
        stored_history = self.store.journal.get(cycle.id, "stages/history")
        if stored_history is None:
            experiment = self._experiment(cycle)
            released = {
                release.candidate_id
                for release in self.store.releases.list(limit=MAX_RELEASES)
                if release.state in ("merged", "active")
            }
            shipped = [False] * len(experiment.history)
            for earlier in self.store.experiments.history():
                if earlier.stream == experiment.stream and len(earlier.history) < len(shipped):
                    shipped[len(earlier.history)] = earlier.candidate_id in released
            stored_history = self.store.journal.append(
                cycle.id, "stages/history", shipped, self.clock()
            )
        return tuple(stored_history)

    def _experiment(self, cycle: Cycle) -> Experiment:
        experiment = self.store.experiments.get(cycle.experiment_id)
        assert experiment is not None
        return experiment

    def _known(self, cycle: Cycle, stage: Observed) -> ObservationBatch | None:
        """The batch that was read before a crash and not yet fed to the test."""
        body = self.store.journal.get(cycle.id, batch_key(stage, _taken(cycle)))
        return None if body is None else msgspec.convert(body, ObservationBatch)

    def _journaled(
        self,
        cycle: Cycle,
        stage: Observed,
        observations: Sequence[msgspec.Struct],
        cursor: str | None,
    ) -> ObservationBatch:
        batch = ObservationBatch(observations=msgspec.to_builtins(observations), cursor=cursor)
        if observations:
            body, key = msgspec.to_builtins(batch), batch_key(stage, _taken(cycle))
            self.store.journal.append(cycle.id, key, body, self.clock())
        return batch

    def _evidence(
        self,
        cycle: Cycle,
        stage: Observed,
        plan: StagePlan,
        kind: type[Any],
    ) -> None:
        """Write the stage's evidence file, which `ratchet verify` recomputes."""
        bodies = observations_in(dict(self.store.journal.read(cycle.id)), stage)
        observations = [msgspec.convert(body, kind) for body in bodies]
        alpha = self.project.config.prove.alpha
        history = () if stage in ("watch", "old_model") else self._history(cycle)
        write_stage_evidence(
            stage_evidence(self.project, cycle, stage),
            plan,
            observations,
            baseline={"id": cycle.baseline_id},
            candidate={"id": cycle.candidate_id},
            # A watch has a level of its own; so has a stage whose budget was changed meanwhile.
            budget=alpha if level(alpha, history) == plan.alpha else None,
            history=history,
            created_at=self.clock(),
            context={"agent": cycle.agent, "cycle": cycle.id},
        )


def shadow_plan(config: Config, alpha: float) -> ShadowPlan:
    """The rules of a shadow stage in `[shadow]`."""
    section = config.shadow
    return ShadowPlan(
        metric=config.autopilot.evaluator or SCORE,
        alpha=alpha,
        margin=section.margin,
        harm_alpha=section.harm_alpha,
        min_pairs=section.min_pairs,
        max_pairs=section.max_pairs,
    )


def canary_plan(config: Config, alpha: float, earlier: Sequence[LiveOutcome]) -> CanaryPlan:
    """The rules of a canary in `[canary]`.

    A guardrail's metric that no earlier outcome has is not guarded. The margin of errors is
    absolute; that of latency and cost is a part of the mean before.

    Args:
        config: The project's configuration.
        alpha: The level.
        earlier: Outcomes of what was released before.
    """
    section = config.canary
    guardrails: list[LiveGuardrail] = []
    for metric in section.guardrails:
        if metric == "errors":
            guardrails.append(LiveGuardrail(metric=metric, margin=section.error_margin))
            continue
        values = [v for o in earlier if (v := live_value(o, metric)) is not None]
        mean = sum(values) / len(values) if values else 0.0
        if mean > 0:
            margin = section.relative_margin * mean
            guardrails.append(
                LiveGuardrail(metric=metric, margin=margin, ceiling=CEILING_RATIO * mean)
            )
    plan = CanaryPlan(
        metric=config.autopilot.evaluator or FEEDBACK,
        alpha=alpha,
        min_effect=-section.margin,
        harm_alpha=section.harm_alpha,
        guardrails=tuple(guardrails),
        feedback=None if config.autopilot.evaluator else FeedbackRule.after(earlier),
        min_units=section.min_units,
        max_units=max(MIN_MAX_UNITS, section.min_units),
    )
    needed = plan.units_needed or 0
    return msgspec.structs.replace(plan, max_units=section.max_units or max(plan.max_units, needed))


def watch_plan(config: Config, earlier: Sequence[LiveOutcome]) -> WatchPlan:
    """The rules of a watch in `[watch]`.

    Metrics that no earlier outcome has are not watched. A share's tolerance is absolute; that of
    latency and cost is a part of what is expected, and values above four times that count as that.

    Args:
        config: The project's configuration.
        earlier: Outcomes of what was released before.
    """
    section = config.watch
    metrics: list[WatchedMetric] = []
    for metric in section.metrics:
        values = [v for o in earlier if (v := live_value(o, metric)) is not None]
        if not values:
            continue
        ceiling = 1.0
        if metric in ("latency", "cost"):
            ceiling = max(CEILING_RATIO * sum(values) / len(values), 1e-9)
        expected = expected_mean(metric, earlier, ceiling=ceiling)
        scale = 1.0 if metric in (SCORE, "errors") else expected
        watched = _watched(metric, expected, section.tolerance * scale, ceiling)
        if watched is not None:
            metrics.append(watched)
    if not metrics:  # nothing came before: failures at least are noticed
        metrics.append(WatchedMetric(metric="errors", expected=0.5))
    return WatchPlan(
        metrics=tuple(metrics),
        alpha=section.alpha,
        outcomes=section.outcomes,
        missing="worst" if config.autopilot.evaluator else "skip",
    )


def _watched(
    metric: str, expected: float, tolerance: float, ceiling: float
) -> WatchedMetric | None:
    """The metric with its expectation; None if it was as bad as possible before."""
    share = expected / ceiling
    room = share if metric == SCORE else 1.0 - share
    if room - tolerance / ceiling <= 0.0:
        return None
    worst = min(room - tolerance / ceiling, 0.999)
    if room - tolerance / ceiling >= 1.0:  # without a fault so far
        tolerance = (room - worst) * ceiling
    return WatchedMetric(metric=metric, expected=expected, tolerance=tolerance, ceiling=ceiling)


def _deployed(
    measured: StageMeasurement, batch: ObservationBatch, cycle: Cycle, waiting: UncountedCalls
) -> StageMeasurement:
    """A watch's measurement after a merge, with the time the merged version was first seen."""
    seen_at = cycle.progress.get("seen_at")
    if seen_at is None and batch.observations:
        first = msgspec.convert(batch.observations[0], LiveOutcome)
        seen_at = first.at - first.latency_s
    decision = measured.decision
    if seen_at is None:
        decision = msgspec.structs.replace(decision, sentence=waiting.sentence())
    elif decision.verdict is None and (left_out := waiting.left_out()):
        sentence = f"{decision.sentence} {left_out}"
        decision = msgspec.structs.replace(decision, sentence=sentence)
    waiting_progress = {"waiting": msgspec.to_builtins(waiting), "seen_at": seen_at}
    return msgspec.structs.replace(
        measured, decision=decision, progress={**measured.progress, **waiting_progress}
    )


def _taken(cycle: Cycle) -> int:
    """Observations of the stage that its test has seen."""
    return int(cycle.progress.get("taken", 0))


def _resumed(kind: type[StageTest], cycle: Cycle) -> StageTest | None:
    saved = cycle.progress.get("test")
    return None if saved is None else load_stage(kind, saved)
