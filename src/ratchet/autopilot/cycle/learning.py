"""Learns for a cycle and proves on held-out tasks: `improve`, within the day's budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ratchet.autopilot.code_sandbox import repository_of
from ratchet.autopilot.cycle.parts import Learned
from ratchet.autopilot.import_binding import live_refusal
from ratchet.autopilot.loop import improve
from ratchet.autopilot.problem_work import told_of
from ratchet.autopilot.project import Project
from ratchet.autopilot.run_outcome import costs_of
from ratchet.autopilot.watcher import Watcher
from ratchet.bind.live_changes import check_live
from ratchet.ship import make_patch
from ratchet.store import Store
from ratchet.types import BudgetExhausted, Cycle, InputError, Run, ShipError


class _Saying(Watcher):
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def message(self, text: str) -> None:
        self._say(text)


async def advance_run(
    project: Project, store: Store, cycle: Cycle, say: Callable[[str], None], *, ship_it: bool
) -> Run:
    """Run or resume `improve` on the cycle's tasks and budget; to ship, only resume its run.

    Raises:
        RatchetError: As for `improve`.
    """
    ready = _within(project.with_dataset(cycle.dataset), cycle)
    problem = store.problems.get(cycle.problem_id) if cycle.problem_id else None
    if problem is not None:
        ready = told_of(ready, store, problem)
    return await improve(
        ready,
        store,
        watcher=_Saying(say),
        ship_it=ship_it,
        only_run=cycle.run_id if ship_it else None,
        problem=problem,
    )


async def learn_and_prove(
    project: Project, store: Store, cycle: Cycle, say: Callable[[str], None]
) -> Learned:
    """Learn a candidate and prove it, or resume that.

    Raises:
        RatchetError: As for `improve`.
    """
    try:
        run = await advance_run(project, store, cycle, say, ship_it=False)
    except BudgetExhausted as error:
        latest = store.runs.latest()
        assert latest is not None
        run = msgspec.structs.replace(latest, stage="no_gain", message=error.message)
    # A comparison that goes on has been paid in part by an earlier cycle.
    costs = costs_of(store, run, since=cycle.started_at)
    fields: dict[str, Any] = {
        "run_id": run.id,
        "baseline_id": run.baseline_id,
        "candidate_id": run.best_id,
        "experiment_id": run.experiment_id,
        "sentence": run.message,
        "rollouts": costs.rollouts,
        "dollars": costs.cost.known_usd,
    }
    if run.stage == "no_gain":
        return Learned(verdict="no_gain", **fields)
    if run.stage == "not_proved":
        return Learned(verdict="not_proved", **fields)
    if run.stage == "prove":
        return Learned(verdict="waits", **fields)
    return Learned(verdict="promote", **fields, **_ways_out(project, store, run))


def _ways_out(project: Project, store: Store, run: Run) -> dict[str, Any]:
    """What the candidate changes, and how it can be released."""
    baseline = store.candidates.get(run.baseline_id)
    candidate = store.candidates.get(run.best_id)
    names = tuple(candidate.changed_from(baseline))
    at_run_time = ""
    try:
        check_live(candidate, store.candidates.origins(candidate))
    except InputError as error:
        at_run_time = str(error)
    declared = project.load_agent().declarations
    at_run_time = at_run_time or live_refusal(names, declared)
    files: tuple[str, ...] = ()
    refusal = ""
    try:
        files = tuple(make_patch(baseline, candidate, declared, repository_of(project.root)).files)
    except ShipError as error:
        refusal = str(error)
    return {
        "resources": names,
        "files": files,
        "runtime_refusal": at_run_time,
        "request_refusal": refusal,
    }


def _within(project: Project, cycle: Cycle) -> Project:
    """The project, with learning limited to the cycle's share of the day's budget."""
    config = project.config
    budget = config.improve.budget
    changes = {
        "rollouts": _least(budget.rollouts, cycle.rollouts),
        "dollars": _least(budget.dollars, cycle.dollars),
    }
    learning = config.improve.model_copy(update={"budget": budget.model_copy(update=changes)})
    return project.with_config(config.model_copy(update={"improve": learning}))


def _least(*limits: Any) -> Any:
    return min((limit for limit in limits if limit is not None), default=None)
