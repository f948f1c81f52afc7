"""Fitting: improve an agent given as an object, without a project.

The API follows Agent Lightning's trainer, so that its users only change an import. It uses the same
lab, runner, journal and store as `ratchet improve`: a killed `fit` resumes when the same program is
started again.
"""

from __future__ import annotations

import asyncio
import copy
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ratchet._version import __version__
from ratchet.autopilot.agent_model import in_thread
from ratchet.autopilot.coach import open_coach, uses_coach
from ratchet.autopilot.dry_run import DryRunLab, NoRunner, dry_run
from ratchet.autopilot.learning_sections import CoachSection
from ratchet.autopilot.trainable import ServedModel
from ratchet.autopilot.training.agents import trainable
from ratchet.autopilot.training.items import Items
from ratchet.autopilot.training.progress import StderrProgress
from ratchet.autopilot.training.trained_model import GatewayExecutor, ModelInTraining, ModelToTrain
from ratchet.autopilot.watcher import Watcher
from ratchet.autopilot.weights_algorithm import WeightsAlgorithm
from ratchet.client import AsyncClient
from ratchet.evaluate import Scorer
from ratchet.learn import Algorithm, Budget, Lab, LabSettings, mean
from ratchet.llm.hosted_model import HOSTED_MODEL
from ratchet.observe.project_paths import prepare_state, store_url
from ratchet.observe.redaction import RedactionRules, Redactor
from ratchet.run import FileLock, Runner, ServerTransport
from ratchet.run.runner import requeue
from ratchet.store import Store
from ratchet.types import (
    AgentError,
    Candidate,
    Code,
    InputError,
    PromptTemplate,
    Resource,
    content_hash,
    defaults,
)
from ratchet.worker.agent import Agent
from ratchet.worker.inprocess import AsyncExecutor

OBJECTIVE = "reward"
"""The objective: the reward that the agent returns or emits."""

T = TypeVar("T")
L = TypeVar("L", bound=Lab)

N_RUNNERS = 8
TIMEOUT_S = 120.0
ATTEMPTS = 2
DEV_TASKS = 5

_IDENTITY_TYPES = (str, int, float, bool, tuple, list, dict, type(None), msgspec.Struct)
"""Types of options whose `repr` identifies the value; that of others may hold a memory address."""


class Trained(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a fit."""

    best: dict[str, Resource]
    """The best candidate's resources by name; the initial ones when none was better."""
    baseline_val: float
    """Mean reward of the initial resources on val."""
    best_val: float
    """Mean reward of the best candidate on val."""
    candidate_id: str
    run_id: str
    rollouts: int
    coach_calls: int
    dollars: float | None
    """Cost of rollouts and coach calls; None when a call's price is unknown."""
    sentence: str
    """What was done and why it ended."""


class FittingTrainer(ABC):
    """The trainer without the server that training of weights needs; see `ratchet.Trainer`."""

    def __init__(
        self,
        *,
        algorithm: Algorithm | None = None,
        n_runners: int | None = None,
        initial_resources: Mapping[str, Resource | str] | None = None,
        max_rollouts: int | None = None,
        budget: Budget | None = None,
        coach: Any = None,
        seed: int = 0,
        timeout_s: float = TIMEOUT_S,
        store: str = "file",
        progress: bool = True,
        n_workers: int | None = None,
        unsafe_code: bool = False,
        device: str = "cpu",
        dtype: str = "float32",
    ) -> None:
        runners = n_runners if n_runners is not None else n_workers
        for name, value in (("n_runners", runners), ("max_rollouts", max_rollouts)):
            if value is not None and not (type(value) is int and value >= 1):
                raise InputError(
                    f"Trainer({name}={value!r}): must be a whole number of at least 1."
                )
        if budget is not None and max_rollouts is not None:
            raise InputError("Trainer takes max_rollouts or a budget, not both.")
        if algorithm is not None and not hasattr(algorithm, "learn"):
            raise InputError(
                f"Trainer(algorithm={algorithm!r}) is not an algorithm.",
                hint=f'For instance algorithm=ratchet.APO(model="{HOSTED_MODEL}").',
            )
        self._algorithm = algorithm
        self._n_runners = runners or N_RUNNERS
        self._initial = _resources(initial_resources)
        self._budget = budget or Budget(rollouts=max_rollouts)
        self._coach = coach
        self._seed = seed
        self._timeout_s = timeout_s
        self._store = store
        self._unsafe_code = unsafe_code
        self._device, self._dtype = device, dtype
        self._progress: Watcher = StderrProgress() if progress else Watcher()

    def fit(self, agent: Any, train_dataset: Any, val_dataset: Any = None) -> Trained:
        """Learn on train, select by val.

        Args:
            agent: A function `(task, resource…) -> reward`, sync or async, or a LitAgent.
            train_dataset: Tasks to learn from: a list, or anything with items.
            val_dataset: Tasks to select by; a third of train by default.

        Raises:
            InputError: The agent, the resources or the datasets cannot be used.
            AgentError: The agent failed on every val task.
            BudgetExhausted: The budget is too small for one step; nothing was spent.
            CoachUnavailable: The algorithm's coach does not answer.
            Conflict: The same fit is already running.
        """
        return _run(self.fit_async(agent, train_dataset, val_dataset))

    async def fit_async(self, agent: Any, train_dataset: Any, val_dataset: Any = None) -> Trained:
        """Async form of `fit`, for programs with an event loop."""
        algorithm = self._algorithm
        if algorithm is None:
            raise InputError(
                "The trainer has no algorithm.",
                hint=f'Trainer(algorithm=ratchet.APO(model="{HOSTED_MODEL}"), …)',
            )
        items = Items(train_dataset, val_dataset, seed=self._seed)
        async with AsyncExitStack() as stack:
            work = await self._begin(stack, agent, items, _algorithm_identity(algorithm))
            algorithm = work.weights or algorithm
            await self._dry_run(algorithm, work, items)
            coach = self._coach
            if coach is None:
                coach = await stack.enter_async_context(
                    open_coach(
                        CoachSection(),
                        algorithm,
                        store=work.store,
                        run_id=work.run_id,
                        seed=self._seed,
                        redactor=Redactor(RedactionRules()),
                        say=self._progress.message,
                    )
                )
            lab = await stack.enter_async_context(self._lab(work, items, coach))
            try:
                await _mean_of(lab, lab.val[:DEV_TASKS], "val")  # before a coach call is paid for
            except AgentError:
                # The cause of the failures may be fixed by then: the next fit runs them again.
                key = f"again/{work.again + 1:03d}"
                work.store.journal.append(work.run_id, key, True, time.time())
                raise
            finding = await algorithm.learn(lab)
            await lab.coach.settle()
        self._progress.found(finding)
        return Trained(
            best=dict(finding.best.resources),
            baseline_val=finding.baseline_val,
            best_val=finding.best_val,
            candidate_id=finding.best.id,
            run_id=work.run_id,
            rollouts=lab.spent.rollouts,
            coach_calls=lab.spent.coach_calls,
            dollars=lab.spent.cost.usd,
            sentence=finding.sentence,
        )

    def dev(
        self, agent: Any, train_dataset: Any, val_dataset: Any = None, *, tasks: int = DEV_TASKS
    ) -> float:
        """Run the agent on a few train tasks, without learning.

        Returns:
            Its mean reward.

        Raises:
            AgentError: It failed on all of them; the message shows the first error.
        """
        return _run(self._dev(agent, train_dataset, val_dataset, tasks))

    async def _dev(self, agent: Any, train: Any, val: Any, tasks: int) -> float:
        items = Items(train, val, seed=self._seed)
        async with AsyncExitStack() as stack:
            # Not part of a fit: the next fit runs the agent again.
            work = await self._begin(stack, agent, items, ["dev", time.time()])
            lab = self._lab(work, items, None)
            return await _mean_of(lab, lab.train[:tasks], "train")

    async def _begin(
        self, stack: AsyncExitStack, agent: Any, items: Items, identity: Any
    ) -> _Opened:
        store, url, state = self._open_store(stack)
        # Load the agent before reading the resources, because its source may declare some.
        loaded, baseline = self._agent(agent, items)
        trained = await asyncio.to_thread(self._model_to_train, baseline)
        if trained is not None:
            baseline = trained.baseline
        targets = self._targets(baseline)
        dataset = items.dataset
        run_id = content_hash(
            [
                "trainer",
                loaded.spec.entry,
                loaded.source_version(),
                baseline.id,
                targets,
                dataset.version,
                identity,
                trained.fingerprint if trained else "",
                msgspec.to_builtins(self._budget),
                __version__,
                self._seed,
            ]
        )
        lock = FileLock(state / "locks" / f"trainer-{run_id[:24]}.lock", "This fit")
        stack.enter_context(lock)
        now = time.time()
        store.candidates.put(baseline, now)
        store.datasets.put(dataset, now)
        opened = _Opened(run_id, store, baseline, targets)
        slots, timeout_s = self._n_runners, self._timeout_s
        if trained is None:
            executor = AsyncExecutor(loaded, slots=slots, timeout_s=timeout_s)
            runner = Runner(store, run_id, executor)
            await asyncio.to_thread(runner.recover)
        else:
            served = trained.open(state, self._progress.message)
            model = await stack.enter_async_context(in_thread(served))
            opened.weights = trained.by(model)
            server = await stack.enter_async_context(self._gateway(url, model))
            client = await stack.enter_async_context(AsyncClient(server))
            executor = GatewayExecutor(loaded, slots=slots, timeout_s=timeout_s, server=server)
            # The server stores an attempt's model calls before it accepts its outcome.
            runner = Runner(ServerTransport(client), run_id, executor)
            await asyncio.to_thread(requeue, store, run_id, runner.name)
        opened.runner = await stack.enter_async_context(runner)
        return opened

    def _model_to_train(self, baseline: Candidate) -> ModelInTraining | None:
        """The model that the algorithm trains, if it trains one."""
        if isinstance(self._algorithm, WeightsAlgorithm):
            return ModelToTrain(baseline, self._algorithm, self._device, self._dtype)
        return None

    @abstractmethod
    def _gateway(self, store_url: str, model: ServedModel) -> AbstractAsyncContextManager[str]:
        """Serve the gateway of a model that is trained, on a store; yields the server's URL."""

    async def _dry_run(self, algorithm: Algorithm, work: _Opened, items: Items) -> None:
        """Let the algorithm refuse now what it would refuse after the agent has run."""
        if not type(algorithm).__module__.startswith("ratchet."):
            return  # a user's own algorithm may do anything before its first request
        calls_coach = self._coach is not None or uses_coach(CoachSection(), algorithm)
        lab = self._lab_of(DryRunLab, work, items, NoRunner() if calls_coach else None)
        await dry_run(copy.copy(algorithm), lab)

    def _targets(self, baseline: Candidate) -> list[str]:
        """Names of the resources that may change."""
        code = [name for name, r in baseline.resources.items() if isinstance(r, Code)]
        if not code or self._unsafe_code:
            return list(baseline.resources)
        names = ", ".join(map(repr, code))
        if len(code) == len(baseline.resources):
            raise InputError(
                f"There is only code to improve ({names}), and Trainer runs candidates in the"
                " program's own process, where their code could do anything.",
                hint="Use a project, which runs them in a sandbox (ratchet improve), or pass"
                " Trainer(unsafe_code=True).",
            )
        self._progress.message(
            f"{names} stays unchanged: Trainer has no sandbox for code. A project has one; see"
            " ratchet improve."
        )
        return [name for name in baseline.resources if name not in code]

    def _agent(self, agent: Any, items: Items) -> tuple[Agent, Candidate]:
        if self._initial:
            resources = dict(self._initial)
            loaded = trainable(agent, resources, items)
        else:
            loaded = trainable(agent, {}, items)
            resources = defaults(loaded.declarations)
        if not resources:
            raise InputError(
                "There is nothing to improve: initial_resources is empty, and the agent's source"
                " declares no resource.",
                hint='Trainer(initial_resources={"prompt_template": "You are …"}, …)',
            )
        return loaded, Candidate.of(resources, reason="The initial resources.")

    def _open_store(self, stack: AsyncExitStack) -> tuple[Store, str, Path]:
        if self._store == "memory":
            if isinstance(self._algorithm, WeightsAlgorithm):
                raise InputError(
                    f'store="memory" keeps nothing, but {self._algorithm.name} trains'
                    " weights, which must be kept.",
                    hint='Use store="file"; they are kept in ./.ratchet/adapters.',
                )
            state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ratchet-")))
            url = f"sqlite:///{state / 'ratchet.db'}"
        else:
            state = prepare_state(Path.cwd())
            url = store_url(Path.cwd(), None) if self._store == "file" else self._store
        return stack.enter_context(Store.open(url)), url, state

    def _lab(self, work: _Opened, items: Items, coach: Any) -> Lab:
        return self._lab_of(Lab, work, items, coach)

    def _lab_of(self, kind: type[L], work: _Opened, items: Items, coach: Any) -> L:
        return kind(
            LabSettings(
                run_id=work.run_id,
                stage="learn",
                queue=work.run_id,
                objective=OBJECTIVE,
                seed=self._seed,
                max_attempts=ATTEMPTS,
                again=work.again,
            ),
            baseline=work.baseline,
            train=items.train,
            val=items.val,
            runner=work.runner,
            scorer=Scorer(work.store, ()),
            store=work.store,
            budget=self._budget,
            coach=coach,
            only=work.targets,
            listener=self._progress,
        )


class _Opened:
    """State of a fit while it is open."""

    def __init__(
        self,
        run_id: str,
        store: Store,
        baseline: Candidate,
        targets: list[str],
    ) -> None:
        self.run_id = run_id
        self.targets = targets
        self.store = store
        self.runner: Runner
        """Set last, once the fit is open."""
        self.baseline = baseline
        self.weights: WeightsAlgorithm | None = None
        """The algorithm, with the model that it trains; None if it trains none."""
        self.again = 0
        """Number of earlier fits in which the agent failed on every task."""
        while store.journal.get(run_id, f"again/{self.again + 1:03d}"):
            self.again += 1


async def _mean_of(lab: Lab, tasks: Any, split: str) -> float:
    evaluations = await lab.evaluate(lab.baseline, tasks)
    failed = [e.rollout for e in evaluations if e.rollout.status != "succeeded"]
    if len(failed) == len(evaluations):
        raise AgentError(
            f"The agent failed on all {len(failed)} {split} tasks that ran."
            f" The first: {failed[0].error}"
        )
    if all(evaluation.value is None for evaluation in evaluations):
        raise AgentError(
            f"The agent gave no reward on any of {len(evaluations)} {split} tasks.",
            hint="Return a number, or call ratchet.emit_reward(value).",
        )
    return mean(evaluations)


def _resources(initial: Mapping[str, Resource | str] | None) -> dict[str, Resource]:
    resources: dict[str, Resource] = {}
    for name, resource in (initial or {}).items():
        if isinstance(resource, str):
            resources[name] = PromptTemplate(resource)
        elif hasattr(resource, "identity"):
            resources[name] = resource
        else:
            raise InputError(
                f"initial_resources[{name!r}] is {type(resource).__name__}; expected a string, "
                "PromptTemplate, Params, Code or Model."
            )
    return resources


def _algorithm_identity(algorithm: Algorithm) -> list[Any]:
    """Identity of an algorithm: its name and its options."""
    options = {
        key: repr(value)
        for key, value in sorted(vars(algorithm).items())
        if isinstance(value, _IDENTITY_TYPES)
    }
    return [algorithm.name, options]


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise InputError(
        "fit() was called while an event loop is running.",
        hint="Await trainer.fit_async(…) there, as in a notebook.",
    )
