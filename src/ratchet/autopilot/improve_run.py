"""What all stages of a run share: its agent, tasks, objective, algorithm and account."""

from __future__ import annotations

import time
from typing import Any, TypeVar

import msgspec

from ratchet.autopilot.algorithms import make_algorithm, weights_arms
from ratchet.autopilot.checks import make_checks
from ratchet.autopilot.chosen_candidate import (
    ChosenCandidate,
    ProofWanted,
    chosen_candidate,
    named_candidate,
)
from ratchet.autopilot.code_sandbox import release_tests
from ratchet.autopilot.earlier_runs import earlier_runs
from ratchet.autopilot.experiment import ExperimentSettings, stream_of
from ratchet.autopilot.frozen_guards import planned_draws
from ratchet.autopilot.guardrails import guardrails_of, unchosen_margins
from ratchet.autopilot.models_in_calls import adopt_models
from ratchet.autopilot.project import Project
from ratchet.autopilot.project_evaluators import objective_of, project_evaluators
from ratchet.autopilot.run_spending import RolloutCap, RunSpending, announced
from ratchet.autopilot.trainable import TrainableModel
from ratchet.autopilot.watcher import Watcher
from ratchet.autopilot.weights_algorithm import WeightsAlgorithm
from ratchet.evaluate import Evaluator, FunctionEvaluator, Scorer
from ratchet.learn import Algorithm, Budget, Lab, LabSettings
from ratchet.learn.auto import Auto
from ratchet.llm import ChatClient
from ratchet.prove import Guardrail, level
from ratchet.run.paid import RolloutRunner
from ratchet.run.program import AnyAgent
from ratchet.store import Store
from ratchet.types import (
    Candidate,
    Cost,
    Dataset,
    InputError,
    Rollout,
    Run,
    Split,
    Task,
    total_cost,
)
from ratchet.types.wording import counted

L = TypeVar("L", bound=Lab)

MARGIN_KEY = "margin"
"""Key in a run's journal of how much lower a candidate may score."""

UNGUARDED_KEY = "unguarded"
"""Key in a run's journal of the metrics without a guardrail, since they cannot be measured."""

LEARN = "learn"
"""Prefix of the purpose of learning's rollouts."""


class ImproveRun:
    """One run in progress.

    Args:
        project: The project.
        store: Its store.
        watcher: Receives progress events.
        agent: The project's agent.
        dataset: Its tasks.
        seed: Seed of the search and of the order of pairs; the configuration's by default.
        cap: Rollouts that the command may take; None for as many as the budget allows.
        chosen: What a person chose to have proved; None to learn.
    """

    run: Run
    spending: RunSpending

    def __init__(
        self,
        project: Project,
        store: Store,
        watcher: Watcher,
        agent: AnyAgent,
        dataset: Dataset,
        seed: int | None,
        cap: RolloutCap | None,
        chosen: ProofWanted | None,
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
        self.evaluators: tuple[Evaluator, ...] = project_evaluators(project)
        self.objective = objective_of(project.config, self.evaluators, self.agent)
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
        self.configured_guardrails = guardrails_of(project.config, self.evaluators)
        self.algorithm = self.make_algorithm()
        self.seed = project.config.improve.seed if seed is None else seed
        release_tests(project)  # refused before anything is spent
        self.coach: ChatClient | None = None
        self.waits = False
        """Whether the decision waits for people's labels."""

    def take_up(self, run: Run) -> None:
        """Begin a run, or continue it."""
        self.run = run
        dollars = self.project.config.improve.budget.dollars
        self.spending = RunSpending(self.store, run.id, dollars)

    def _capped(self, cap: RolloutCap) -> Project:
        """The project with what the cap leaves to learning, once the proof has its part."""
        proof, val = self.proof_rollouts, len(self.tasks("val"))
        learning = cap.for_learning(proof)
        if learning <= val:
            raise InputError(
                f"{counted(cap.most, 'rollout')} cannot cover the baseline, of"
                f" {counted(val, 'rollout')}, learning, and a proof of up to {proof}.",
                hint=f"Allow at least {min(proof + val + 1, 2 * val + 2)} rollouts;"
                f" {proof + 3 * val} or more are better.",
            )
        if learning + proof > cap.most:
            self.watcher.message(
                f"Of {counted(cap.most, 'rollout')}, {cap.most - learning} are left for the proof,"
                f" which can take up to {proof}: it may end undecided."
            )
        config = self.project.config
        budget = config.improve.budget
        rollouts = min(learning, budget.rollouts or learning)
        budget = budget.model_copy(update={"rollouts": rollouts})
        learning_section = config.improve.model_copy(update={"budget": budget})
        return self.project.with_config(config.model_copy(update={"improve": learning_section}))

    def make_algorithm(self) -> Algorithm:
        """The configured algorithm, or the choice of a person."""
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

    def tasks(self, split: Split) -> tuple[Task, ...]:
        """The tasks of a split that the objective can score."""
        return self.dataset.split(split, answered=self.answered)

    def enter(self, stage: Any, **changes: str) -> None:
        """Record the stage that the run is in."""
        self.run = msgspec.structs.replace(self.run, stage=stage, updated_at=time.time(), **changes)
        self.store.runs.put(self.run)

    def setting(self, candidate: Candidate) -> ExperimentSettings:
        """The experiment of a candidate against the baseline."""
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
            min_gain=0.0 if self.margin else config.prove.min_gain,
            margin=self.margin,
            harm_alpha=config.prove.harm_alpha,
            futility_alpha=config.prove.futility_alpha,
            min_pairs=config.prove.min_pairs,
            guardrails=self.guardrails,
            widened=self.unchosen,
            minimised=config.objective.minimise or "",
            max_attempts=self.project.local_attempts,
            queue=self.run.id,
            labels=config.prove.labels if self.by_judge else 0,
            frozen=self.frozen_sets,
        )

    @property
    def unchosen(self) -> frozenset[str]:
        """The metrics of guardrails that apply by default."""
        return unchosen_margins(self.project.config, self.configured_guardrails)

    @property
    def guardrails(self) -> tuple[Guardrail, ...]:
        """The guardrails of the proof, without default ones that no baseline rollout measured.

        Fixed once the baseline has run, before learning begins.
        """
        fixed: Any = self.store.journal.get(self.run.id, UNGUARDED_KEY) or {"metrics": []}
        return tuple(
            guardrail
            for guardrail in self.configured_guardrails
            if guardrail.metric not in fixed["metrics"]
        )

    @property
    def margin(self) -> float:
        """How much lower a candidate may score that saves something; 0 where it has to be better.

        Fixed once the baseline's scores are known, before learning begins.
        """
        fixed: Any = self.store.journal.get(self.run.id, MARGIN_KEY)
        return float(fixed["margin"]) if fixed else 0.0

    @property
    def seeks_no_worse(self) -> bool:
        """Whether candidates save something, and so have to be proved no worse, not better."""
        return self._is_no_worse(self.algorithm)

    @staticmethod
    def _is_no_worse(algorithm: Any) -> bool:
        return getattr(algorithm, "goal", "better") == "not worse"

    @property
    def by_judge(self) -> bool:
        """Whether the objective is a judge's score."""
        return any(
            e.name == self.objective and getattr(e, "is_judge", False) for e in self.evaluators
        )

    def retries(self, run: Run) -> int:
        """How often a run began again since its agent had failed on every task."""
        times = 0
        while self.store.journal.get(run.id, f"again/{times + 1:03d}"):
            times += 1
        return times

    @property
    def rollouts_so_far(self) -> int:
        """Rollouts of the run in all its stages."""
        return sum(self.store.rollouts.counts(queue=self.run.id).values())

    @property
    def judges_used(self) -> float:
        """Dollars of the judges' answers that scores of this process rest on, kept ones too."""
        used = [getattr(evaluator, "used", Cost()) for evaluator in self.evaluators]
        return total_cost(used).known_usd

    @property
    def proof_rollouts(self) -> int:
        """Number of rollouts of the proof; an automatic number of repetitions counts as one."""
        repetitions = self.project.config.prove.repetitions
        times = repetitions if isinstance(repetitions, int) else 1
        pairs = times * len(self.tasks("test"))
        return 2 * (pairs + self._frozen_draws(pairs))

    def _frozen_draws(self, pairs: int) -> int:
        """Maximum number of draws of frozen sets in a proof of that many pairs."""
        stream = stream_of(self.identity, self.agent.spec.entry, self.objective)
        return planned_draws(
            self.frozen_sets,
            alpha=level(self.project.config.prove.alpha, self.store.experiments.promotions(stream)),
            answered=self.answered,
            draws=pairs,
        )

    def announce(self, step: str, rollouts: int) -> None:
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
            task = self.tasks("val")[0]
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

    def _lab_settings(self, run: Run) -> LabSettings:
        return LabSettings(
            run_id=run.id,
            stage=LEARN,
            queue=run.id,
            objective=self.objective,
            seed=run.seed,
            max_attempts=self.project.local_attempts,
            again=self.retries(run),
        )

    def lab(
        self, runner: RolloutRunner, dollars: float | None = None, rollouts: int | None = None
    ) -> Lab:
        """A lab with the run's coach and account, whose budget may be lower."""
        lab = self.lab_of(Lab, runner, self.coach, dollars, rollouts)
        lab.count_spent(self.spending.outside_labs())
        return lab

    def lab_of(
        self,
        kind: type[L],
        runner: RolloutRunner,
        coach: Any,
        dollars: float | None = None,
        rollouts: int | None = None,
    ) -> L:
        """A lab of some kind, with the run's tasks, checks and budget."""
        budget = self.project.config.improve.budget
        checks = make_checks(self.project, self.agent, self.baseline, self.watcher.message)
        earlier = earlier_runs(self.run, self.store)
        return kind(
            msgspec.structs.replace(
                self._lab_settings(self.run),
                earlier=tuple(self._lab_settings(run) for run in earlier),
            ),
            baseline=self.baseline,
            train=self.tasks("train"),
            val=self.tasks("val"),
            runner=runner,
            scorer=Scorer(self.store, self.evaluators),
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
            listener=self.watcher,
            redactor=self.project.redactor(),
            guidelines=self.project.config.coach.guidelines,
        )
