"""`ratchet init`: wires an agent into Ratchet with one commit, checks it, and takes it back."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ratchet.cli.console import Json, counted, out, print_json
from ratchet.cli.init_pages import (
    ask,
    check_wiring,
    consulted,
    in_git,
    print_page,
    print_plan,
    undo_wiring,
)
from ratchet.types import InputError

if TYPE_CHECKING:
    from ratchet.wire.choices import Choices
    from ratchet.wire.facts import RepositoryLook
    from ratchet.wire.former import FormerPlan
    from ratchet.wire.recommending import Recommendation

BRANCH = "ratchet/init"
_NO_BRANCH = (
    "The files are changed in place, and no branch keeps them as they were. .ratchet-init.json"
    " records each piece, and ratchet init --undo takes them back from it: keep that file."
)


def init(
    path: Annotated[
        Path, typer.Argument(metavar="[PATH]", help="Folder of the repository.")
    ] = Path("."),
    look: Annotated[
        bool, typer.Option("--look", help="Say what the repository is; change nothing.")
    ] = False,
    advice: Annotated[
        bool, typer.Option("--advice", help="Give the advice and its questions; change nothing.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be written; write nothing.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Ask nothing: take the defaults, and commit.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take back what ratchet init made; edits are kept.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --undo: remove created files that were edited.")
    ] = False,
    project: Annotated[
        str | None, typer.Option(help="Folder of the project, where there are several.")
    ] = None,
    entry: Annotated[str | None, typer.Option(help="What a task runs, as PATH:NAME.")] = None,
    allow_tool: Annotated[
        list[str] | None,
        typer.Option("--allow-tool", help="A tool with side effects that may act in rollouts."),
    ] = None,
    workflow: Annotated[
        bool, typer.Option("--workflow", help="Add a CI job that verifies pull requests.")
    ] = False,
    branch: Annotated[str, typer.Option(help="Name of the new branch.")] = BRANCH,
    no_git: Annotated[
        bool,
        typer.Option("--no-git", help="Write the files in place, without a branch and a commit."),
    ] = False,
    check: Annotated[
        bool | None,
        typer.Option(
            "--check/--no-check",
            help="Only check an earlier wiring; or do not check after this one.",
            show_default=False,
        ),
    ] = None,
    coach: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Ask this model for its opinion, and for drafts of evaluators and tasks.",
        ),
    ] = None,
    python: Annotated[
        Path | None,
        typer.Option(help="Interpreter that has the agent's packages, for the check."),
    ] = None,
    variable: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A variable of this environment that the agent gets in the check, such as the"
            " address of a test database.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Wire the agent of a repository into Ratchet, as one commit on a branch of its own.

    Reads the repository, recommends, asks at most three questions, and shows every change before it
    is made. Nothing of the repository is run, no .env file is opened, and nothing that exists is
    overwritten. A second run adds only what is new.

    Examples:

      ratchet init --look

      ratchet init --dry-run

      ratchet init ../my-agent --yes

      ratchet init --coach gpt-5-mini

      ratchet init --no-git

      ratchet init --check

      ratchet init --undo --dry-run

      ratchet init --undo
    """
    if undo and dry_run:
        _preview_undo(path, json=json)
        return
    if undo:
        undo_wiring(
            path, None if branch == BRANCH else branch, force=force, no_git=no_git, json=json
        )
        return
    if check:
        check_wiring(path, python, variable or (), json=json)
        return
    from ratchet.wire import look as look_at

    if coach and (look or _wired(path)):
        raise InputError(
            "The coach is asked when a repository is wired for the first time.",
            hint="Later: ratchet evaluators generate, and ratchet datasets synthesize.",
        )
    if look:
        from ratchet.cli.init_look import print_look
        from ratchet.wire.looking import look as take_inventory

        inventory = take_inventory(path)
        print_json(inventory) if json else print_look(inventory)
        return
    given = _Given(project, entry, tuple(allow_tool or ()), workflow, coach, no_git)
    if advice:
        _advise(path, given, json=json)
        return
    asks = not (yes or dry_run or json)
    if asks and not sys.stdin.isatty():
        raise InputError(
            "ratchet init asks questions, and there is no terminal to answer them.",
            hint="Take the defaults with --yes, or see them first with --dry-run.",
        )
    if _wired(path):
        _again(path, given, branch, dry_run=dry_run, asks=asks, json=json)
    else:
        _first(path, look_at(path), given, branch, dry_run=dry_run, asks=asks, json=json)
    if check is None and not dry_run and not json and _wired(path):
        out.print("\nChecking it against a simulated model…", markup=False)
        check_wiring(path, python, variable or (), json=False)


class _Given:
    """What the options answer already."""

    def __init__(
        self,
        project: str | None,
        entry: str | None,
        tools: tuple[str, ...],
        workflow: bool,
        coach: str | None = None,
        no_git: bool = False,
    ) -> None:
        self.project = project
        self.entry = entry
        self.tools = tools
        self.workflow = workflow
        self.coach = coach
        self.no_git = no_git

    def advice(self, found: RepositoryLook, project: str | None = None) -> Recommendation:
        """The recommendation with these answers."""
        from ratchet.wire.recommending import recommend
        from ratchet.wire.recommending.choosing import entry_named, projects

        chosen = project or self.project
        entry = None
        if self.entry is not None:
            entry = entry_named(found, chosen or projects(found)[0], self.entry)
        return recommend(found, chosen, entry=entry, may_run=self.tools, workflow=self.workflow)

    def check_git(self, root: Path) -> None:
        """Refuse a folder without git, unless it was said that there is none."""
        if not self.no_git and not in_git(root):
            raise InputError(
                f"{root} is not in a git repository.",
                hint="Make it one (git init && git add -A && git commit), or write the files in"
                " place: ratchet init --no-git",
            )


def _advise(path: Path, given: _Given, *, json: bool) -> None:
    from ratchet.wire import look as look_at

    advice = given.advice(look_at(path))
    if json:
        print_json(advice)
        return
    print_page(advice.sections)
    for question in advice.questions:
        out.print(f"\n{question.text}", markup=False, style="bold")
        out.print(question.why, markup=False)


def _preview_undo(path: Path, *, json: bool) -> None:
    """Say what --undo would do."""
    from ratchet.wire.former.plan import read
    from ratchet.wire.former.record import decoded, read_record
    from ratchet.wire.former.undo import find_record, undone_of

    root, name = find_record(path)
    undone = undone_of(root, read_record(decoded(read(root, name) or b""), name))
    changed = [file for file, data in undone.contents.items() if data is not None]
    removed = [file for file, data in undone.contents.items() if data is None]
    if json:
        print_json({"would_change": changed, "would_remove": removed, "kept": undone.kept})
        return
    for what, files in (("change", changed), ("remove", removed)):
        out.print(f"Would {what}: {', '.join(files) or 'nothing'}.", markup=False)
    for kept in undone.kept:
        out.print(f"Would keep: {kept.place} {kept.why}", markup=False)
    out.print("Nothing was written. To do it: ratchet init --undo", markup=False)


def _wired(path: Path) -> bool:
    from ratchet.wire.former.undo import find_record

    try:
        find_record(path)
    except InputError:
        return False
    return True


def _first(
    path: Path,
    found: RepositoryLook,
    given: _Given,
    branch: str,
    *,
    dry_run: bool,
    asks: bool,
    json: bool,
) -> None:
    from ratchet.wire.former import make_plan
    from ratchet.wire.former.plan import own_steps

    advice = given.advice(found)
    if advice.choices is None:
        section = advice.sections[0]
        raise InputError(f"{section.title}. {section.lines[0]}", hint=" ".join(section.lines[1:]))
    if not dry_run:
        given.check_git(Path(found.root))
    if asks:
        advice = _asked(found, given, advice)
    assert advice.choices is not None
    root, steps, said = Path(found.root), own_steps(), None
    if given.coach:
        said = consulted(root, found, advice.choices, given.coach)
        steps = [*steps, said.step]
    plan = make_plan(root, found, advice.choices, steps)
    if not json:
        print_page([*advice.sections, *([said.section()] if said else [])])
    more = {"coach": said} if said else {}
    where = None if given.no_git else branch
    _apply(root, plan, where, dry_run=dry_run, asks=asks, json=json, more=more)


def _again(
    path: Path, given: _Given, branch: str, *, dry_run: bool, asks: bool, json: bool
) -> None:
    from ratchet.wire.former.again import again

    def choose(found: RepositoryLook, project: str) -> Choices:
        choices = given.advice(found, project).choices
        if choices is None:
            raise InputError("The code no longer holds an agent that is known.")
        return choices

    found = again(path, choose)
    if not json:
        for kept in found.kept:
            out.print(f"Kept: {kept.place} {kept.why}", markup=False)
        for misfit in found.misfits:
            out.print(f"No longer fits: {misfit.place} {misfit.what}", markup=False)
        if found.misfits:
            out.print("See what to do: ratchet doctor", markup=False)
        if not found.plan.changes.files:
            out.print("It is wired already, and nothing is new.", markup=False)
            return
    if json and not found.plan.changes.files:
        print_json({"files": [], "left_alone": found.plan.left_alone, "kept": found.kept})
        return
    if not dry_run:
        given.check_git(Path(found.root))
    where = None if given.no_git else branch
    _apply(Path(found.root), found.plan, where, dry_run=dry_run, asks=asks, json=json)


def _asked(found: RepositoryLook, given: _Given, advice: Recommendation) -> Recommendation:
    """The recommendation after the questions: which project first, since others follow from it."""
    for key in ("project", "entry", "tools"):
        question = next((one for one in advice.questions if one.key == key), None)
        if question is None:
            continue
        answer = ask(question)
        if key == "project":
            given.project = answer
        elif key == "entry":
            given.entry = answer
        else:
            given.tools = tuple(part for part in answer.split(",") if part)
        advice = given.advice(found)
    return advice


def _apply(
    root: Path,
    plan: FormerPlan,
    branch: str | None,
    *,
    dry_run: bool,
    asks: bool,
    json: bool,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Show a plan, and commit it, or write it without a branch, unless it is a dry run."""
    from ratchet.wire.checking import run_once
    from ratchet.wire.former import commit, write
    from ratchet.wire.former import dry_run as diff_of

    shown: dict[str, Any] = {
        "choices": plan.choices,
        "files": [{"path": one.path, "purpose": one.purpose} for one in plan.changes.files],
        "left_alone": plan.left_alone,
        **(more or {}),
    }
    if not json:
        print_plan(root, plan, diff=dry_run or asks)
    if dry_run:
        if json:
            print_json({**shown, "diff": diff_of(root, plan)})
        else:
            out.print("\nNothing was written. To do it: ratchet init", markup=False)
        return
    if branch is None and not json:
        out.print(f"\n{_NO_BRANCH}", markup=False)
    question = "Write these files?" if branch is None else f"Commit this to the branch {branch}?"
    if asks and not typer.confirm(question, default=True):
        out.print("Nothing was written.", markup=False)
        return
    if branch is None:
        write(root, plan)
        if json:
            print_json({**shown, "branch": None, "commit": None})
            return
        out.print(f"\nWrote {counted(len(plan.changes.files), 'file')}.", markup=False)
    else:
        done = commit(root, plan, branch)
        if json:
            print_json({**shown, "branch": done.branch, "commit": done.commit})
            return
        out.print(f"\nCommitted to {done.branch} ({done.commit[:8]}).", markup=False)
        if not done.switched:
            out.print(done.why_not, markup=False)
    if "agent" in plan.config:
        once = run_once(root, plan.choices.project)
        out.print(f"Next: install what was added, then: {once}", markup=False)
    else:
        out.print("Next: write ratchet_agent.py, then: ratchet init", markup=False)
    out.print("To take it back: ratchet init --undo", markup=False)
