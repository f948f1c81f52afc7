"""Runs of `ratchet improve`: their candidates, and comparisons of candidates by task."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

import msgspec

from ratchet._waiting import LongWait
from ratchet.autopilot.run_front import RunFront, run_front
from ratchet.autopilot.run_outcome import outcome_of, refusals_in
from ratchet.server.agent_limits import of_answer
from ratchet.server.api.fields import Limit, Request, Version
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import READ, RouteGroup
from ratchet.server.services import Services
from ratchet.store import Store
from ratchet.types import Experiment, InputError, Release, Run

group = RouteGroup("runs")

MAX_REFUSAL_REASONS = 50
"""Maximum number of reasons for refusals in an answer."""


class RunQuery(Request, frozen=True, kw_only=True):
    """Filter for runs."""

    limit: Limit = 100


class RunList(msgspec.Struct, frozen=True):
    """Runs, last changed first."""

    runs: list[Run]


class RunProposal(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate, with what had been spent when it was judged."""

    number: int
    candidate_id: str
    parents: list[str]
    algorithm: str
    reason: str
    """Why it was proposed."""
    verdict: str
    """The outcome of the proposal."""
    score: float
    """Mean objective over the train tasks that it ran."""
    low: float | None
    high: float | None
    """95 % interval of the mean; None for fewer than two tasks."""
    tasks: int
    """Number of train tasks that it ran."""
    failed: int
    """Number of its rollouts that failed."""
    error: str
    """The most frequent error of the failed rollouts."""
    best: float
    """Best score over all train tasks so far."""
    rollouts: int
    coach_calls: int
    known_usd: float
    """Dollars so far, of calls whose price is known."""
    cost_usd: float | None
    """Dollars so far; None when the price of a call is unknown."""


class RefusalCount(msgspec.Struct, frozen=True):
    """A reason why proposals were refused before they were judged."""

    reason: str
    count: int
    candidate_id: str
    """One of the refused candidates; empty if the coach's answer held none."""


class RunDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A run and its results."""

    run: Run
    metric: str
    """Name of the objective; `score` until it is known."""
    proposals: list[RunProposal]
    """In the order of judging."""
    refusals: list[RefusalCount]
    """Most frequent first."""
    notes: list[str]
    baseline_val: float | None
    best_val: float | None
    val_tasks: int | None
    command: str
    """The command that begins and continues it."""
    at_work: bool
    """Whether a process is working on it."""
    waits: list[LongWait]
    """What that process is waiting for, longest first; empty while it works."""
    rollouts: int
    """Number of its rollouts, including the proof's."""
    coach_calls: int
    judge_calls: int
    known_usd: float
    """Total dollars of the calls whose price is known."""
    cost_usd: float | None
    """Total dollars; None if the price of a call is unknown."""
    experiment: Experiment | None
    release: Release | None


class TaskOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One task's mean scores with two candidates."""

    task_id: str
    split: str
    """Split in the run's dataset; empty for a task that is no longer in it."""
    candidate: float | None
    other: float | None
    candidate_rollouts: list[str]
    other_rollouts: list[str]


class TaskOutcomes(msgspec.Struct, frozen=True):
    """Scores by task, for tasks that either candidate ran."""

    evaluator: str
    tasks: list[TaskOutcome]


class PairQuery(Request, frozen=True, kw_only=True):
    """Two candidates."""

    candidate: Version
    other: Version


@group.route("GET", "/v1/runs", READ)
async def list_runs(server: Services, query: RunQuery) -> RunList:
    """List the runs."""
    return RunList(await server.in_thread(server.store.runs.list, query.limit))


@group.route("GET", "/v1/runs/{id}", READ, agents=of_answer(lambda answer: [answer.run.agent]))
async def get_run(server: Services, id: str) -> RunDetail:
    """Get a run with its candidates, by its id or a prefix of the id."""
    return await server.in_thread(_detail, server.store, id)


class FrontAnswer(msgspec.Struct, frozen=True):
    """The candidates of a run by quality, cost and latency."""

    front: RunFront | None
    """None before the source has run."""
    rule: str
    """How places are measured, as sentences; empty without a front."""
    over: str
    """What quality is plotted over: `cost`, or `latency` if no two costs are known to differ."""


@group.route("GET", "/v1/runs/{id}/front", READ)
async def get_front(server: Services, id: str) -> FrontAnswer:
    """Get quality, cost and latency of a run's candidates, and whether another beats each."""
    front = await server.in_thread(_front, server.store, id)
    return FrontAnswer(front, front.rule if front else "", front.over if front else "cost")


@group.route("GET", "/v1/runs/{id}/tasks", READ)
async def compare_tasks(server: Services, id: str, query: PairQuery) -> TaskOutcomes:
    """Compare two candidates on the tasks that the run gave them."""
    return await server.in_thread(_compared, server.store, id, query.candidate, query.other)


def _front(store: Store, id: str) -> RunFront | None:
    run = _found(store, id)
    return run_front(store, run, outcome_of(store, run).metric)


def _detail(store: Store, id: str) -> RunDetail:
    run = _found(store, id)
    outcome = outcome_of(store, run)
    entries = store.journal.read(run.id)
    refusals = refusals_in(entries)
    counts = Counter(refusal.why for refusal in refusals)
    such = {refusal.why: refusal.candidate_id for refusal in reversed(refusals)}
    finding = outcome.finding or {}
    waits = store.activity.waits(run.id, time.time())
    return RunDetail(
        run=run,
        metric=outcome.metric,
        proposals=[
            RunProposal(
                number=proposal.number,
                candidate_id=proposal.candidate_id,
                parents=list(proposal.parents),
                algorithm=proposal.algorithm,
                reason=proposal.reason,
                verdict=_verdict(proposal.accepted, proposal.refused, proposal.pruned),
                score=proposal.value,
                low=proposal.low,
                high=proposal.high,
                tasks=proposal.tasks,
                failed=proposal.failed,
                error=proposal.error,
                best=proposal.best,
                rollouts=proposal.rollouts,
                coach_calls=proposal.coach_calls,
                known_usd=proposal.dollars,
                cost_usd=proposal.cost.usd,
            )
            for proposal in outcome.proposals
        ],
        refusals=[
            RefusalCount(why, n, such[why]) for why, n in counts.most_common(MAX_REFUSAL_REASONS)
        ],
        notes=[str(body) for key, body in entries if key.startswith(("note/", "unpriced/"))],
        baseline_val=finding.get("baseline_val"),
        best_val=finding.get("best_val"),
        val_tasks=finding.get("val_tasks"),
        command=outcome.command,
        at_work=waits is not None,
        waits=waits or [],
        rollouts=outcome.costs.rollouts,
        coach_calls=outcome.costs.coach_calls,
        judge_calls=outcome.costs.judge_calls,
        known_usd=outcome.costs.cost.known_usd,
        cost_usd=outcome.costs.cost.usd,
        experiment=store.experiments.get(run.experiment_id) if run.experiment_id else None,
        release=outcome.release,
    )


def _verdict(accepted: str, refused: str, pruned: bool) -> str:
    if refused:
        return f"Refused: {refused}"
    return accepted or ("Given up early." if pruned else "")


def _found(store: Store, id: str) -> Run:
    run = store.runs.get(id) or next(iter(store.runs.find(id) if id else ()), None)
    if run is None:
        raise HttpProblem(404, f"There is no run {id[:200]!r}.", field="id")
    return run


def _splits(store: Store, version: str) -> Mapping[str, str]:
    try:
        return store.datasets.get(version).splits
    except InputError:  # it was not stored, or has been deleted since
        return {}


def _compared(store: Store, id: str, candidate: str, other_id: str) -> TaskOutcomes:
    run = _found(store, id)
    evaluator = outcome_of(store, run).metric
    sides = [
        store.scores.by_task(run.id, candidate_id, evaluator)
        for candidate_id in (candidate, other_id)
    ]
    splits = _splits(store, run.dataset_version)
    tasks = list(dict.fromkeys([*sides[0], *sides[1]]))
    return TaskOutcomes(
        evaluator,
        [
            TaskOutcome(
                task_id=task,
                split=splits.get(task, ""),
                candidate=sides[0][task].mean if task in sides[0] else None,
                other=sides[1][task].mean if task in sides[1] else None,
                candidate_rollouts=list(sides[0][task].rollouts) if task in sides[0] else [],
                other_rollouts=list(sides[1][task].rollouts) if task in sides[1] else [],
            )
            for task in tasks
        ],
    )
