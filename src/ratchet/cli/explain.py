"""`ratchet explain`: why a decision is as it is, and what would change it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ratchet.autopilot.cycle.explaining import explain_cycle, explain_experiment
from ratchet.cli.console import Folder, Json, out, print_json, project_in, short
from ratchet.store import Store
from ratchet.types import Cycle, Experiment, InputError


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
    """Explain a decision or a cycle of the autopilot in plain words.

    It says why the verdict is what it is, and what would change it.

    Examples:

      ratchet explain

      ratchet explain 1a2b3c4d
    """
    with project_in(folder).open_store() as store:
        found = _newest(store) if identity is None else _find(store, identity)
        if isinstance(found, Cycle):
            moves = store.cycles.transitions(found.id)
            sentences = explain_cycle(found, moves, time.time())
        else:
            sentences = explain_experiment(found)
    kind = "cycle" if isinstance(found, Cycle) else "experiment"
    if json:
        print_json({"kind": kind, "id": found.id, "sentences": sentences, kind: found})
        return
    out.print(f"[bold]{kind.capitalize()} {short(found.id)}[/]", highlight=False)
    for sentence in sentences:
        out.print(sentence, markup=False, soft_wrap=True)


def _newest(store: Store) -> Experiment | Cycle:
    underway = store.cycles.list(limit=1)
    experiments = store.experiments.history()
    if underway and (not experiments or underway[0].updated_at > experiments[-1].created_at):
        return underway[0]
    if experiments:
        return experiments[-1]
    raise InputError("There is no decision to explain yet.", hint="Make one: ratchet improve.")


def _find(store: Store, prefix: str) -> Experiment | Cycle:
    found: dict[str, Any] = {}
    for cycle in store.cycles.find(prefix):
        found[cycle.id] = cycle
    for experiment in store.experiments.history():
        ids = (experiment.id, experiment.run_id, experiment.candidate_id)
        if any(each.startswith(prefix) for each in ids):
            found[experiment.id] = experiment
    for release in store.releases.find(prefix):
        if (made_by := store.experiments.get(release.experiment_id)) is not None:
            found[made_by.id] = made_by
    if len(found) == 1:
        only: Experiment | Cycle = next(iter(found.values()))
        return only
    how = f"{len(found)} decisions" if found else "no decision"
    raise InputError(
        f"{prefix!r} matches {how}.",
        hint="Give more digits of the id of an experiment, a run, a release or a cycle.",
    )
