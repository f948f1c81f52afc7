"""The loop as a persisted state machine: baseline → learn → prove → ship.

Every stage may be killed at any time and entered again: it finds its paid results in the store by
content, and reaches the same end.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec

from ratchet._version import __version__
from ratchet.autopilot.adapters import AdapterFolder
from ratchet.autopilot.agent_model import agent_model, in_thread
from ratchet.autopilot.algorithms import make_algorithm, weights_arms
from ratchet.autopilot.checks import checked_finding, make_checks
from ratchet.autopilot.coach import coach_identity, open_coach, uses_coach
from ratchet.autopilot.code_sandbox import release_tests, repository_of
from ratchet.autopilot.dry_run import DryRunLab, NoRunner, dry_run
from ratchet.autopilot.experiment import (
    ExperimentSettings,
    check_reach,
    next_level,
    pairs_to_label,
    run_experiment,
)
from ratchet.autopilot.import_binding import check_import_binding
from ratchet.autopilot.model_card import write_model_card
from ratchet.autopilot.project import Project
from ratchet.autopilot.prompt_discovery import discover_prompts, unrecognised
from ratchet.autopilot.proof_outlook import proof_outlook
from ratchet.autopilot.pull_requests import propose_release, text_options
from ratchet.autopilot.release_notes import release_notes
from ratchet.autopilot.repetitions import plan_repetitions
from ratchet.autopilot.report_cards import check_evaluators, check_objective, trust_objective
from ratchet.autopilot.runner import open_runner
from ratchet.autopilot.trainable import ADAPTERS, TrainableModel
from ratchet.autopilot.watcher import Watcher
from ratchet.autopilot.weights_algorithm import WeightsAlgorithm
from ratchet.evaluate import Evaluator, Scorer
from ratchet.learn import Algorithm, Budget, Finding, Lab, LabSettings, mean
from ratchet.learn.auto import Auto
from ratchet.learn.work import RolloutRunner
from ratchet.llm import Coach
from ratchet.prove import ExperimentPlan, RepetitionPlan
from ratchet.run import FileLock, Runner
from ratchet.run.program import AnyAgent, ProgramAgent
from ratchet.ship import activate, check_clean, find_literal, make_patch, ship
from ratchet.store import Store
from ratchet.types import (
    SPLITS,
    Adapter,
    AgentError,
    Candidate,
    Conflict,
    Dataset,
    Decision,
    Experiment,
    InputError,
    Model,
    PromptTemplate,
    RatchetError,
    Release,
    Run,
    ShipError,
    Split,
    Stage,
    Task,
    content_hash,
)

L = TypeVar("L", bound=Lab)

LABELS = "pairs-to-label"
"""Key in a run's journal of the rollouts that people label for its experiment, pair by pair."""

FINAL_STAGES: frozenset[Stage] = frozenset({"shipped", "no_gain"})


async def improve(
    project: Project,
    store: Store,
    *,
    watcher: Watcher,
    seed: int | None = None,
    skip_bad: bool = False,
    ship_it: bool = True,
    only_run: str | None = None,
) -> Run:
    """Run the loop once for the project's agent, or resume an interrupted run.

    Args:
        project: The project.
        store: Its store.
        watcher: Receives progress events.
        seed: Seed of the search and of the order of pairs; the configuration's by default.
        skip_bad: Skip malformed lines of the task file.
        ship_it: Create the branch; False stops before it.
        only_run: Id of the run to resume; no other is begun.

    Returns:
        The run: shipped, without gain, or (with `ship_it` False) about to ship.

    Raises:
        Conflict: Another `improve` is running in this project; or the agent, its tasks or its
            settings are others than in `only_run`.
        RatchetError: A stage failed; the failure is recorded in the run, which resumes there.
    """
    with FileLock(
        project.prepare_state() / "locks" / "improve.lock", "`ratchet improve` in this project"
    ):
        async with in_thread(agent_model(project, watcher.message)):
            agent = project.load_agent()
            dataset, bad = project.dataset(skip_bad=skip_bad)
            for sentence in bad:
                watcher.message(f"Skipped: {sentence}")
            if isinstance(agent, ProgramAgent):
                if ship_it:
                    check_clean(project.root)
                await discover_prompts(project, store, agent, dataset, watcher.message)
            check_import_binding(project.config, agent.declarations)
            improve_run = _ImproveRun(project, store, watcher, agent, dataset, seed, only_run)
            return await improve_run.advance(ship_it)


class _ImproveRun:
    """One run in progress."""

    def __init__(
        self,
        project: Project,
        store: Store,
        watcher: Watcher,
        agent: AnyAgent,
        dataset: Dataset,
        seed: int | None,
        only_run: str | None,
    ) -> None:
        self.project = project
        self.store = store
        self.watcher = watcher
        self.identity = project.identity()
        self.agent = agent
        self.baseline: Candidate = project.source_candidate(self.agent)
        self.dataset = dataset
        self.evaluators: tuple[Evaluator, ...] = project.evaluators(self.agent)
        self.objective = project.objective(self.evaluators, self.agent)
        self.answered = any(
            e.name == self.objective and getattr(e, "needs_expected", False)
            for e in self.evaluators
        )
        """Whether only tasks with an expected answer take part: the objective needs one."""
        self.guardrails = project.guardrails(self.evaluators)
        self.algorithm = self._make_algorithm()
        self.seed = project.config.improve.seed if seed is None else seed
        release_tests(project)  # refused before anything is spent
        self.coach: Coach | None = None
        self.waits = False
        """Whether the decision waits for people's labels."""
        self.run = self._begin(only_run)

    def _make_algorithm(self) -> Algorithm:
        section = self.project.config.improve
        algorithm = make_algorithm(section.algorithm, section.options)
        model = self.project.agent_model
        if isinstance(model, TrainableModel):
            if isinstance(algorithm, WeightsAlgorithm):
                algorithm.model = model
            elif isinstance(algorithm, Auto):
                algorithm.arms += weights_arms(model)
        return algorithm

    def _begin(self, only_run: str | None) -> Run:
        identity = [
            self.agent.spec.entry,
            self.agent.source_version(),
            self.baseline.id,
            self.dataset.version,
            [[e.name, e.version] for e in self.evaluators],
            self.project.fingerprint(),
            msgspec.to_builtins(self.guardrails),
            __version__,
            self.seed,
            *coach_identity(self.project.config.coach, self.algorithm),
        ]
        run_id = content_hash(identity)
        if only_run is not None and run_id != only_run:
            raise Conflict(
                f"The agent, its tasks or its settings are not those of run {only_run[:12]} any"
                " more, so what that run proved does not hold for them.",
                hint="Undo the change, or let a new run prove it again.",
            )
        existing = self.store.runs.find(run_id)
        if existing:
            return existing[0]
        now = time.time()
        self.store.candidates.put(self.baseline, now)
        if self.project.config.tasks.dataset is None:
            self.store.datasets.put(self.dataset, now)
        run = Run(
            id=run_id,
            agent=self.agent.spec.entry,
            seed=self.seed,
            stage="baseline",
            created_at=now,
            updated_at=now,
            dataset_version=self.dataset.version,
            baseline_id=self.baseline.id,
        )
        self.store.runs.put(run)
        return run

    async def advance(self, ship_it: bool) -> Run:
        """Run the remaining stages."""
        if self.run.stage == "failed":
            if self.run.failed_at == "baseline":
                # The cause of the failures (a service that was down, a missing key) may be fixed by
                # now: failed rollouts are run again.
                again = self._retries() + 1
                self.store.journal.append(self.run.id, f"again/{again:03d}", True, time.time())
            self._enter(self.run.failed_at, message="")
            resumed = True
        else:
            resumed = self.run.stage != "baseline" or self._has_begun()
        if self.run.stage in FINAL_STAGES:
            release = self.store.releases.get(self.run.release_id)
            if release is not None and release.state == "branched":
                self._propose(release)
            return self.run
        try:
            if self.run.stage in ("baseline", "learn"):
                self._say_unanswered()
                check_reach(self._setting(self.baseline), self.store)
                check_objective(self.project, self.store, self.evaluators, self.objective)
                await self._trust()
            if ship_it:
                # Checked before anything is spent: a dirty tree would be refused at the end.
                check_clean(self.project.root)
            if self.run.stage == "baseline":
                await self._dry_run()
            if self.run.stage != "ship":
                async with AsyncExitStack() as stack:
                    if self.run.stage in ("baseline", "learn"):
                        self.coach = await stack.enter_async_context(self._open_coach())
                    runner = await stack.enter_async_context(
                        open_runner(
                            self.project,
                            self.store,
                            self.agent,
                            self.run.id,
                            self.watcher.message,
                            take_over=True,
                        )
                    )
                    while self.run.stage in self.WITH_RUNNER and not self.waits:
                        self.watcher.entered(self.run, self.run.stage, resumed)
                        await self.WITH_RUNNER[self.run.stage](self, runner)
                        resumed = False
                for evaluator in self.evaluators:
                    if sentence := getattr(evaluator, "spending", ""):
                        self.watcher.message(sentence)
            if self.run.stage == "ship" and ship_it:
                self.watcher.entered(self.run, "ship", resumed)
                self._ship()
        except RatchetError as error:
            self._enter("failed", failed_at=self.run.stage, message=error.message)
            raise
        return self.run

    async def _dry_run(self) -> None:
        """Let the algorithm refuse now what it would refuse after the baseline."""
        algorithm = self._make_algorithm()
        coach = NoRunner() if uses_coach(self.project.config.coach, algorithm) else None
        await dry_run(algorithm, self._lab_of(DryRunLab, NoRunner(), coach))

    def _open_coach(self) -> AbstractAsyncContextManager[Coach | None]:
        return open_coach(
            self.project.config.coach,
            self.algorithm,
            store=self.store,
            run_id=self.run.id,
            seed=self.run.seed,
            redactor=self.project.redactor(),
            say=self.watcher.message,
            folder=self.project.root,
        )

    def _retries(self) -> int:
        times = 0
        while self.store.journal.get(self.run.id, f"again/{times + 1:03d}"):
            times += 1
        return times

    def _has_begun(self) -> bool:
        return bool(self.store.rollouts.counts(queue=self.run.id))

    def _tasks(self, split: Split) -> tuple[Task, ...]:
        """The tasks of a split that the objective can score."""
        return self.dataset.split(split, answered=self.answered)

    def _say_unanswered(self) -> None:
        """Tell how many tasks are left out for want of an expected answer.

        Raises:
            InputError: None of a split that is needed is left.
        """
        tasks = self.dataset.tasks
        if not self.answered or all(task.expected is not None for task in tasks):
            return
        for split in SPLITS:
            if self.dataset.split(split) and not self._tasks(split):
                raise InputError(
                    f"No {split} task of {self.dataset.name!r} has an expected answer, which the"
                    f" objective {self.objective!r} needs.",
                    hint="Give answers: ratchet feedback --correction and ratchet datasets"
                    " capture, or a file and ratchet datasets import.",
                )
        unanswered = sum(task.expected is None for task in tasks)
        self.watcher.message(
            f"{unanswered} of {len(tasks)} tasks have no expected answer, which"
            f" {self.objective!r} needs: they are left out."
        )

    async def _baseline(self, runner: Runner) -> None:
        lab = self._lab(runner)
        self.watcher.expects(len(self._tasks("val")))
        evaluations = await lab.evaluate(self.baseline, self._tasks("val"))
        failed = [e.rollout for e in evaluations if e.rollout.status != "succeeded"]
        if len(failed) == len(evaluations):
            raise AgentError(
                f"The agent failed on all {len(failed)} val tasks. The first"
                f" ({failed[0].task_id}): {failed[0].error}",
                hint="Run one by hand: ratchet run.",
            )
        check_evaluators(
            self.evaluators, {self.objective, *(g.metric for g in self.guardrails)}, evaluations
        )
        value = mean(evaluations)
        if all(evaluation.value is None for evaluation in evaluations):
            error = next(iter(s.error for s in evaluations[0].scores.values() if s.error), "")
            raise AgentError(
                f"The objective {self.objective!r} gave no score on any of {len(evaluations)} val"
                f" tasks. The first error: {error or 'none; the agent returned no reward.'}",
                hint="Run one by hand: ratchet run.",
            )
        self.watcher.baseline(value, len(evaluations))
        scores = [evaluation.worth for evaluation in evaluations]
        for sentence in proof_outlook(
            self.dataset,
            scores,
            answered=self.answered,
            alpha=next_level(self._setting(self.baseline), self.store),
            min_gain=self.project.config.prove.min_gain,
            repetitions=self.project.config.prove.repetitions,
            stored=self.project.config.tasks.dataset is not None,
            store=self.store,
            now=time.time(),
        ):
            self.watcher.message(sentence)
        if isinstance(self.agent, ProgramAgent):
            ids = [evaluation.rollout.id for evaluation in evaluations]
            if note := unrecognised(self.store, ids):
                self.watcher.message(note)
        self._enter("learn")

    async def _trust(self) -> None:
        """Refuse an objective that may not decide: before anything is run, if expected answers can
        serve as outputs, else by those of the baseline.
        """
        if self.store.journal.get(self.run.id, "trust") is not None:
            return
        trust = await trust_objective(
            self.project, self.store, self.evaluators, self.objective, self.dataset
        )
        if trust is None:
            return
        found = {**msgspec.to_builtins(trust), "evaluator": self.objective}
        self.store.journal.append(self.run.id, "trust", found, time.time())
        self.watcher.message(trust.sentence)

    async def _learn(self, runner: Runner) -> None:
        await self._trust()
        async with self._lab(runner) as lab:
            self.watcher.expects(lab.budget.rollouts or 0)
            finding = await checked_finding(lab, await self.algorithm.learn(lab))
            await lab.settle()
        both = len(lab.compared("finding", self.baseline, finding.best))
        finding = msgspec.structs.replace(finding, val_tasks=both)
        self.store.candidates.put(finding.best, time.time())
        self.store.journal.append(
            self.run.id,
            "finding",
            {
                "best": finding.best.id,
                "baseline_val": finding.baseline_val,
                "best_val": finding.best_val,
                "val_tasks": finding.val_tasks,
                "rollouts": lab.spent.rollouts,
                "coach_calls": lab.spent.coach_calls,
                "dollars": lab.spent.dollars,
                "unpriced": lab.spent.unpriced,
                "proposals": finding.proposals,
                "sentence": finding.sentence,
            },
            time.time(),
        )
        self.watcher.found(finding)
        if finding.best.id == self.baseline.id:
            self._enter("no_gain", best_id=finding.best.id, message=_nothing_found(finding))
        else:
            self._enter("prove", best_id=finding.best.id)

    async def _prove(self, runner: Runner) -> None:
        candidate = self.store.candidates.get(self.run.best_id)
        await self._trust()  # journaled, unless the run began before there were report cards

        async def repetitions(plan: ExperimentPlan) -> RepetitionPlan:
            return await self._repetitions(runner, candidate, plan)

        self.watcher.expects(2 * len(self._tasks("test")))
        experiment = await run_experiment(
            self._setting(candidate),
            store=self.store,
            runner=runner,
            scorer=self._scorer(),
            evidence_dir=self.project.state / "evidence",
            watcher=self.watcher,
            plan_repetitions=repetitions,
            trust=self.store.journal.get(self.run.id, "trust"),
        )
        decided = experiment.decision
        if decided is None:
            self._withhold(experiment)
            return
        self.watcher.decided(decided, experiment.evidence_path)
        promoted = decided.verdict == "promote"
        self._enter(
            "ship" if promoted else "no_gain",
            experiment_id=experiment.id,
            message=decided.sentence,
        )

    def _withhold(self, experiment: Experiment) -> None:
        """Note which pairs people have to label, and stop before the decision."""
        repetitions = self.store.journal.get(self.run.id, "repetitions", {"count": 1})["count"]
        setting = self._setting(self.store.candidates.get(self.run.best_id))
        body = pairs_to_label(setting, repetitions)
        self.store.journal.append(self.run.id, LABELS, body, time.time())
        self.waits = True
        self._enter(
            "prove",
            experiment_id=experiment.id,
            message=f"The decision waits for labels: ratchet label --experiment"
            f" {experiment.id[:8]}.",
        )

    async def _repetitions(
        self, runner: Runner, candidate: Candidate, plan: ExperimentPlan
    ) -> RepetitionPlan:
        """How often each test task is run; journaled, so that a resumed run does not change it."""
        known = self.store.journal.get(self.run.id, "repetitions")
        if known is None:
            wanted = self.project.config.prove.repetitions
            async with self._lab(runner) as lab:
                chosen = await plan_repetitions(plan, wanted, lab=lab, candidate=candidate)
            body = {"count": chosen.count, "reason": chosen.reason}
            known = self.store.journal.append(self.run.id, "repetitions", body, time.time())
        return msgspec.convert(known, RepetitionPlan)

    def _ship(self) -> Release:
        experiment = self.store.experiments.get(self.run.experiment_id)
        assert experiment is not None
        assert experiment.decision is not None
        candidate = self.store.candidates.get(self.run.best_id)
        reasons = self._unpatchable(candidate)
        for adapter in _trained(self.baseline, candidate).values():
            write_model_card(
                AdapterFolder(self.project.state / ADAPTERS).verified(adapter),
                adapter,
                self.dataset,
                experiment.decision,
                experiment.evidence_path,
            )
        if reasons:
            release = activate(
                self.store,
                agent=self.project.agent_name,
                repo=self.project.root,
                baseline=self.baseline,
                candidate=candidate,
                decision=experiment.decision,
                evidence_path=Path(experiment.evidence_path),
                experiment_id=experiment.id,
                out_dir=self.project.state / "releases",
                now=time.time(),
                reasons=reasons,
                notes=release_notes(self.store, self.run),
            )
            return self._released(release, experiment.decision)
        release = ship(
            repo=self.project.root,
            baseline=self.baseline,
            candidate=candidate,
            declarations=self.agent.declarations,
            decision=experiment.decision,
            evidence_path=Path(experiment.evidence_path),
            experiment_id=experiment.id,
            out_dir=self.project.state / "releases",
            now=time.time(),
            tests=release_tests(self.project),
            agent_entry=self.agent.spec.entry,
            notes=release_notes(self.store, self.run),
            **text_options(self.project, experiment.id, self.dataset),
        )
        return self._released(release, experiment.decision)

    def _unpatchable(self, candidate: Candidate) -> dict[str, str]:
        """Why resources cannot be patched, by name; then they are released at run time.

        Trained weights stand in no source file. The prompts of an agent in another language may
        stand in none, in several, or in a form that does not hold the new text.
        """
        trained = _trained(self.baseline, candidate)
        if trained:
            return dict.fromkeys(trained, "Trained weights stand in no source file.")
        if not isinstance(self.agent, ProgramAgent):
            return {}
        reasons: dict[str, str] = {}
        root = repository_of(self.project.root)
        for name in candidate.changed_from(self.baseline):
            prompt = self.baseline.resources[name]
            assert isinstance(prompt, PromptTemplate)
            search = find_literal(root, prompt)
            if not search.patchable:
                reasons[name] = search.sentence()
        if not reasons:
            declared = self.agent.declarations
            try:
                make_patch(self.baseline, candidate, declared, root)
            except ShipError as error:
                names = candidate.changed_from(self.baseline)
                reasons = dict.fromkeys(names, " ".join(filter(None, (error.message, error.hint))))
        return reasons

    def _released(self, release: Release, decision: Decision) -> Release:
        self.store.releases.put(release)
        self.watcher.released(release)
        self._enter("shipped", release_id=release.id, message=decision.sentence)
        self._propose(release)
        return release

    def _propose(self, release: Release) -> None:
        """Open the pull request of a branch if the project wants it; a failure is only told."""
        if not release.branch or not self.project.config.ship.pull_request:
            return
        try:
            propose_release(self.project, self.store, release)
        except RatchetError as error:
            self.watcher.message(
                f"The branch is made, but its pull request is not open: {error} Go on with"
                " `ratchet ship`."
            )

    WITH_RUNNER: ClassVar[dict[str, Callable[[Any, Runner], Awaitable[None]]]] = {
        "baseline": _baseline,
        "learn": _learn,
        "prove": _prove,
    }
    """The action of each stage that runs the agent."""

    def _enter(self, stage: Any, **changes: str) -> None:
        self.run = msgspec.structs.replace(self.run, stage=stage, updated_at=time.time(), **changes)
        self.store.runs.put(self.run)

    def _setting(self, candidate: Candidate) -> ExperimentSettings:
        config = self.project.config
        return ExperimentSettings(
            project=self.identity,
            run=self.run,
            baseline=self.baseline,
            candidate=candidate,
            dataset=self.dataset,
            answered=self.answered,
            objective=self.objective,
            alpha=config.prove.alpha,
            min_gain=config.prove.min_gain,
            harm_alpha=config.prove.harm_alpha,
            futility_alpha=config.prove.futility_alpha,
            min_pairs=config.prove.min_pairs,
            guardrails=self.guardrails,
            max_attempts=self.project.local_attempts,
            queue=self.run.id,
            labels=config.prove.labels if self._by_judge else 0,
        )

    @property
    def _by_judge(self) -> bool:
        """Whether the objective is a judge's score."""
        return any(
            e.name == self.objective and getattr(e, "is_judge", False) for e in self.evaluators
        )

    def _scorer(self) -> Scorer:
        return Scorer(self.store, self.evaluators)

    def _lab(self, runner: RolloutRunner) -> Lab:
        return self._lab_of(Lab, runner, self.coach)

    def _lab_of(self, kind: type[L], runner: RolloutRunner, coach: Any) -> L:
        budget = self.project.config.improve.budget
        checks = make_checks(self.project, self.agent, self.baseline, self.watcher.message)
        return kind(
            LabSettings(
                run_id=self.run.id,
                stage="learn",
                queue=self.run.id,
                objective=self.objective,
                seed=self.run.seed,
                max_attempts=self.project.local_attempts,
                again=self._retries(),
            ),
            baseline=self.baseline,
            train=self._tasks("train"),
            val=self._tasks("val"),
            runner=runner,
            scorer=self._scorer(),
            store=self.store,
            budget=Budget(
                rollouts=budget.rollouts,
                seconds=budget.seconds,
                coach_calls=budget.coach_calls,
                dollars=budget.dollars,
            ),
            coach=coach,
            checks=checks,
            tests=checks.test,
            on_rollout=self.watcher.rollout,
            on_proposal=self.watcher.proposal,
            on_note=self.watcher.message,
            redact=self.project.redactor().text,
        )


def _trained(baseline: Candidate, candidate: Candidate) -> dict[str, Adapter]:
    """The adapters of a candidate that the baseline has not, by name of the model."""
    changed = {name: candidate.resources[name] for name in candidate.changed_from(baseline)}
    return {
        name: model.adapter
        for name, model in changed.items()
        if isinstance(model, Model) and model.adapter is not None
    }


def _nothing_found(finding: Finding) -> str:
    return (
        f"There is no significant gain: nothing beat the baseline's {finding.baseline_val:.3f} on"
        f" the val tasks, so no experiment was run. {finding.sentence}"
    )
