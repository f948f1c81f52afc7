"""The loop as a persisted state machine: baseline → learn → prove → ship.

Every stage may be killed at any time and entered again: it finds its paid results in the store by
content, and reaches the same end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec

from ratchet._version import __version__
from ratchet.autopilot.adapters import AdapterFolder
from ratchet.autopilot.agent_model import agent_model, in_thread
from ratchet.autopilot.algorithms import make_algorithm, weights_arms
from ratchet.autopilot.checks import checked_finding, make_checks
from ratchet.autopilot.chosen_candidate import (
    ChosenCandidate,
    ProofWanted,
    chosen_candidate,
    level_sentence,
    named_candidate,
)
from ratchet.autopilot.coach import coach_identity, open_coach, uses_coach
from ratchet.autopilot.code_sandbox import release_tests, repository_of
from ratchet.autopilot.dry_run import DryRunLab, NoRunner, dry_run
from ratchet.autopilot.earlier_runs import continued_run, earlier_runs, note_continuation
from ratchet.autopilot.experiment import (
    ExperimentSettings,
    next_level,
    pairs_to_label,
    reach,
    run_experiment,
    stream_of,
)
from ratchet.autopilot.failed_rollout import require_success
from ratchet.autopilot.frozen_guards import planned_draws
from ratchet.autopilot.import_binding import check_import_binding
from ratchet.autopilot.model_card import write_model_card
from ratchet.autopilot.models_in_calls import adopt_models
from ratchet.autopilot.nomination import Nominee, next_nominee, nominees
from ratchet.autopilot.planned_tasks import tasks_to_continue
from ratchet.autopilot.problem_states import settle
from ratchet.autopilot.problem_work import begin_work
from ratchet.autopilot.project import Project
from ratchet.autopilot.prompt_discovery import discover_prompts, unrecognised
from ratchet.autopilot.proof_outlook import proof_outlook, variance
from ratchet.autopilot.pull_requests import propose_release, text_options
from ratchet.autopilot.pulse import pulse
from ratchet.autopilot.release_notes import release_notes
from ratchet.autopilot.repetitions import PILOT_TASKS, plan_repetitions
from ratchet.autopilot.report_cards import (
    check_evaluators,
    check_objective,
    never_measured,
    trust_objective,
)
from ratchet.autopilot.run_outcome import CHOSEN, COACH_GONE
from ratchet.autopilot.run_spending import RolloutCap, RunSpending, announced
from ratchet.autopilot.runner import open_runner
from ratchet.autopilot.task_inputs import check_task_inputs, same_for_all
from ratchet.autopilot.trainable import ADAPTERS, TrainableModel
from ratchet.autopilot.watcher import Watcher
from ratchet.autopilot.weights_algorithm import WeightsAlgorithm
from ratchet.evaluate import Evaluator, FunctionEvaluator, Scorer
from ratchet.learn import Algorithm, Budget, Finding, Lab, LabSettings, mean
from ratchet.learn.algorithm import NOTHING_TO_LEARN
from ratchet.learn.auto import Auto
from ratchet.llm import ChatClient, CoachUnavailable, paid_from
from ratchet.prove import ExperimentPlan, RepetitionPlan, level
from ratchet.prove.tasks_needed import provable_margin
from ratchet.run import FileLock
from ratchet.run.paid import CappedRunner, PaidRunner, RolloutRunner
from ratchet.run.program import AnyAgent
from ratchet.ship import activate, check_clean, find_literal, literal_text, make_patch, ship
from ratchet.store import Store
from ratchet.types import (
    SPLITS,
    Adapter,
    AgentError,
    BudgetExhausted,
    Candidate,
    Conflict,
    Cost,
    Dataset,
    Decision,
    Experiment,
    InputError,
    Model,
    Problem,
    RatchetError,
    Release,
    Rollout,
    Run,
    ShipError,
    Split,
    Stage,
    Task,
    content_hash,
    total_cost,
)
from ratchet.types.wording import counted

L = TypeVar("L", bound=Lab)

LABELS = "pairs-to-label"
"""Key in a run's journal of the rollouts that people label for its experiment, pair by pair."""

MARGIN = "margin"
"""Key in a run's journal of how much lower a candidate may score."""

LEARN = "learn"
"""Prefix of the purpose of learning's rollouts."""

FINAL_STAGES: frozenset[Stage] = frozenset({"shipped", "no_gain", "not_proved"})


async def improve(
    project: Project,
    store: Store,
    *,
    watcher: Watcher,
    seed: int | None = None,
    skip_bad: bool = False,
    ship_it: bool = True,
    only_run: str | None = None,
    at_most: int | None = None,
    chosen: ProofWanted | None = None,
    problem: Problem | None = None,
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
        at_most: Rollouts that all stages together may take; the proof's are kept from learning.
        chosen: A candidate to prove and ship; nothing is learned then.
        problem: The problem that it works on; see `problem_work.prepare`.

    Returns:
        The run: shipped, without gain, not proved, or (with `ship_it` False) about to ship.

    Raises:
        Conflict: Another `improve` is running in this project; or the agent, its tasks or its
            settings are others than in `only_run`.
        RatchetError: A stage failed; the failure is recorded in the run, which resumes there.
    """
    begun = time.time()
    with FileLock(
        project.prepare_state() / "locks" / "improve.lock", "`ratchet improve` in this project"
    ):
        async with in_thread(agent_model(project, watcher.message)):
            agent = project.load_agent()
            dataset, sentences = project.dataset(skip_bad=skip_bad, store=store)
            for sentence in sentences:
                watcher.message(sentence)
            check_task_inputs(agent, dataset.tasks)
            if sentence := same_for_all(agent, dataset.tasks):
                watcher.message(sentence)
            if agent.prompts_in_calls:
                if ship_it:
                    check_clean(project.root)
                await discover_prompts(project, store, agent, dataset, watcher.message)
            check_import_binding(project.config, agent.declarations)
            cap = None if at_most is None else RolloutCap(at_most, begun)
            improve_run = _ImproveRun(
                project, store, watcher, agent, dataset, seed, only_run, cap, chosen
            )
            if problem is not None:
                begin_work(store, problem, improve_run.run.id, time.time())
            try:
                return await improve_run.advance(ship_it)
            finally:
                settle(store, time.time())


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
        cap: RolloutCap | None = None,
        chosen: ProofWanted | None = None,
    ) -> None:
        self.project = project
        self.cap = cap
        self.store = store
        self.watcher = watcher
        self.identity = project.identity()
        self.agent = agent
        if chosen is not None:
            adopt_models(store, agent, named_candidate(project, store, chosen.name))
        self.baseline: Candidate = project.source_candidate(self.agent)
        self.dataset = dataset
        self.evaluators: tuple[Evaluator, ...] = project.evaluators(self.agent)
        self.objective = project.objective(self.evaluators, self.agent)
        self.chosen: ChosenCandidate | None = None
        if chosen is not None:
            self.chosen = chosen_candidate(project, store, self.baseline, self.objective, chosen)
        self.answered = any(
            e.name == self.objective and getattr(e, "needs_expected", False)
            for e in self.evaluators
        )
        """Whether only tasks with an expected answer take part: the objective needs one."""
        self.frozen_sets = tuple(store.frozen_sets.of_project(self.identity))
        if cap is not None:
            self.project = project = self._capped(cap)
        self.guardrails = project.guardrails(self.evaluators)
        self.algorithm = self._make_algorithm()
        self.seed = project.config.improve.seed if seed is None else seed
        release_tests(project)  # refused before anything is spent
        self.coach: ChatClient | None = None
        self.waits = False
        """Whether the decision waits for people's labels."""
        self.run = self._begin(only_run)
        self.spending = RunSpending(store, self.run.id, project.config.improve.budget.dollars)

    def _capped(self, cap: RolloutCap) -> Project:
        """The project with what the cap leaves to learning, once the proof has its part."""
        proof, val = self._proof_rollouts, len(self._tasks("val"))
        learning = cap.for_learning(proof)
        if learning <= val:
            raise InputError(
                f"{counted(cap.most, 'rollout')} cannot hold the baseline, of"
                f" {counted(val, 'rollout')}, learning, and a proof of up to {proof}.",
                hint=f"Allow at least {min(proof + val + 1, 2 * val + 2)}, better"
                f" {proof + 3 * val} or more.",
            )
        if learning + proof > cap.most:
            self.watcher.message(
                f"Of {counted(cap.most, 'rollout')} the proof has {cap.most - learning}, and may"
                f" take up to {proof}: it may end undecided."
            )
        config = self.project.config
        budget = config.improve.budget
        rollouts = min(learning, budget.rollouts or learning)
        budget = budget.model_copy(update={"rollouts": rollouts})
        learning_section = config.improve.model_copy(update={"budget": budget})
        return self.project.with_config(config.model_copy(update={"improve": learning_section}))

    def _make_algorithm(self) -> Algorithm:
        if self.chosen is not None:
            return self.chosen
        section, objective = self.project.config.improve, self.project.config.objective
        algorithm = make_algorithm(section.algorithm, section.options)
        if objective.minimise is not None and not self._is_no_worse(algorithm):
            options = {"learn": section.algorithm, "learn_options": section.options}
            algorithm = make_algorithm("cheaper", {"metric": objective.minimise, **options})
        if self._is_no_worse(algorithm) and getattr(algorithm, "margin", None) is None:
            algorithm.margin = objective.margin  # type: ignore[attr-defined]
        model = self.project.agent_model
        if isinstance(model, TrainableModel):
            if isinstance(algorithm, WeightsAlgorithm):
                algorithm.model = model
            elif isinstance(algorithm, Auto):
                algorithm.arms += weights_arms(model)
        return algorithm

    def _begin(self, only_run: str | None) -> Run:
        conditions = [
            self.identity,
            self.agent.spec.entry,
            self.agent.source_version(),
            self.baseline.id,
            self.project.conditions(),
            __version__,
        ]
        rules = [
            *conditions,
            [[e.name, e.version] for e in self.evaluators],
            self.project.rules(),
            msgspec.to_builtins(self.guardrails),
            self.seed,
            *(self.chosen.identity if self.chosen is not None else []),
        ]
        if self._seeks_no_worse:
            rules.append([self.algorithm.name, self.project.config.improve.options])
        learning = [
            *rules,
            self.dataset.version,
            self.project.learning(),
            *coach_identity(self.project.config.coach, self.algorithm),
        ]
        now = time.time()
        run = Run(
            id=content_hash(learning),
            agent=self.agent.spec.entry,
            seed=self.seed,
            stage="baseline",
            created_at=now,
            updated_at=now,
            dataset_version=self.dataset.version,
            baseline_id=self.baseline.id,
            project=self.identity,
            conditions=content_hash(conditions),
            rules=content_hash(rules),
        )
        stored = self.store.runs.get(run.id)
        goes_on = stored
        if stored is None and not self._by_judge:  # the pairs to label are drawn from all, at first
            goes_on = continued_run(run, self.dataset, self.store, answered=self.answered)
        if only_run is not None and (goes_on or run).id != only_run:
            raise Conflict(
                f"The agent, its tasks or its settings are not those of run {only_run[:12]} any"
                " more, so what that run proved does not hold for them.",
                hint="Undo the change, or let a new run prove it again.",
            )
        if stored is None:
            self.project.keep_dataset(self.dataset, self.store, now)
        if goes_on is None:
            self.store.candidates.put(self.baseline, now)
            self.store.runs.put(run)
            if self.chosen is not None:
                self.store.journal.append(run.id, CHOSEN, self.chosen.choice, now)
            return run
        if stored is None and goes_on.stage == "not_proved":
            added = tasks_to_continue(goes_on, self.dataset, self.store, answered=self.answered)
            if added:
                return self._continued(goes_on, run, added)
        if goes_on.dataset_version != self.dataset.version:
            # Tasks were added to its comparison since, which it keeps.
            self.dataset = self.store.datasets.get(goes_on.dataset_version)
        return goes_on

    def _continued(self, run: Run, instead_of: Run, added: int) -> Run:
        """Continue the comparison of a run that was not proved, with the tasks that were added."""
        self.watcher.message(
            f"{added} test task{'s were' if added > 1 else ' was'} added: the comparison of"
            f" candidate {run.best_id[:8]}, which was not proved, goes on. To learn anew instead:"
            f" ratchet improve --seed {run.seed + 1}."
        )
        note_continuation(run, instead_of, self.store)
        continued = msgspec.structs.replace(
            run,
            stage="prove",
            dataset_version=self.dataset.version,
            earlier_versions=(*run.earlier_versions, run.dataset_version),
            updated_at=time.time(),
        )
        self.store.runs.put(continued)
        return continued

    async def advance(self, ship_it: bool) -> Run:
        """Run the remaining stages."""
        with pulse(self.store, self.run.id, self.watcher):
            return await self._advance(ship_it)

    async def _advance(self, ship_it: bool) -> Run:
        if self.run.stage == "failed":
            if self.run.failed_at == "baseline":
                # The cause of the failures (a service that was down, a missing key) may be fixed by
                # now: failed rollouts are run again.
                again = self._retries(self.run) + 1
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
                self._say_reach()
                check_objective(self.project, self.store, self.evaluators, self.objective)
                await self._trust()
            if ship_it:
                # Checked before anything is spent: a dirty tree would be refused at the end.
                files = [declaration.file for declaration in self.agent.declarations.values()]
                check_clean(self.project.root, [Path(file) for file in files if file])
            if self.run.stage == "baseline":
                await self._dry_run()
            if self.run.stage != "ship":
                async with AsyncExitStack() as stack:
                    if self.run.stage in ("baseline", "learn"):
                        self.coach = await stack.enter_async_context(self._open_coach())
                    runner: RolloutRunner = await stack.enter_async_context(
                        open_runner(
                            self.project,
                            self.store,
                            self.agent,
                            self.run.id,
                            self.watcher.message,
                            take_over=True,
                        )
                    )
                    if self.cap is not None:
                        most, since = self.cap.most, self.cap.since
                        runner = CappedRunner(runner, self.store, self.run.id, most, since)
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
        try:
            await dry_run(algorithm, self._lab_of(DryRunLab, NoRunner(), coach))
        except RatchetError as error:
            if self.cap is None:
                raise
            learning = self.project.config.improve.budget.rollouts
            raise BudgetExhausted(
                error.message,
                hint=f"Learning has {learning} of the {counted(self.cap.most, 'rollout')} that this"
                f" run may take; the proof may take up to {self._proof_rollouts}. Allow more, or"
                " use fewer tasks.",
            ) from None

    def _open_coach(self) -> AbstractAsyncContextManager[ChatClient | None]:
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

    def _retries(self, run: Run) -> int:
        times = 0
        while self.store.journal.get(run.id, f"again/{times + 1:03d}"):
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
                    hint=self._where_answers_go(),
                )
        unanswered = sum(task.expected is None for task in tasks)
        self.watcher.message(
            f"{unanswered} of {len(tasks)} tasks have no expected answer, which"
            f" {self.objective!r} needs: they are left out."
        )

    def _where_answers_go(self) -> str:
        """How tasks get expected answers."""
        tasks = self.project.config.tasks
        if tasks.dataset is None:
            return (
                f'Add "expected" to the tasks in {tasks.file}, or name the field that holds the'
                ' answers, such as expected = "answer" under [tasks].'
            )
        return (
            "Give answers: ratchet feedback --correction and ratchet datasets capture, or a file"
            " and ratchet datasets import."
        )

    def _say_reach(self) -> None:
        """Tell how the tasks are split, and what cannot be proved on them."""
        splits = ", ".join(f"{len(self.dataset.split(split))} {split}" for split in SPLITS)
        if self.dataset.reason and self.project.config.tasks.dataset is None:
            self.watcher.message(
                f"{counted(len(self.dataset.tasks), 'task')}: {splits}. {self.dataset.reason}"
            )
        if self.chosen is not None:
            self.watcher.message(
                level_sentence(next_level(self._setting(self.baseline), self.store))
            )
        for sentence in reach(self._setting(self.baseline), self.store):
            self.watcher.message(sentence)

    async def _baseline(self, runner: RolloutRunner) -> None:
        lab = self._lab(runner)
        val = self._tasks("val")
        self.watcher.expects(len(val))
        self._announce("The baseline", len(val))
        used, before = self._used, lab.spent.dollars
        evaluations = await lab.evaluate(self.baseline, val)
        costs = [evaluation.rollout.cost for evaluation in evaluations]
        judged = lab.spent.dollars - before - total_cost(costs).known_usd
        self.spending.set_price(
            costs,
            max(0.0, judged, self._used - used),
            [run.id for run in earlier_runs(self.run, self.store)],
        )
        require_success([e.rollout for e in evaluations], self.store, "val task")
        check_evaluators(
            self.evaluators, {self.objective, *(g.metric for g in self.guardrails)}, evaluations
        )
        for guardrail in self.guardrails:
            if sentence := never_measured(guardrail.metric, evaluations):
                self.watcher.message(sentence)
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
        self._fix_margin(scores)
        if not self._margin:
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
        if self.agent.prompts_in_calls:
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
        with paid_from(await self.spending.account()):
            trust = await trust_objective(
                self.project,
                self.store,
                self.evaluators,
                self.objective,
                self.dataset,
                self.watcher.message,
            )
        if trust is None:
            return
        trust_entry = {**msgspec.to_builtins(trust), "evaluator": self.objective}
        self.store.journal.append(self.run.id, "trust", trust_entry, time.time())
        self.watcher.message(trust.sentence)

    async def _learn(self, runner: RolloutRunner) -> None:
        await self._trust()
        spent = (await self.spending.account()).cost.known_usd
        dollars, sentence = self.spending.for_learning(self._proof_rollouts, spent)
        if sentence:
            self.watcher.message(sentence)
        most = self.project.config.improve.budget.rollouts or 0
        if dollars is not None and (rollout_usd := self.spending.price()[0]):
            most = min(most or 10**9, int((dollars - spent) / rollout_usd))
        self._announce("Learning, if it runs as many rollouts as it may,", most)
        async with self._lab(runner, dollars) as lab:
            self.watcher.expects(lab.budget.rollouts or 0)
            finding = found = await checked_finding(lab, await self.algorithm.learn(lab))
            await lab.settle()
            ranked = await nominees(lab, finding, self._margin)
        if late := lab.overtime(time.time()):
            self.watcher.message(late)
        best = _candidate(lab, finding, ranked[0].candidate_id) if ranked else self.baseline
        finding = _in_one_measure(msgspec.structs.replace(finding, best=best), lab)
        if lab.coach_gone is not None:
            self._note_coach_gone(lab.coach_gone, finding)
        self.store.candidates.put(finding.best, time.time())
        self.store.journal.append(
            self.run.id,
            "finding",
            {
                "best": finding.best.id,
                "baseline_val": finding.baseline_val,
                "best_val": finding.best_val,
                "val_tasks": finding.val_tasks,
                "nominees": msgspec.to_builtins(ranked),
                "all_rollouts": self._rollouts_so_far,
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
            message = _not_reached(found, lab) if self._margin else _nothing_found(finding)
            self._enter("no_gain", best_id=finding.best.id, message=message)
        else:
            self._enter("prove", best_id=finding.best.id)

    async def _prove(self, runner: RolloutRunner) -> None:
        candidate = self.store.candidates.get(self.run.best_id)
        await self._trust()  # journaled, unless the run began before there were report cards

        account = await self.spending.account()

        async def repetitions(plan: ExperimentPlan) -> RepetitionPlan:
            chosen = await self._repetitions(runner, candidate, plan)
            pilot = (await self.spending.account()).cost.known_usd - account.cost.known_usd
            account.add([Cost(known_usd=max(0.0, pilot))])
            return chosen

        self.watcher.expects(2 * len(self._tasks("test")))
        self._announce("The proof, if it runs every test task once,", 2 * len(self._tasks("test")))
        with paid_from(account):
            experiment = await run_experiment(
                self._setting(candidate),
                store=self.store,
                runner=PaidRunner(runner, account, self.store),
                scorer=self._scorer(),
                evidence_dir=self.project.state / "evidence",
                watcher=self.watcher,
                plan_repetitions=repetitions,
                trust=self.store.journal.get(self.run.id, "trust"),
                learned=self._learned(candidate),
            )
        decided = experiment.decision
        if decided is None:
            self._withhold(experiment)
            return
        self.watcher.decided(decided, experiment.evidence_path)
        if decided.verdict not in ("promote", "not_proved", "unconfirmed"):
            following = await self._following(candidate)
            if following is not None:
                self._enter("prove", best_id=following.candidate_id)
                return
        self._enter(
            {"promote": "ship", "not_proved": "not_proved"}.get(decided.verdict, "no_gain"),
            experiment_id=experiment.id,
            message=self._told(decided),
        )

    def _learned(self, candidate: Candidate) -> float | None:
        """A candidate's gain as learning saw it; None for one that a person chose."""
        if self.chosen is not None:
            return None
        finding = self.store.journal.get(self.run.id, "finding") or {}
        ranked = msgspec.convert(finding.get("nominees", []), list[Nominee])
        return next((n.gain for n in ranked if n.candidate_id == candidate.id), 0.0)

    async def _following(self, failed: Candidate) -> Nominee | None:
        """The candidate that goes to the proof after one that failed there, if the budget lasts."""
        if self._by_judge:
            return None  # people's labels were asked for one candidate
        finding = self.store.journal.get(self.run.id, "finding") or {}
        repetitions = self.store.journal.get(self.run.id, "repetitions", {"count": 1})["count"]
        most = repetitions * len(self._tasks("test"))  # the source's rollouts are there already
        if self.cap is not None and self._rollouts_so_far + most > self.cap.most:
            return None
        left, (rollout_usd, _) = (await self.spending.account()).left, self.spending.price()
        if self.spending.dollars is not None and most * rollout_usd > left:
            return None
        return next_nominee(
            finding,
            failed.id,
            spent=self._rollouts_so_far - finding.get("all_rollouts", 0),
            shortest_proof=min(most, repetitions * self.project.config.prove.min_pairs),
        )

    @property
    def _rollouts_so_far(self) -> int:
        return sum(self.store.rollouts.counts(queue=self.run.id).values())

    def _told(self, decision: Decision) -> str:
        """How the run ends: the decision, and that learning lost its coach if it did."""
        gone = self.store.journal.get(self.run.id, COACH_GONE)
        without = f" It was found without the coach: {gone['message']}" if gone else ""
        return decision.sentence + without

    def _withhold(self, experiment: Experiment) -> None:
        """Note which pairs people have to label, and stop before the decision."""
        repetitions = self.store.journal.get(self.run.id, "repetitions", {"count": 1})["count"]
        setting = self._setting(self.store.candidates.get(self.run.best_id))
        body = pairs_to_label(setting, repetitions, self.store)
        self.store.journal.append(self.run.id, LABELS, body, time.time())
        self.waits = True
        self._enter(
            "prove",
            experiment_id=experiment.id,
            message=f"The decision waits for labels: ratchet label --experiment"
            f" {experiment.id[:8]}.",
        )

    async def _repetitions(
        self, runner: RolloutRunner, candidate: Candidate, plan: ExperimentPlan
    ) -> RepetitionPlan:
        """How often each test task is run; journaled, so that a resumed run does not change it."""
        stored_plan = self.store.journal.get(self.run.id, "repetitions")
        if stored_plan is None:
            wanted = self.project.config.prove.repetitions
            async with self._lab(runner, rollouts=self._left_for_proof()) as lab:
                _, judged = self.spending.price()
                left = (await self.spending.account()).left
                chosen = await plan_repetitions(
                    plan,
                    wanted,
                    lab=lab,
                    candidate=candidate,
                    dollars=None if self.spending.dollars is None else left,
                    judged_usd=judged,
                )
            body = {"count": chosen.count, "reason": chosen.reason}
            stored_plan = self.store.journal.append(self.run.id, "repetitions", body, time.time())
        return msgspec.convert(stored_plan, RepetitionPlan)

    def _left_for_proof(self) -> int | None:
        """Rollouts that the cap leaves to the proof after its pilot; None without a cap."""
        if self.cap is None:
            return None
        spent = sum(self.store.rollouts.counts(queue=self.run.id).values())
        return max(1, self.cap.most - spent - min(PILOT_TASKS, len(self._tasks("val"))))

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
            **text_options(self.project, self.store, self.run, experiment.id, self.dataset),
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
        names, declared = candidate.changed_from(self.baseline), self.agent.declarations
        in_calls = [name for name in names if declared[name].located_by == "text"]
        if not in_calls:
            return {}
        reasons: dict[str, str] = {}
        root = repository_of(self.project.root)
        for name in in_calls:
            text = literal_text(self.baseline.resources[name])
            assert text is not None
            search = find_literal(root, text)
            if not search.patchable:
                is_model = isinstance(self.baseline.resources[name], Model)
                what = f"the model's name, {text.text}" if is_model else "the prompt"
                reasons[name] = search.sentence(what)
        if not reasons:
            try:
                make_patch(self.baseline, candidate, declared, root)
            except ShipError as error:
                reasons = dict.fromkeys(names, " ".join(filter(None, (error.message, error.hint))))
        return reasons

    def _released(self, release: Release, decision: Decision) -> Release:
        self.store.releases.put(release)
        self.watcher.released(release)
        self._enter("shipped", release_id=release.id, message=self._told(decision))
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

    WITH_RUNNER: ClassVar[dict[str, Callable[[Any, RolloutRunner], Awaitable[None]]]] = {
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
            min_gain=0.0 if self._margin else config.prove.min_gain,
            margin=self._margin,
            harm_alpha=config.prove.harm_alpha,
            futility_alpha=config.prove.futility_alpha,
            min_pairs=config.prove.min_pairs,
            guardrails=self.guardrails,
            widened=self.project.unchosen_margins(self.guardrails),
            minimised=config.objective.minimise or "",
            max_attempts=self.project.local_attempts,
            queue=self.run.id,
            labels=config.prove.labels if self._by_judge else 0,
            frozen=self.frozen_sets,
        )

    @property
    def _margin(self) -> float:
        """How much lower a candidate may score that saves something; 0 where it has to be better.

        Fixed once the baseline's scores are known, before learning begins.
        """
        fixed: Any = self.store.journal.get(self.run.id, MARGIN)
        return float(fixed["margin"]) if fixed else 0.0

    @property
    def _seeks_no_worse(self) -> bool:
        """Whether candidates save something, and have to be proved no worse in place of better."""
        return self._is_no_worse(self.algorithm)

    @staticmethod
    def _is_no_worse(algorithm: Any) -> bool:
        return getattr(algorithm, "goal", "better") == "not worse"

    def _fix_margin(self, scores: Sequence[float]) -> None:
        """Fix the margin of an algorithm that looks for what is no worse, and tell it."""
        if not self._seeks_no_worse:
            return
        chosen: float | None = getattr(self.algorithm, "margin", None)
        tasks = len(self._tasks("test"))
        if chosen is None:
            # As if half of the spread of the scores were common to both candidates.
            alpha = next_level(self._setting(self.baseline), self.store)
            margin = provable_margin(alpha, tasks, variance(scores))
            why = (
                f"the tightest margin that {counted(tasks, 'test task')} can likely prove, as the"
                " val scores spread"
            )
        else:
            margin, why = chosen, "the margin that was set"
        self.store.journal.append(self.run.id, MARGIN, {"margin": margin}, time.time())
        self.watcher.message(
            f"A candidate ships if it is proved to score at most {margin:g} lower: {why}."
        )

    @property
    def _by_judge(self) -> bool:
        """Whether the objective is a judge's score."""
        return any(
            e.name == self.objective and getattr(e, "is_judge", False) for e in self.evaluators
        )

    def _scorer(self) -> Scorer:
        return Scorer(self.store, self.evaluators)

    def _lab_settings(self, run: Run) -> LabSettings:
        return LabSettings(
            run_id=run.id,
            stage=LEARN,
            queue=run.id,
            objective=self.objective,
            seed=run.seed,
            max_attempts=self.project.local_attempts,
            again=self._retries(run),
        )

    @property
    def _used(self) -> float:
        """Dollars of the judges' answers that scores of this process rest on, kept ones too."""
        used = [getattr(evaluator, "used", Cost()) for evaluator in self.evaluators]
        return total_cost(used).known_usd

    @property
    def _proof_rollouts(self) -> int:
        """Number of rollouts of the proof, each test task run as often as it has to be."""
        repetitions = self.project.config.prove.repetitions
        times = repetitions if isinstance(repetitions, int) else 1
        pairs = times * len(self._tasks("test"))
        return 2 * (pairs + self._frozen_draws(pairs))

    def _frozen_draws(self, pairs: int) -> int:
        """Most draws of frozen sets in a proof of so many pairs."""
        stream = stream_of(self.identity, self.agent.spec.entry, self.objective)
        return planned_draws(
            self.frozen_sets,
            alpha=level(self.project.config.prove.alpha, self.store.experiments.promotions(stream)),
            answered=self.answered,
            draws=pairs,
        )

    def _announce(self, step: str, rollouts: int) -> None:
        """Tell how many model calls the judges of a step make, if they are many."""
        functions = [
            evaluator for evaluator in self.evaluators if isinstance(evaluator, FunctionEvaluator)
        ]
        asking = [function for function in functions if function.calls_per_score]
        calls = sum(function.calls_per_score for function in asking)
        if not calls:
            return
        _, judged = self.spending.price()
        each_usd: float | None = judged / calls
        if not judged:
            task = self._tasks("val")[0]
            answered = Rollout.of(
                task, "", scope=(), seed_parts=(), queue="", purpose="", max_attempts=1
            )
            answered = msgspec.structs.replace(answered, output=task.expected)
            bounds = [function.most_usd(answered) for function in asking]
            known_bounds = [bound for bound in bounds if bound is not None]
            each_usd = max(known_bounds) if len(known_bounds) == len(bounds) else None
        sentence = announced(
            f"{step} judged by a model,", calls * rollouts, each_usd, at_most=not judged
        )
        if sentence:
            self.watcher.message(sentence)

    def _note_coach_gone(self, error: CoachUnavailable, finding: Finding) -> None:
        """Keep that learning lost its coach.

        Raises:
            CoachUnavailable: Nothing better was found without it.
        """
        if finding.best.id == self.baseline.id:
            raise CoachUnavailable(
                f"{error.message} Nothing better was found without it. {finding.sentence}",
                hint=error.hint,
            )
        body = {"message": error.message, "hint": error.hint}
        self.store.journal.append(self.run.id, COACH_GONE, body, time.time())
        self.watcher.message(f"{error.message} What was found without it goes on to the proof.")

    def _lab(
        self, runner: RolloutRunner, dollars: float | None = None, rollouts: int | None = None
    ) -> Lab:
        lab = self._lab_of(Lab, runner, self.coach, dollars, rollouts)
        lab.count_spent(self.spending.outside_labs())
        return lab

    def _lab_of(
        self,
        kind: type[L],
        runner: RolloutRunner,
        coach: Any,
        dollars: float | None = None,
        rollouts: int | None = None,
    ) -> L:
        budget = self.project.config.improve.budget
        checks = make_checks(self.project, self.agent, self.baseline, self.watcher.message)
        earlier = earlier_runs(self.run, self.store)
        return kind(
            msgspec.structs.replace(
                self._lab_settings(self.run),
                earlier=tuple(self._lab_settings(run) for run in earlier),
            ),
            baseline=self.baseline,
            train=self._tasks("train"),
            val=self._tasks("val"),
            runner=runner,
            scorer=self._scorer(),
            store=self.store,
            budget=Budget(
                rollouts=budget.rollouts if rollouts is None else rollouts,
                seconds=budget.seconds,
                coach_calls=budget.coach_calls,
                dollars=budget.dollars if dollars is None else dollars,
            ),
            record=self.spending.record,
            coach=coach,
            checks=checks,
            tests=checks.test,
            on_rollout=self.watcher.rollout,
            on_proposal=self.watcher.proposal,
            on_note=self.watcher.message,
            redactor=self.project.redactor(),
            guidelines=self.project.config.coach.guidelines,
        )


def _trained(baseline: Candidate, candidate: Candidate) -> dict[str, Adapter]:
    """The adapters of a candidate that the baseline has not, by name of the model."""
    changed = {name: candidate.resources[name] for name in candidate.changed_from(baseline)}
    return {
        name: model.adapter
        for name, model in changed.items()
        if isinstance(model, Model) and model.adapter is not None
    }


def _candidate(lab: Lab, finding: Finding, candidate_id: str) -> Candidate:
    tried = {candidate.id: candidate for candidate in (*lab.tried, finding.best)}
    return tried[candidate_id]


def _in_one_measure(finding: Finding, lab: Lab) -> Finding:
    """The finding with both means over the val tasks that both candidates ran: all, for the
    baseline itself.
    """
    pairs = lab.compared("finding", lab.baseline, finding.best)
    if not pairs:
        return finding
    before, after = (math.fsum(values) / len(pairs) for values in zip(*pairs, strict=True))
    return msgspec.structs.replace(
        finding, baseline_val=before, best_val=after, val_tasks=len(pairs)
    )


def _not_reached(found: Finding, lab: Lab) -> str:
    """Why nothing goes to the proof of being no worse."""
    if found.best.id == lab.baseline.id:
        return f"Nothing goes to the proof. {found.sentence}"
    tasks = [*lab.train, *lab.val]
    pairs = lab.compared("not reached", lab.baseline, found.best, tasks=tasks)
    gain = math.fsum(after - before for before, after in pairs) / len(pairs)
    return (
        f"Not reached: the best candidate scores {gain:+.3f} on {counted(len(pairs), 'task')} of"
        f" learning, so none went to the proof. {found.sentence}"
    )


def _nothing_found(finding: Finding) -> str:
    if finding.sentence == NOTHING_TO_LEARN:
        return finding.sentence
    return (
        "There is no significant gain: no candidate is likely to beat the baseline, which scores"
        f" {finding.baseline_val:.3f} on {counted(finding.val_tasks, 'val task')}, so none went to"
        f" the proof. {finding.sentence}"
    )
