"""`ratchet frozen`: the tasks that keep fixed problems fixed; people correct them here."""

from __future__ import annotations

import getpass
import json as json_module
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from ratchet.autopilot.freezing import corrected
from ratchet.cli.console import (
    Folder,
    Json,
    one_line,
    out,
    print_json,
    project_in,
    short,
    table,
)
from ratchet.store import Store
from ratchet.types import FrozenSet, InputError
from ratchet.types.wording import counted

frozen = typer.Typer(
    help="Show the tasks that keep fixed problems fixed, and correct their answers.",
    no_args_is_help=True,
)

SetId = Annotated[str, typer.Argument(metavar="SET", help="The set's id, or the start of the id.")]


@frozen.command("list")
def list_sets(folder: Folder = Path("."), json: Json = False) -> None:
    """List the frozen sets of the project, in the order in which experiments choose them.

    Examples:

      ratchet frozen list

      ratchet frozen list --json
    """
    project = project_in(folder)
    with project.open_store() as store:
        sets = store.frozen_sets.of_project(project.identity())
    if json:
        print_json({"frozen_sets": sets})
        return
    if not sets:
        out.print(
            "There is no frozen set yet. A release that fixes a problem creates one, if traces of "
            "that problem are among the tasks."
        )
        return
    rows = table(
        "set",
        "problem",
        "tasks",
        "share × loss",
        "corrections",
        "frozen",
        right=("tasks", "share × loss"),
    )
    for frozen_set in sets:
        rows.add_row(
            short(frozen_set.id),
            Text(one_line(frozen_set.title, 60)),
            str(len(frozen_set.tasks)),
            f"{frozen_set.loss:.3g}",
            str(len(frozen_set.corrections)),
            _day(frozen_set.created_at),
        )
    out.print(rows)


@frozen.command()
def show(frozen_set: SetId, folder: Folder = Path("."), json: Json = False) -> None:
    """Show a frozen set: its tasks with their expected answers, and its corrections.

    Examples:

      ratchet frozen show 1a2b3c4d

      ratchet frozen show 1a2b3c4d --json
    """
    project = project_in(folder)
    with project.open_store() as store:
        selected = _selected(store, project.identity(), frozen_set)
    if json:
        print_json(selected)
        return
    _print(selected)


@frozen.command()
def correct(
    frozen_set: SetId,
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task's id.")],
    reason: Annotated[str, typer.Option(help="Why the answer was wrong, in one sentence.")],
    expected: Annotated[
        str | None, typer.Option(metavar="JSON", help="The right answer, as JSON.")
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the task: it has no right answer.")
    ] = False,
    by: Annotated[
        str,
        typer.Option(
            help="Name of the person who makes the correction; by default the current user."
        ),
    ] = "",
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Correct the expected answer of a frozen task, or remove the task; the set records it.

    Experiments that begin later use the corrected set; one that is under way goes on as it began.

    Examples:

      ratchet frozen correct 1a2b3c4d q0017 --expected '"2026-03-01"' --reason "Typing error"

      ratchet frozen correct 1a2b3c4d q0017 --remove --reason "The question has two answers"
    """
    if (expected is None) != remove:
        raise InputError(
            "Give either --expected or --remove.",
            hint="""--expected takes JSON: --expected '"a text"', --expected 42.""",
        )
    answer = None if expected is None else _answer(expected)
    project = project_in(folder)
    with project.open_store() as store:
        before = _selected(store, project.identity(), frozen_set)
        after = corrected(
            before, task, answer, by=by or getpass.getuser(), reason=reason, at=time.time()
        )
        store.frozen_sets.put(after)
    if json:
        print_json(after)
        return
    done = "Removed" if remove else "Corrected"
    out.print(
        f"{done} task {task} of frozen set {short(after.id)}, which has"
        f" {counted(len(after.tasks), 'task')} in version {after.version}.",
        markup=False,
    )
    if not after.tasks:
        out.print("It has no tasks left, so it no longer guards against anything.")


def _answer(text: str) -> Any:
    try:
        answer = json_module.loads(text)
    except ValueError as error:
        raise InputError(
            f"--expected {text!r} is not JSON: {error}.",
            hint="""Text needs quotes: --expected '"a text"'.""",
        ) from None
    if answer is None:
        raise InputError("--expected null is not an answer.", hint="To remove the task: --remove.")
    return answer


def _selected(store: Store, project: str, prefix: str) -> FrozenSet:
    matches = [found for found in store.frozen_sets.find(prefix) if found.project == project]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise InputError(
            f"This project has no frozen set {prefix!r}.", hint="List them: ratchet frozen list."
        )
    raise InputError(
        f"The ids of several frozen sets begin with {prefix!r}: "
        f"{', '.join(short(m.id) for m in matches)}.",
        hint="Give more digits of the id.",
    )


def _print(frozen_set: FrozenSet) -> None:
    out.print(
        f"Frozen set {short(frozen_set.id)}, version {frozen_set.version}, of problem"
        f" {short(frozen_set.problem_id)}: {frozen_set.title}",
        markup=False,
    )
    rows = table("task", "input", "expected")
    for task in frozen_set.tasks:
        rows.add_row(
            Text(task.id),
            Text(one_line(_text(task.input), 80)),
            Text(one_line(_text(task.expected), 60)),
        )
    out.print(rows)
    for correction in frozen_set.corrections:
        what = (
            f"removed, expected {one_line(_text(correction.before), 40)}"
            if correction.after is None
            else f"{one_line(_text(correction.before), 40)} →"
            f" {one_line(_text(correction.after), 40)}"
        )
        out.print(
            f"{_day(correction.at)} {correction.task_id}: {what}. {correction.by}:"
            f" {correction.reason}",
            markup=False,
        )


def _text(value: Any) -> str:
    return "" if value is None else json_module.dumps(value, ensure_ascii=False)


def _day(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d")
