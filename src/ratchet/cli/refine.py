"""`ratchet datasets refine`: proposes corrections to a dataset, and applies the accepted ones."""

from __future__ import annotations

import json as json_text
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from ratchet.cli.console import (
    Folder,
    Json,
    display_path,
    number,
    one_line,
    out,
    print_json,
    project_in,
    short,
    table,
)
from ratchet.cli.errors import err
from ratchet.cli.named_dataset import find_dataset, how_to_use
from ratchet.types import Dataset, InputError, Task
from ratchet.types.wording import counted

if TYPE_CHECKING:
    from ratchet.curate.refinement import Refinement, RefinementProposal

DEFAULT_PROPOSALS_SHOWN = 40

_SIGNS = {"remove": "-", "relabel": "~", "review": "?", "core set": "*"}
_STYLES = {"remove": "red", "relabel": "yellow", "review": "cyan", "core set": "green"}


def refine(
    name: Annotated[str, typer.Argument(help="Name of the dataset, or NAME@VERSION.")],
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept",
            help="Accept a proposal by the start of its id, or a group: all, confident, "
            "duplicates, near-duplicates, wrong-labels, uninformative, core-set. Repeatable.",
        ),
    ] = None,
    relabel: Annotated[
        list[str] | None,
        typer.Option(help="Set a task's expected answer: TASK=JSON. Repeatable."),
    ] = None,
    remove: Annotated[list[str] | None, typer.Option(help="Remove a task. Repeatable.")] = None,
    evaluator: Annotated[
        str | None,
        typer.Option(
            help="Compare candidates by this evaluator; by default the most used evaluator."
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, help="Maximum number of proposals shown.")
    ] = DEFAULT_PROPOSALS_SHOWN,
    png: Annotated[
        Path | None,
        typer.Option(help="Write a plot of difficulty and discrimination to this file."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the same plot as an HTML page that names the tasks.")
    ] = None,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Propose corrections to a dataset, from the stored results of all candidates.

    Finds duplicates, contradictions, likely wrong labels, tasks that no longer tell candidates
    apart, a core set that ranks candidates as the whole does, and what live traffic asks for that
    the dataset lacks. Nothing changes until a proposal is accepted. Accepting makes a new version;
    the earlier one stays, and undoes it.

    Examples:

      ratchet datasets refine tasks

      ratchet datasets refine tasks --html tasks.html

      ratchet datasets refine tasks --accept duplicates --accept 1a2b3c4d

      ratchet datasets refine tasks --relabel t17='"Paris"' --remove t3
    """
    from ratchet.curate import refinement

    project = project_in(folder)
    with project.open_store() as store:
        dataset = find_dataset(project, store, name)
        if not json:
            err.print("Reading the results of all candidates…", style="dim")
        results = refinement.read_results(store, dataset, evaluator)
        if evaluator is not None and not results.candidates:
            raise InputError(f"No rollout of {dataset.name!r} has a score by {evaluator!r}.")
        analysis = refinement.refine(dataset, results, refinement.live_inputs(store))
        chosen = refinement.select(analysis.proposals, accept or [])
        versions = _accepted(dataset, chosen, _answers(relabel or []), remove or [])
        now = time.time()
        for version in versions:
            store.datasets.put(dataset, now)  # the parent, which a task file may only now become
            store.datasets.put(version, now + 1e-6)
    _plot(analysis, png, html)
    if json:
        print_json(
            {
                **_for_machines(analysis),
                "made": [_version(version) for version in versions],
                "accepted": chosen,
            }
        )
        return
    _print(analysis, dataset, limit)
    for path in filter(None, (png, html)):
        out.print(f"Plot: {display_path(path)}", markup=False)
    for version in versions:
        out.print(f"[green]Made[/] {version.name}@{short(version.version)}: {version.reason}")
        out.print(how_to_use(project, version), markup=False)
        out.print(f"Undo: the earlier version is {dataset.name}@{dataset.version}", style="dim")


def _accepted(
    dataset: Dataset,
    chosen: Sequence[RefinementProposal],
    answers: dict[str, Any],
    remove: Sequence[str],
) -> list[Dataset]:
    from ratchet.curate.refinement import accept, core_dataset

    refined = accept(dataset, chosen, relabel=answers, remove=remove)
    versions = [refined] if refined is not dataset else []
    return versions + [
        core_dataset(dataset, proposal) for proposal in chosen if proposal.kind == "core set"
    ]


def _answers(relabels: Sequence[str]) -> dict[str, Any]:
    answers = {}
    for text in relabels:
        task, equals, answer = text.partition("=")
        if not equals or not task:
            raise InputError(
                f"--relabel {text!r} is not TASK=JSON.", hint="""--relabel t3='"yes"'"""
            )
        try:
            answers[task] = json_text.loads(answer)
        except ValueError:
            raise InputError(
                f"The answer in --relabel {text!r} is not JSON.",
                hint=f"""Put text in quotation marks: --relabel {task}='"{answer}"'""",
            ) from None
    return answers


def _plot(refinement: Refinement, png: Path | None, html: Path | None) -> None:
    if png is None and html is None:
        return
    if not refinement.estimates:
        raise InputError(f"There is nothing to plot: {refinement.notes[0]}")
    from ratchet.cli.refinement_plot import html_plot, png_plot

    if png is not None:
        png_plot(refinement, png)
    if html is not None:
        html_plot(refinement, html)


def _print(refinement: Refinement, dataset: Dataset, limit: int) -> None:
    out.print(
        f"[bold]{refinement.name}[/]@{short(refinement.version)}:"
        f" {counted(len(dataset.tasks), 'task')},"
        f" {counted(refinement.candidates, 'candidate')} scored"
        + (f" by {refinement.evaluator}" if refinement.evaluator else "")
    )
    if refinement.proposals:
        rows = table("", "id", "tasks", "change", "why")
        by_id = {task.id: task for task in dataset.tasks}
        for proposal in refinement.proposals[:limit]:
            style = _STYLES[proposal.kind]
            rows.add_row(
                f"[{style}]{_SIGNS[proposal.kind]}[/]",
                proposal.id,
                _tasks(proposal),
                _change(proposal, by_id),
                one_line(proposal.reason, 160).replace("[", "\\["),
            )
        out.print(rows)
        hidden = len(refinement.proposals) - limit
        if hidden > 0:
            out.print(f"{counted(hidden, 'more proposal')}; show them with --limit.", style="dim")
        out.print(
            f"To accept proposals: ratchet datasets refine {refinement.name} --accept ID   (? "
            "marks a question: --relabel or --remove)",
            style="dim",
            markup=False,
        )
    else:
        out.print("Nothing to change.")
    _print_coverage(refinement)
    for note in refinement.notes:
        out.print(note, style="yellow", markup=False)


def _tasks(proposal: RefinementProposal) -> str:
    if len(proposal.tasks) <= 3:
        return one_line(", ".join(proposal.tasks), 60).replace("[", "\\[")
    return counted(len(proposal.tasks), "task")


def _change(proposal: RefinementProposal, tasks: dict[str, Task]) -> str:
    from ratchet.curate.refinement.label_parts import changed_parts

    if proposal.kind != "relabel":
        return proposal.kind
    before, after = tasks[proposal.tasks[0]].expected, proposal.expected
    changes = changed_parts(before, after) or {(): (before, after)}
    sentences = [
        f"{'.'.join(path)}{': ' if path else ''}{one_line(old, 30)} → {one_line(new, 30)}"
        for path, (old, new) in changes.items()
    ]
    return "; ".join(sentences).replace("[", "\\[")


def _print_coverage(refinement: Refinement) -> None:
    coverage = refinement.coverage
    if coverage is None:
        return
    out.print(
        f"Coverage of {counted(coverage.inputs, 'live input')}: distance"
        f" {number(coverage.distance, 2)} of 1;"
        f" drift {number(coverage.drift, 2)}, p = {number(coverage.drift_p)}"
    )
    rows = table("live", "recent", "tasks", "words", "", right=("live", "recent", "tasks"))
    for cluster in coverage.clusters[:12]:
        rows.add_row(
            f"{cluster.live:.0%}",
            f"{cluster.recent:.0%}",
            str(cluster.tasks),
            one_line(" ".join(cluster.words), 60).replace("[", "\\["),
            "[yellow]too few tasks[/]" if cluster.gap else "",
        )
    out.print(rows)


def _for_machines(refinement: Refinement) -> dict[str, Any]:
    coverage = msgspec.to_builtins(refinement.coverage)
    for cluster in coverage["clusters"] if coverage else ():
        del cluster["of_tasks"], cluster["of_live"]  # places in lists that are not printed
    return {
        "dataset": refinement.name,
        "version": refinement.version,
        "evaluator": refinement.evaluator,
        "candidates": refinement.candidates,
        "proposals": refinement.proposals,
        "estimates": refinement.estimates,
        "coverage": coverage,
        "notes": refinement.notes,
    }


def _version(dataset: Dataset) -> dict[str, Any]:
    return {
        "dataset": dataset.name,
        "version": dataset.version,
        "parent": dataset.parent,
        "reason": dataset.reason,
        "tasks": len(dataset.tasks),
    }
