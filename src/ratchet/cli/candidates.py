"""`ratchet candidates`: the candidates of a run, as a tree, a plot, or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from ratchet.autopilot.run_front import RunFront, run_front
from ratchet.autopilot.run_outcome import Refusal, RunOutcome, outcome_of, refusals_in
from ratchet.cli.candidate_tree import CandidateTree
from ratchet.cli.console import (
    Folder,
    Json,
    display_path,
    out,
    print_json,
    project_in,
    short,
    table,
)
from ratchet.cli.front_plot import front_plot, front_table, left_out
from ratchet.cli.plot import png_plot, text_plot
from ratchet.cli.refusals import print_refusals
from ratchet.learn import Proposal
from ratchet.store import Store
from ratchet.types import Cost, InputError, Run
from ratchet.types.wording import counted

DEFAULT_CANDIDATES_SHOWN = 24


def candidates(
    run: Annotated[
        str | None, typer.Option(help="Start of a run's id; the newest run by default.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, help="Maximum number of candidates in the tree.")
    ] = DEFAULT_CANDIDATES_SHOWN,
    plot: Annotated[
        bool, typer.Option("--plot", help="Also plot the score in the terminal.")
    ] = False,
    front: Annotated[
        bool,
        typer.Option(
            "--front",
            help="Show quality, cost and latency, and the candidates that no other beats.",
        ),
    ] = False,
    png: Annotated[
        Path | None,
        typer.Option(help="Write a plot of score over rollouts and dollars to this file."),
    ] = None,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Show the candidates of a run: their ancestry, scores, and why each was kept.

    Candidates refused by the checks, and coach answers that could not be used, are listed below
    the tree by reason. The JSON holds every candidate in the order they were judged, with the
    rollouts, coach calls and dollars spent up to then.

    Examples:

      ratchet candidates

      ratchet candidates --png score.png --json

      ratchet candidates --run 1a2b3c4d --plot

      ratchet candidates --front
    """
    project = project_in(folder)
    with project.open_store() as store:
        outcome = outcome_of(store, selected_run(store, run))
        entries = store.journal.read(outcome.run.id)
        placed = run_front(store, outcome.run, outcome.metric)
    notes = [body for key, body in entries if key.startswith(("note/", "unpriced/"))]
    refusals = refusals_in(entries)
    proposals = outcome.proposals
    metric = outcome.metric
    if png is not None:
        if not proposals:
            raise InputError("There is nothing to plot yet: no candidate has been judged.")
        png_plot(proposals, metric, png)
    if json:
        print_json({**_for_machines(outcome, notes, refusals), "front": placed})
        return
    if front:
        _print_front(outcome.run, placed)
        return
    out.print(f"Run [bold]{short(outcome.run.id)}[/], {outcome.run.stage.replace('_', ' ')}")
    if not proposals:
        out.print(
            f"Candidate {short(outcome.chosen['candidate'])} was chosen by a person; no other "
            "candidate was judged."
            if outcome.chosen
            else "No candidate has been judged yet."
        )
        for sentence in filter(None, [*notes, outcome.run.message]):
            out.print(f"  {sentence}", style="dim", markup=False)
        print_refusals(refusals)
        return
    lineage = CandidateTree(proposals, outcome.run.baseline_id, _chosen(outcome.run))
    out.print(lineage.tree(limit, metric=metric))
    last = proposals[-1]
    spent = table("", "")
    spent.show_header = False
    spent.add_row("judged", counted(len(lineage.by_id), "candidate"))
    spent.add_row(
        "spent until the last candidate was judged",
        _spent(last.rollouts, last.coach_calls, last.cost),
    )
    out.print()
    out.print(spent)
    for note in notes:
        out.print(f"  {note}", style="dim", markup=False)
    print_refusals(refusals)
    if plot:
        out.print()
        out.file.write(text_plot(proposals, metric, color=out.is_terminal) + "\n")
    if png is not None:
        out.print(f"Plot: {display_path(png)}", markup=False)
    if lineage.best is not None:
        best = short(lineage.best.candidate_id)
        out.print(f"See what changed: ratchet diff source {best}", style="dim")
    if placed is not None and len(placed.places) > 1:
        out.print("Quality, cost and latency of each: ratchet candidates --front", style="dim")


def _print_front(run: Run, placed: RunFront | None) -> None:
    if placed is None:
        out.print("The source has not run yet, so there is nothing to compare with.")
        return
    out.print(f"Run [bold]{short(run.id)}[/], {run.stage.replace('_', ' ')}\n")
    out.file.write(front_plot(placed, out.width) + "\n\n")
    out.print(front_table(placed))
    out.print()
    for sentence in filter(None, (left_out(placed), placed.rule)):
        out.print(sentence, style="dim", markup=False)
    if (unproved := placed.next_to_ship) is not None:
        label = short(unproved.candidate_id)
        out.print(f"Prove a candidate and ship it: ratchet ship {label}", style="dim")


def selected_run(store: Store, prefix: str | None) -> Run:
    """The run whose id begins with this; by default the newest.

    Raises:
        InputError: There is none, or several.
    """
    if prefix is None:
        newest = store.runs.latest()
        if newest is None:
            raise InputError("Nothing has run yet.", hint="Start with: ratchet improve")
        return newest
    matches = store.runs.find(prefix)
    if len(matches) != 1:
        how = "no run" if not matches else f"{len(matches)} runs"
        raise InputError(f"{prefix!r} matches {how}.", hint="See: ratchet status")
    return matches[0]


def _chosen(run: Run) -> str:
    """Id of the candidate that learning selected; empty if it kept the source or has not ended."""
    return run.best_id if run.best_id != run.baseline_id else ""


def _spent(rollouts: int, coach_calls: int, cost: Cost) -> str:
    parts = [counted(rollouts, "rollout")]
    if coach_calls:
        parts.append(counted(coach_calls, "coach call"))
    if cost != Cost():
        parts.append(str(cost))
    return ", ".join(parts)


def _for_machines(outcome: RunOutcome, notes: list[Any], refusals: list[Refusal]) -> dict[str, Any]:
    return {
        "run": outcome.run.id,
        "stage": outcome.run.stage,
        "baseline_id": outcome.run.baseline_id,
        "best_id": outcome.run.best_id or None,
        "candidates": [_candidate(proposal) for proposal in outcome.proposals],
        "refused": [msgspec.to_builtins(refusal) for refusal in refusals],
        "notes": notes,
    }


def _candidate(proposal: Proposal) -> dict[str, Any]:
    """A proposal as JSON; dollars are null when a call's price is unknown."""
    cost = proposal.cost
    fields: dict[str, Any] = msgspec.to_builtins(proposal)
    return {**fields, "dollars": cost.usd, "known_dollars": cost.known_usd}
