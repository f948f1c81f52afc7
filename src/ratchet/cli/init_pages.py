"""What `ratchet init` asks and shows: questions, page, plan, check, and what undo did."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.syntax import Syntax

from ratchet.cli.console import counted, out, print_json
from ratchet.types import InputError

if TYPE_CHECKING:
    from ratchet.wire.choices import Choices
    from ratchet.wire.coaching import Consultation
    from ratchet.wire.facts import RepositoryLook
    from ratchet.wire.former import FormerPlan
    from ratchet.wire.recommending import PageSection, Question

SHOWN = 20
"""Lines of what is left alone; --json has all."""


def in_git(folder: Path) -> bool:
    """Whether a folder is, or lies in, a git repository."""
    folder = folder.resolve()
    return any((one / ".git").exists() for one in (folder, *folder.parents))


def ask(question: Question) -> str:
    """One question; Enter takes the default."""
    out.print(f"\n{question.text}", markup=False, style="bold")
    out.print(question.why, markup=False)
    values = [option.value for option in question.options]
    for number, option in enumerate(question.options, 1):
        mark = "*" if option.value == question.default else " "
        out.print(f" {mark}{number:3}  {option.label}", markup=False)
    prompt = "Numbers, separated by commas" if question.several else "Number"
    while True:
        text = typer.prompt(prompt, default="none" if question.several else "*").strip()
        if text in ("*", "none", ""):
            return question.default
        parts = [part.strip() for part in text.split(",")]
        if all(part.isdigit() and 1 <= int(part) <= len(values) for part in parts) and (
            question.several or len(parts) == 1
        ):
            return ",".join(values[int(part) - 1] for part in parts)
        out.print(f"Numbers from 1 to {len(values)} are possible.", markup=False)


def consulted(root: Path, found: RepositoryLook, choices: Choices, model: str) -> Consultation:
    """What a coach says of the agent; it is shown redacted text."""
    from ratchet.cli.console import wait_for
    from ratchet.cli.errors import err
    from ratchet.cli.redaction import redactor_of_folder
    from ratchet.wire.coaching import consult

    def say(sentence: str) -> None:
        err.print(sentence, style="dim", markup=False)

    say(f"Asking {model} about the agent; secrets and personal data are redacted.")
    return wait_for(
        consult(
            root,
            found,
            choices,
            model,
            redactor=redactor_of_folder(root / choices.project),
            say=say,
        )
    )


def print_page(sections: Sequence[PageSection]) -> None:
    """Print the page of advice."""
    for section in sections:
        out.print(f"\n{section.title}", markup=False, style="bold")
        for line in section.lines:
            out.print(f"  {line}", markup=False)


def print_plan(root: Path, plan: FormerPlan, *, diff: bool) -> None:
    """Print what a plan writes and leaves alone."""
    from ratchet.wire.former import dry_run as diff_of

    out.print("\nWhat is written", style="bold")
    for one in plan.changes.files:
        out.print(f"  {one.path}: {one.purpose}", markup=False)
    if plan.left_alone:
        out.print("\nWhat is left alone", style="bold")
        # What needs a person's hand comes before the many files that a program writes.
        ordered = sorted(plan.left_alone, key=lambda one: "in rollouts too" in one.why)
        for left in ordered[:SHOWN]:
            out.print(f"  {left.what} ({left.place}): {left.why}", markup=False)
        if len(plan.left_alone) > SHOWN:
            out.print(f"  and {len(plan.left_alone) - SHOWN} more; --json has all.", markup=False)
    if diff:
        out.print()
        out.print(Syntax(diff_of(root, plan), "diff", theme="ansi_dark", word_wrap=True))


def check_wiring(
    path: Path, python: Path | None, variables: Sequence[str] = (), *, json: bool
) -> None:
    """Check a wiring, with these variables from here; exits with 1 if something failed."""
    from ratchet.cli.errors import err
    from ratchet.wire.checking import check

    unset = [name for name in variables if name not in os.environ]
    if unset:
        raise InputError(
            f"{', '.join(unset)} is not set in this environment.",
            hint=f"{unset[0]}=… ratchet init --check --variable {unset[0]}",
        )
    given = {name: os.environ[name] for name in variables}
    report = check(
        path,
        python=python,
        variables=given,
        say=lambda sentence: err.print(sentence, style="dim", markup=False),
    )
    if json:
        print_json(report)
    else:
        colours = {"verified": "green", "failed": "red", "not verified": "yellow"}
        for one in report.findings:
            out.print(f"[{colours[one.state]}]{one.state:>12}[/]  ", end="")
            out.print(f"{one.what}: {one.why}", markup=False)
            if one.next_step:
                out.print(f"{'':14}next: {one.next_step}", markup=False)
    if report.failed:
        raise typer.Exit(1)


def undo_wiring(path: Path, branch: str | None, *, force: bool, no_git: bool, json: bool) -> None:
    """Take a wiring back: by a commit, or in place where there is no git or none is wanted."""
    from ratchet.wire.former import undo
    from ratchet.wire.former.undo import BRANCH as UNDO_BRANCH
    from ratchet.wire.former.undo import find_record

    plain = no_git or not in_git(find_record(path)[0])
    report = undo(path, branch=branch or UNDO_BRANCH, force=force, write=plain)
    if json:
        print_json(report)
        return
    gone = [*report.changed, *report.removed]
    out.print(f"Taken back: {', '.join(gone) or 'nothing'}.", markup=False)
    for kept in report.kept:
        out.print(f"Kept: {kept.place} {kept.why}", markup=False)
    if report.commit:
        out.print(f"Committed to {report.branch} ({report.commit[:8]}).", markup=False)
        if not report.switched:
            out.print(report.why_not, markup=False)
    elif report.kept:
        out.print(f"{counted(len(report.kept), 'piece')} left.", markup=False)
    elif plain:
        out.print("Written in place; there is no commit.", markup=False)
