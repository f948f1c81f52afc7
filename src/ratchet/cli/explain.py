"""`ratchet explain`: the reasons for a decision, and what would change it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ratchet.autopilot.cycle.explaining import explain_cycle, explain_experiment
from ratchet.autopilot.explaining_runs import explain_run
from ratchet.autopilot.run_outcome import outcome_of
from ratchet.cli.console import Folder, Json, out, print_json, project_in, short
from ratchet.store import Store
from ratchet.types import Cycle, Experiment, InputError, Run


def explain(
    identity: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]",
            help="Start of the id of an experiment, run, release, candidate or cycle; by default"
            " the newest decision.",
        ),
    ] = None,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Explain a decision, a run or a cycle of the autopilot in plain words.

    It says why the verdict is what it is, and what would change it.

    Examples:

      ratchet explain

      ratchet explain 1a2b3c4d
    """
    project = project_in(folder)
    if not project.has_store():
        raise _nothing_yet()
    with project.open_store() as store:
        decision = _newest(store) if identity is None else _find(store, identity)
        kind, sentences = _explained(store, decision, time.time())
    if json:
        print_json({"kind": kind, "id": decision.id, "sentences": sentences, kind: decision})
        return
    out.print(f"[bold]{kind.capitalize()} {short(decision.id)}[/]", highlight=False)
    for sentence in sentences:
        out.print(sentence, markup=False)


def _explained(
    store: Store, decision: Experiment | Cycle | Run, now: float
) -> tuple[str, list[str]]:
    """The object's kind, and sentences that explain it."""
    if isinstance(decision, Cycle):
        return "cycle", explain_cycle(decision, store.cycles.transitions(decision.id), now)
    if isinstance(decision, Run):
        entries, waits = store.journal.read(decision.id), store.activity.waits(decision.id, now)
        return "run", explain_run(outcome_of(store, decision), entries, waits, now)
    return "experiment", explain_experiment(decision)


def _newest(store: Store) -> Experiment | Cycle | Run:
    """The object that changed last: a cycle, a decision, or a run without a decision."""
    run = store.runs.latest()
    decided = store.experiments.get(run.experiment_id) if run and run.experiment_id else None
    newest: list[tuple[float, Experiment | Cycle | Run]] = [
        (cycle.updated_at, cycle) for cycle in store.cycles.list(limit=1)
    ]
    if run is not None:
        newest.append((run.updated_at, decided or run))
    elif experiments := store.experiments.history():
        newest.append((experiments[-1].created_at, experiments[-1]))
    if not newest:
        raise _nothing_yet()
    return max(newest, key=lambda dated: dated[0])[1]


def _nothing_yet() -> InputError:
    return InputError("There is no decision to explain yet.", hint="Make one: ratchet improve.")


def _find(store: Store, prefix: str) -> Experiment | Cycle | Run:
    decisions: dict[str, Any] = {}
    for cycle in store.cycles.find(prefix):
        decisions[cycle.id] = cycle
    for experiment in store.experiments.history():
        ids = (experiment.id, experiment.run_id, experiment.candidate_id)
        if any(id.startswith(prefix) for id in ids):
            decisions[experiment.id] = experiment
    for run in store.runs.find(prefix) if prefix else ():
        if not run.experiment_id:
            decisions[run.id] = run
    for release in store.releases.find(prefix):
        if (made_by := store.experiments.get(release.experiment_id)) is not None:
            decisions[made_by.id] = made_by
    if len(decisions) == 1:
        only: Experiment | Cycle | Run = next(iter(decisions.values()))
        return only
    how = f"{len(decisions)} decisions" if decisions else "no decision"
    raise InputError(
        f"{prefix!r} matches {how}.",
        hint="Give more digits of the id of an experiment, a run, a release or a cycle.",
    )
