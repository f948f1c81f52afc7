"""Synthesizes tasks for a project: with its coach, its agent as a solver, or an oracle."""

from __future__ import annotations

import json
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec

from ratchet.autopilot.agent_model import agent_model, in_thread
from ratchet.autopilot.batch import evaluate_batch
from ratchet.autopilot.coach import coach_models, open_coach
from ratchet.autopilot.project import Project
from ratchet.autopilot.runner import open_runner
from ratchet.curate.refinement import live_inputs
from ratchet.curate.refinement.coverage import measure_coverage
from ratchet.curate.synthesis import (
    BoundedCoach,
    CoachInputs,
    CoachSolver,
    MethodName,
    Oracle,
    SolverAgreement,
    Synthesis,
    synthesize,
)
from ratchet.curate.synthesis.answers import Answerer, Solver
from ratchet.curate.synthesis.coached import EDGE_CASES, PERSONAS
from ratchet.curate.synthesis.input_schema import infer_schema, loosened
from ratchet.learn import Algorithm
from ratchet.observe.capture import shorten
from ratchet.run.program import AnyAgent, ProgramAgent
from ratchet.store import Store
from ratchet.types import (
    Candidate,
    Cost,
    Dataset,
    InputError,
    PromptTemplate,
    Split,
    Task,
    content_hash,
)
from ratchet.worker.own_evaluator import import_function

METHODS: tuple[MethodName, ...] = ("slots", "rewording", "boundary", "coach")
SOLVERS = ("coach", "agent")

_LATEST_RUNS = 100
"""Number of runs searched for the best prompts so far."""

PURPOSE_LIMIT = 4000
"""Characters of the agent's self-description shown to the coach."""


class SynthesisPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to synthesize, and how."""

    count: int = 20
    """Number of tasks to make."""
    methods: tuple[MethodName, ...] = ()
    """How inputs are made; if empty, all ways but rewording, whose inputs nearly copy real ones,
    and the coach only if one is configured."""
    oracle: str = ""
    """MODULE:FUNCTION that returns the right answer to an input; empty for none."""
    solvers: tuple[str, ...] = ()
    """Whose answers count where all agree; empty: the coach and the agent with its best prompts so
    far, if the coach makes inputs. They differ on an input that makes no sense, which is dropped.
    """
    tries: int = 3
    """Number of answers of each solver to an input."""
    keep_open: bool = False
    """Keep tasks without a known answer."""
    split: Split = "train"
    schema: dict[str, Any] | None = None
    """JSON schema of the inputs; inferred when None."""
    personas: tuple[str, ...] = PERSONAS
    edge_cases: tuple[str, ...] = EDGE_CASES
    max_calls: int = 500
    """Maximum number of coach calls."""
    max_dollars: float | None = None
    """Maximum dollars for the coach; unlimited when None."""
    seed: int = 0


class _Author:
    """Who asks the coach; see `open_coach`."""

    name = "ratchet datasets synthesize"
    needs_coach = True


async def synthesize_tasks(
    project: Project,
    store: Store,
    dataset: Dataset,
    plan: SynthesisPlan,
    *,
    say: Callable[[str], None],
    on_progress: Callable[[int], None],
) -> tuple[Synthesis, int, Cost]:
    """Make tasks for a project's agent; see `ratchet.curate.synthesize`.

    Args:
        project: The project.
        store: Its store.
        dataset: The dataset.
        plan: What to make, and how.
        say: Called with sentences for the user.
        on_progress: Called with the number of tasks kept so far.

    Returns:
        The tasks, the number of coach calls, and their cost.

    Raises:
        InputError: The split has no tasks, or a coach that is to answer has no examples.
        CoachUnavailable: The coach is asked for and cannot be used.
        ConfigError: The oracle cannot be loaded.
    """
    agent = project.load_agent()
    has_coach = bool(coach_models(project.config.coach))
    usual = [m for m in METHODS if m != "rewording" and (m != "coach" or has_coach)]
    methods = plan.methods or tuple(usual)
    solvers = plan.solvers
    if not solvers and not plan.oracle and "coach" in methods:
        solvers = SOLVERS
    asks = "coach" in methods or "coach" in solvers
    async with _coach(project, store, dataset, plan, asks, say) as coach:
        work = _Work(project, store, dataset, plan, agent, coach, say)
        synthesized = await synthesize(
            dataset,
            plan.count,
            methods=methods,
            coach_inputs=work.coach_inputs() if "coach" in methods else None,
            answerer=work.answerer(solvers),
            schema=plan.schema,
            optional=() if isinstance(agent, ProgramAgent) else agent.optional,
            check=_signature_check(agent),
            split=plan.split,
            open_answers=True if plan.keep_open else None,
            seed=plan.seed,
            now=time.time(),
            on_progress=on_progress,
        )
    return synthesized, *((0, Cost()) if coach is None else (coach.calls, coach.cost))


@asynccontextmanager
async def _coach(
    project: Project,
    store: Store,
    dataset: Dataset,
    plan: SynthesisPlan,
    asks: bool,
    say: Callable[[str], None],
) -> AsyncIterator[BoundedCoach | None]:
    if not asks:
        yield None
        return
    run_id = f"synthesize-{content_hash([dataset.version, plan.split, plan.seed])}"
    async with open_coach(
        project.config.coach,
        cast("Algorithm", _Author()),
        store=store,
        run_id=run_id,
        seed=plan.seed,
        redactor=project.redactor(),
        say=say,
        folder=project.root,
    ) as coach:
        assert coach is not None
        yield BoundedCoach(
            coach,
            store.journal,
            run_id,
            max_calls=plan.max_calls,
            max_dollars=plan.max_dollars,
        )


class _Work:
    """Makes what a synthesis needs from the project."""

    def __init__(
        self,
        project: Project,
        store: Store,
        dataset: Dataset,
        plan: SynthesisPlan,
        agent: AnyAgent,
        coach: BoundedCoach | None,
        say: Callable[[str], None],
    ) -> None:
        self._project = project
        self._store = store
        self._dataset = dataset
        self._plan = plan
        self._agent = agent
        self._coach = coach
        self._say = say
        self._sources = dataset.split(plan.split)

    def coach_inputs(self) -> CoachInputs | None:
        """The coach as a writer of inputs, beginning with what the dataset lacks."""
        if not self._sources or self._coach is None:
            return None
        inputs = [task.input for task in self._sources]
        coverage = measure_coverage(
            live_inputs(self._store), [task.input for task in self._dataset.tasks]
        )
        return CoachInputs(
            self._coach,
            self._sources,
            self._plan.schema or loosened(infer_schema(inputs)),
            random.Random(self._plan.seed),  # noqa: S311
            purpose=_purpose(self._project, self._agent),
            personas=self._plan.personas,
            edge_cases=self._plan.edge_cases,
            gaps=[
                f"requests with the words {', '.join(gap.words)}; for instance"
                f" {shorten(json.dumps(gap.examples[0], ensure_ascii=False), 500)}"
                for gap in (coverage.gaps if coverage is not None else ())
            ],
        )

    def answerer(self, solvers: Sequence[str]) -> Answerer | None:
        """The solver of the tasks; None if there is none."""
        if self._plan.oracle:
            return Oracle(import_function(self._plan.oracle, "oracle"), self._plan.oracle)
        solvers_by_name: dict[str, Solver] = {}
        answered = [task.expected for task in self._sources if task.expected is not None]
        for name in solvers:
            if name == "agent":
                solvers_by_name[name] = self._solved_by_agent
            elif self._coach is not None and (answered or self._plan.solvers):
                solvers_by_name[name] = CoachSolver(
                    self._coach,
                    self._sources,
                    loosened(infer_schema(answered or [""])),
                    random.Random(self._plan.seed),  # noqa: S311
                    tries=self._plan.tries,
                    purpose=_purpose(self._project, self._agent),
                )
        return SolverAgreement(solvers_by_name) if solvers_by_name else None

    def _best_so_far(self) -> Candidate:
        """The agent with the best prompts proved for its current version, or unchanged."""
        source = self._project.source_candidate(self._agent)
        for run in self._store.runs.list(_LATEST_RUNS):
            if run.stage == "shipped" and run.baseline_id == source.id and run.best_id:
                return self._store.candidates.get(run.best_id)
        return source

    async def _solved_by_agent(self, inputs: Sequence[Any]) -> list[list[Any]]:
        """Have the agent itself solve inputs, each several times; see `Solver`."""
        project, agent = self._project, self._agent
        queue = f"synthesize-{agent.source_version()}"
        tasks = [Task(f"syn-{content_hash(value)[:12]}", value) for value in inputs]
        async with (
            in_thread(agent_model(project, self._say)),
            open_runner(project, self._store, agent, queue, self._say, take_over=True) as runner,
        ):
            (batch,) = await evaluate_batch(
                [self._best_so_far()],
                tasks,
                evaluators=(),
                store=self._store,
                runner=runner,
                queue=queue,
                attempts=project.local_attempts,
                repeat=self._plan.tries,
                fresh=False,
                on_rollout=lambda _: None,
            )
        answers: dict[str, list[Any]] = {task.id: [] for task in tasks}
        for task, rollout, _ in batch.rows:
            if rollout.status == "succeeded":
                answers[task.id].append(rollout.output)
        return [answers[task.id] for task in tasks]


def _signature_check(agent: AnyAgent) -> Callable[[Any], str] | None:
    def check(value: Any) -> str:
        try:
            agent.check_input(value)
        except InputError as error:
            return error.message
        return ""

    return check if agent.kind != "rollout" else None


def _purpose(project: Project, agent: AnyAgent) -> str:
    """The agent's self-description: its docstring and prompts."""
    if isinstance(agent, ProgramAgent):
        return ""
    candidate = project.source_candidate(agent)
    prompts = [r.text for r in candidate.resources.values() if isinstance(r, PromptTemplate)]
    return shorten("\n\n".join(filter(None, [agent.docstring, *prompts])), PURPOSE_LIMIT)
