"""`ratchet status`: a summary of the project."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

from ratchet.autopilot import Project
from ratchet.autopilot.explaining_runs import at_work
from ratchet.autopilot.run_outcome import RunOutcome, outcome_of
from ratchet.cli.console import Folder, Json, number, out, print_json, project_in, short, table
from ratchet.cli.run_outcome import costs_text, other_margins
from ratchet.types import FINAL_CYCLE_STATES, STAGE_TRANSITIONS, Stage
from ratchet.types.wording import counted

NEXT_BY_STAGE: dict[Stage, str] = {
    "baseline": "{command} continues it",
    "learn": "{command} continues it",
    "prove": "{command} continues it",
    "ship": "{command} ships it",
    "shipped": "open its pull request: ratchet ship; merge the branch; or undo: ratchet rollback",
    "no_gain": "change the agent or its tasks, or search again: ratchet improve --seed 1",
    "not_proved": "add test tasks and run {command} again; or show people a draft:"
    " ratchet ship --draft",
    "failed": "fix the cause, then continue with {command}",
}


_NOTHING: dict[str, Any] = {
    "summary": {"rollouts": {}, "candidates": 0, "datasets": 0, "experiments": 0, "releases": 0},
    "newest_run": None,
    "learning": {},
    "under_way": False,
    "waits": [],
    "cycles": [],
}
"""The counts of a project without a store; reading creates none."""


def status(folder: Folder = Path("."), json: Json = False) -> None:
    """Show the store's contents, the state of the newest run, and what to do next."""
    project = project_in(folder)
    if not project.has_store():
        if json:
            print_json({"project": str(project.root), **_NOTHING})
        else:
            out.print(f"Nothing has run yet. {_first_step(project)}", markup=False)
        return
    with project.open_store() as store:
        summary = store.summary()
        run = store.runs.latest()
        outcome = outcome_of(store, run) if run else None
        learning = _learning(outcome) if outcome else {}
        now = time.time()
        waits = store.activity.waits(run.id, now) if run else None
        cycles = [
            cycle for cycle in store.cycles.list(limit=20) if cycle.state not in FINAL_CYCLE_STATES
        ]
    if json:
        print_json(
            {
                "project": str(project.root),
                "summary": summary,
                "newest_run": outcome.for_machines() if outcome else None,
                "learning": learning,
                "under_way": waits is not None,
                "waits": [
                    {"what": wait.what, "seconds": round(now - wait.since)} for wait in waits or ()
                ],
                "cycles": cycles,
            }
        )
        return
    out.print(f"[bold]{project.config.agent.label}[/] in {project.root}", highlight=False)
    _print_counts(summary)
    for cycle in cycles:
        state = cycle.state.replace("_", " ")
        out.print(f"  autopilot of {cycle.agent}: {state}; see ratchet autopilot status")
    if outcome is None:
        out.print(f"\nNothing has run yet. {_first_step(project)}", markup=False)
        return
    following = ""
    if waits is not None:
        following = "nothing, since it is running"
    elif any(cycle.run_id == outcome.run.id for cycle in cycles):
        following = "the autopilot continues the run"
    _print_run(outcome, learning, following, at_work(waits, now, outcome.command))


def _first_step(project: Project) -> str:
    tasks = project.config.tasks
    if tasks.dataset is not None or (project.root / tasks.file).exists():
        return "Start with: ratchet improve"
    return (
        f"There are no tasks: write {tasks.file}, or make a dataset from recorded traces and use"
        " it: ratchet datasets capture NAME; ratchet improve --dataset NAME"
    )


def _learning(outcome: RunOutcome) -> dict[str, Any]:
    finding = outcome.finding or {}
    proposals = outcome.proposals
    return {
        "proposals": len(proposals),
        "best_train": proposals[-1].best if proposals else None,
        "baseline_val": finding.get("baseline_val"),
        "best_val": finding.get("best_val"),
        "val_tasks": finding.get("val_tasks"),
    }


def _print_counts(summary: dict[str, Any]) -> None:
    rollouts = summary["rollouts"]
    parts = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in rollouts.items())
    rows = table("", "")
    rows.show_header = False
    rows.add_row("rollouts", parts or "none")
    for noun in ("candidates", "datasets", "experiments", "releases"):
        rows.add_row(noun, str(summary[noun]))
    out.print(rows)


def _print_run(outcome: RunOutcome, learning: dict[str, Any], following: str, working: str) -> None:
    run = outcome.run
    when = datetime.fromtimestamp(run.updated_at).astimezone()
    out.print(
        f"\nNewest run [bold]{short(run.id)}[/], seed {run.seed}:"
        f" [bold]{run.stage.replace('_', ' ')}[/] since {when:%Y-%m-%d %H:%M}"
    )
    if STAGE_TRANSITIONS[run.stage] and run.stage != "failed":
        out.print(f"  {working}", markup=False)
    if learning["proposals"]:
        out.print(
            f"  {counted(learning['proposals'], 'candidate')} tried, best mean on train"
            f" {number(learning['best_train'])}"
        )
    if learning["best_val"] is not None:
        tasks = counted(learning["val_tasks"], "val task") if learning["val_tasks"] else "val"
        out.print(
            f"  on {tasks}: {number(learning['baseline_val'])} → {number(learning['best_val'])}"
        )
    if outcome.costs.rollouts or outcome.costs.coach_calls:
        out.print(f"  spent: {costs_text(outcome.costs)}", markup=False)
    if run.message:
        out.print(f"  {run.message}", markup=False)
    if outcome.release:
        release = outcome.release
        where = f"branch {release.branch}" if release.branch else f"at run time: {release.agent}"
        where = release.request.url if release.request else where
        out.print(f"  {where} ({release.state.replace('_', ' ')})")
    at_gateway = outcome.release is not None and bool(outcome.release.agent)
    usual = (
        "undo it with ratchet rollback"
        if at_gateway
        else NEXT_BY_STAGE[run.stage].format(command=outcome.command)
    )
    if run.stage == "no_gain" and outcome.decision is not None:
        usual = other_margins(outcome.decision, run.seed) or usual
    out.print(f"  next: {following or usual}", markup=False)
