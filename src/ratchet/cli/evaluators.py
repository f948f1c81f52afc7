"""`ratchet evaluators`: list evaluators, and measure how much each can be trusted."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from ratchet.autopilot import Project
from ratchet.autopilot.agent_model import agent_model
from ratchet.autopilot.evaluator_trial import models_asked
from ratchet.autopilot.project_evaluators import project_evaluators
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.autopilot.report_cards import (
    announced_card,
    cases_in,
    report_card,
    tasks_to_measure_with,
    vouched_for,
)
from ratchet.cli.console import (
    Folder,
    Json,
    display_path,
    number,
    out,
    print_json,
    project_in,
    table,
    wait_for,
)
from ratchet.cli.errors import err
from ratchet.cli.generate_evaluators import generate
from ratchet.cli.reliability_plot import plot_reliability
from ratchet.cli.try_evaluator import try_
from ratchet.evaluate import Evaluator, basis_of
from ratchet.evaluate.catalog import built_in_meanings
from ratchet.evaluate.report_card import Case
from ratchet.store import Store
from ratchet.types import BudgetExhausted, CardCheck, InputError, ReportCard, Task
from ratchet.types.wording import counted

evaluators = typer.Typer(
    help="List evaluators, and measure how much each can be trusted.", no_args_is_help=True
)

evaluators.command()(generate)
evaluators.command("try")(try_)

Plot = Annotated[
    Path | None,
    typer.Option(
        help="Write the reliability diagram to this file, .png or .html; it needs labels."
    ),
]

_COLORS = {"decides": "green", "advises": "yellow", "insufficient": "yellow", "rejected": "red"}


@evaluators.command("list")
def list_(
    folder: Folder = Path("."),
    built_in: Annotated[
        bool, typer.Option("--built-in", help="List Ratchet's built-in evaluators instead.")
    ] = False,
    json: Json = False,
) -> None:
    """List the project's evaluators, with the verdict of each one's newest report card.

    Examples:

      ratchet evaluators list

      ratchet evaluators list --built-in
    """
    if built_in:
        _print_built_in(json=json)
        return
    project = project_in(folder)
    with project.open_store() as store:
        evaluators = project_evaluators(project)
        vouched = vouched_for(project, evaluators)
        rows = [
            {
                "evaluator": evaluator.name,
                "version": evaluator.version,
                "unit": evaluator.unit,
                "basis": basis_of(evaluator),
                "models": models_asked(evaluator),
                "vouched": evaluator.name in vouched,
                "card": store.report_cards.latest(evaluator.name, evaluator.version),
            }
            for evaluator in evaluators
        ]
    if json:
        print_json({"evaluators": rows})
        return
    listing = table("evaluator", "basis", "vouched", "verdict", "reason")
    for row in rows:
        card: Any = row["card"]
        unit = f" ({row['unit']})" if row["unit"] else ""
        listing.add_row(
            f"{row['evaluator']}{unit}",
            str(row["basis"]),
            "yes" if row["vouched"] else "",
            _verdict(card) if card else "-",
            _reason(card) if card else ("" if row["unit"] else "not checked yet"),
        )
    out.print(listing)


def _print_built_in(*, json: bool) -> None:
    meanings = built_in_meanings()
    if json:
        print_json({"evaluators": meanings})
        return
    listing = table("use", "score")
    for name, meaning in meanings.items():
        listing.add_row(name, meaning)
    out.print(listing)


@evaluators.command()
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Names of evaluators; by default all."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed for the choice of outputs and of where they are damaged.")
    ] = 0,
    plot: Plot = None,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Make report cards: score stored outputs, damaged copies and attacks, and compare with labels.

    It uses the newest stored rollouts, all labelled ones and expected answers, and runs no agent. A
    stored card of the same evaluator and outputs is shown as it is. The exit code is 0 whatever the
    verdicts are.

    Examples:

      ratchet evaluators check

      ratchet evaluators check my_judge --plot reliability.html

      ratchet evaluators check --json
    """
    project = project_in(folder)
    with (
        project.open_store() as store,
        agent_model(project, lambda sentence: err.print(sentence, style="dim", markup=False)),
    ):
        evaluators = project_evaluators(project)
        cards = wait_for(
            _check(project, store, evaluators, names, seed, quiet=json), quiet=json, paid_by=project
        )
        spent = [
            spending for evaluator in evaluators if (spending := getattr(evaluator, "spending", ""))
        ]
    if plot is not None:
        plot_reliability(cards, plot)
    if json:
        print_json({"cards": cards})
        return
    _print_cards(cards)
    for sentence in spent:
        out.print(sentence, style="dim", markup=False)
    if len(cards) == 1:
        out.print()
        _print_checks(cards[0])
    if plot is not None:
        out.print(f"Plot: {display_path(plot)}", markup=False)


@evaluators.command()
def show(
    name: Annotated[str, typer.Argument(help="Name of the evaluator.")],
    plot: Plot = None,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Show the newest report card of an evaluator: each check with its limits.

    Examples:

      ratchet evaluators show exact_match

      ratchet evaluators show my_judge --plot reliability.png
    """
    project = project_in(folder)
    with project.open_store() as store:
        cards = store.report_cards.list(evaluator=name, limit=1)
        full_card = store.report_cards.get(cards[0].id) if cards and json else None
    if not cards:
        raise InputError(
            f"The evaluator {name!r} has no report card.",
            hint=f"Create one: ratchet evaluators check {name}",
        )
    if plot is not None:
        plot_reliability(cards, plot)
    if json:
        print_json(full_card)
        return
    _print_cards(cards)
    out.print()
    _print_checks(cards[0])
    if plot is not None:
        out.print(f"Plot: {display_path(plot)}", markup=False)


def _selected(evaluators: Sequence[Evaluator], names: Sequence[str] | None) -> list[Evaluator]:
    by_name = {evaluator.name: evaluator for evaluator in evaluators}
    for name in names or ():
        if name not in by_name:
            raise InputError(
                f"There is no evaluator {name!r}.", hint=f"The evaluators are {', '.join(by_name)}."
            )
        if by_name[name].unit:
            raise InputError(
                f"{name!r} is measured in {by_name[name].unit}; a report card needs scores in [0, "
                "1]."
            )
    chosen = [by_name[name] for name in names] if names else [e for e in evaluators if not e.unit]
    if not chosen:
        raise InputError(
            "No evaluator gives scores in [0, 1], so there is nothing to check.",
            hint="The agent's own reward has no report card.",
        )
    return chosen


async def _check(
    project: Project,
    store: Store,
    evaluators: Sequence[Evaluator],
    names: Sequence[str] | None,
    seed: int,
    *,
    quiet: bool,
) -> list[ReportCard]:
    tasks: Sequence[Task] = ()
    if project.has_tasks():
        tasks = tasks_to_measure_with(project_dataset(project, skip_bad=True)[0])
    cases = cases_in(store, tasks)
    if not cases:
        raise InputError(
            "There is no output to check evaluators with: no rollout has succeeded yet, and no"
            " train or val task has an expected answer.",
            hint="Create outputs: ratchet eval",
        )
    cards: list[ReportCard] = []
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    hidden = quiet or not err.is_terminal
    with Progress(*columns, console=err, transient=True, disable=hidden) as progress:
        for evaluator in _selected(evaluators, names):
            bar = progress.add_task(evaluator.name, total=None)
            advance = functools.partial(_advance, progress, bar, evaluator, cases)
            try:
                card = await report_card(
                    project, store, evaluators, evaluator, cases, seed=seed, on_probe=advance
                )
            except BudgetExhausted as error:
                made_so_far = ", ".join(card.evaluator for card in cards) or "none"
                raise BudgetExhausted(
                    f"{error.message} Report cards made: {made_so_far}.",
                    hint=error.hint,
                ) from None
            cards.append(card)
    return cards


def _advance(
    progress: Progress,
    bar: TaskID,
    evaluator: Evaluator,
    cases: Sequence[Case],
    probes: int,
    of: int,
) -> None:
    if not probes and (announcement := announced_card(evaluator, cases, of)):
        err.print(announcement, style="dim", markup=False)
    progress.update(bar, completed=probes, total=of)


def _print_cards(cards: Sequence[ReportCard]) -> None:
    numbers = ("outputs", "labels", "s/score", "$/1,000")
    rows = table("evaluator", "verdict", *numbers, "reason", right=numbers)
    for card in cards:
        rows.add_row(
            card.evaluator,
            _verdict(card),
            str(card.rollouts),
            str(card.labels),
            f"{card.seconds:.2g}",
            "?" if card.cost_usd is None else f"{1_000 * card.cost_usd:.2f}",
            _reason(card),
        )
    out.print(rows)
    for card in cards:
        for reason in card.reasons[1:] if card.verdict != "decides" else ():
            out.print(f"{card.evaluator}: {reason}", style="dim", markup=False)
        if card.labels_needed:
            more = counted(card.labels_needed, "more label")
            out.print(f"{card.evaluator} needs {more}: ratchet label", style="dim", markup=False)


def _print_checks(card: ReportCard) -> None:
    rows = table("check", "value", "95 %", "n", "alone", "", right=("value", "n"))
    for check in card.checks:
        rows.add_row(
            check.name,
            number(check.value),
            _interval(check),
            str(check.n),
            f"[{_COLORS[check.verdict]}]{check.verdict}[/]",
            escape(check.detail),
        )
    out.print(rows)


def _interval(check: CardCheck) -> str:
    if check.low is None or check.high is None:
        return ""
    return f"{check.low:.2f} to {check.high:.2f}"


def _verdict(card: ReportCard) -> str:
    return f"[{_COLORS[card.verdict]}]{card.verdict}[/]"


def _reason(card: ReportCard) -> str:
    return escape(card.reasons[0]) if card.reasons else ""
