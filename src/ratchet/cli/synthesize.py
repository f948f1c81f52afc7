"""`ratchet datasets synthesize`: makes tasks from real ones, with the coach or without a model."""

from __future__ import annotations

import json as json_text
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ratchet.cli.console import (
    Folder,
    Json,
    one_line,
    out,
    print_json,
    project_in,
    short,
    table,
    wait_for,
)
from ratchet.cli.errors import err
from ratchet.cli.named_dataset import find_dataset, how_to_use
from ratchet.types import SPLITS, Cost, InputError
from ratchet.types.wording import counted

if TYPE_CHECKING:
    from ratchet.curate.synthesis import Synthesis

MAX_TASKS_PRINTED = 12


def synthesize(
    name: Annotated[str, typer.Argument(help="Name of the dataset, or NAME@VERSION.")],
    num_samples: Annotated[
        int, typer.Option("--num-samples", "-n", min=1, help="Number of tasks to make.")
    ] = 20,
    method: Annotated[
        list[str] | None,
        typer.Option(help="slots, rewording, boundary or coach; repeatable. All by default."),
    ] = None,
    oracle: Annotated[
        str | None,
        typer.Option(help="MODULE:FUNCTION that returns the right answer to an input."),
    ] = None,
    solver: Annotated[
        list[str] | None,
        typer.Option(
            help="Who answers the tasks: coach or agent. An answer counts if all tries agree."
        ),
    ] = None,
    tries: Annotated[int, typer.Option(min=2, max=20, help="Number of tries per solver.")] = 3,
    keep_open: Annotated[
        bool, typer.Option("--open", help="Keep tasks without a known answer.")
    ] = False,
    split: Annotated[
        str,
        typer.Option(help="Split that the tasks are made from and added to: train, val or test."),
    ] = "train",
    schema: Annotated[
        Path | None, typer.Option(help="JSON Schema of the inputs; inferred by default.")
    ] = None,
    persona: Annotated[
        list[str] | None, typer.Option(help="For the coach: a kind of user who asks; repeatable.")
    ] = None,
    edge_case: Annotated[
        list[str] | None, typer.Option(help="For the coach: a difficulty to pose; repeatable.")
    ] = None,
    max_calls: Annotated[int, typer.Option(min=1, help="Maximum number of coach calls.")] = 500,
    max_dollars: Annotated[
        float | None, typer.Option(min=0, help="Maximum cost of the coach, in dollars.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the tasks without storing a new version.")
    ] = False,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Make tasks that resemble a dataset's, and store its next version.

    Without a model: by recombining the varying parts of real inputs, by changes that keep the
    answer, and from the boundaries of the inputs' schema. With a coach: inputs for personas, edge
    cases and what live traffic has and the dataset lacks; an answer counts where all tries agree.

    The tasks go to the train split, unless another is asked for. An interrupted run continues
    without repeating a coach call.

    Examples:

      ratchet datasets synthesize tasks --num-samples 50

      ratchet datasets synthesize tasks -n 20 --method boundary --oracle checks:right_answer

      ratchet datasets synthesize tasks -n 100 --solver coach --solver agent --max-dollars 2
    """
    from ratchet.autopilot.synthesis import METHODS, SOLVERS, SynthesisPlan, synthesize_tasks

    for choice in method or ():
        _one_of(choice, METHODS, "--method")
    for choice in solver or ():
        _one_of(choice, SOLVERS, "--solver")
    _one_of(split, SPLITS, "--split")
    if oracle is not None and solver:
        raise InputError("--oracle and --solver cannot be combined: an oracle is always right.")
    project = project_in(folder)
    options = {
        "count": num_samples,
        "methods": method or (),
        "oracle": oracle or "",
        "solvers": solver or (),
        "tries": tries,
        "keep_open": keep_open,
        "split": split,
        "schema": None if schema is None else _read_schema(schema),
        "max_calls": max_calls,
        "max_dollars": max_dollars,
        "seed": seed,
        **({"personas": persona} if persona else {}),
        **({"edge_cases": edge_case} if edge_case else {}),
    }
    plan = msgspec.convert(options, SynthesisPlan)
    with project.open_store() as store:
        dataset = find_dataset(project, store, name)
        with _Bar(num_samples) as advance:
            work = synthesize_tasks(project, store, dataset, plan, say=_say, on_progress=advance)
            synthesis, calls, cost = wait_for(work, paid_by=project)
        after = synthesis.into(dataset, plan.split)
        stored = after is not dataset and not dry_run
        if stored:
            now = time.time()
            store.datasets.put(dataset, now)
            store.datasets.put(after, now + 1e-6)
    if json:
        print_json(
            {
                "dataset": dataset.name,
                "parent": dataset.version,
                "version": after.version if stored else None,
                "tasks": synthesis.tasks,
                "dropped": synthesis.dropped,
                "ended": synthesis.ended,
                "coach_calls": calls,
                "cost_usd": cost.usd,
            }
        )
        return
    _print(synthesis, calls, cost)
    if stored:
        out.print(f"[green]Made[/] {after.name}@{short(after.version)}: {after.reason}")
        out.print(how_to_use(project, after), markup=False)
        out.print(f"Undo: the earlier version is {dataset.name}@{dataset.version}", style="dim")


def _say(sentence: str) -> None:
    err.print(sentence, style="dim", markup=False)


def _read_schema(path: Path) -> dict[str, Any]:
    try:
        schema = json_text.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"The schema {path} cannot be read: {error}.") from None
    if not isinstance(schema, dict):
        raise InputError(f"The schema {path} is not a JSON object.")
    return schema


def _one_of(choice: str, choices: Sequence[str], option: str) -> None:
    if choice not in choices:
        raise InputError(f"{option} {choice!r} is not one of {', '.join(choices)}.")


class _Bar:
    """A progress bar of kept tasks, on standard error."""

    def __init__(self, count: int) -> None:
        columns = (
            TextColumn("  tasks"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=err, transient=True)
        self._bar = self._progress.add_task("tasks", total=count)

    def __enter__(self) -> Callable[[int], None]:
        if err.is_terminal:
            self._progress.start()
        return lambda tasks: self._progress.update(self._bar, completed=tasks)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _print(synthesis: Synthesis, calls: int, cost: Cost) -> None:
    if synthesis.tasks:
        rows = table("input", "expected", "made by")
        for task in synthesis.tasks[:MAX_TASKS_PRINTED]:
            cells = (task.input, task.expected, task.origin.by)
            rows.add_row(*(one_line(cell, 70).replace("[", "\\[") for cell in cells))
        out.print(rows)
        if len(synthesis.tasks) > MAX_TASKS_PRINTED:
            out.print(f"{len(synthesis.tasks) - MAX_TASKS_PRINTED} more.", style="dim")
    for reason, count in sorted(synthesis.dropped.items(), key=lambda dropped: -dropped[1])[:8]:
        out.print(f"  {count} dropped: {reason}", style="dim", markup=False)
    if calls:
        out.print(f"  {counted(calls, 'coach call')}, {cost}", style="dim", markup=False)
    if synthesis.ended:
        out.print(
            f"{counted(len(synthesis.tasks), 'task')} made. {synthesis.ended}", style="yellow"
        )
