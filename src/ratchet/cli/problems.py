"""`ratchet problems`: what goes wrong with the agent in live traffic, worst first."""

from __future__ import annotations

import asyncio
import getpass
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.text import Text

from ratchet.autopilot.live_scores import live_scores
from ratchet.autopilot.problem_answers import ProblemList, problem_detail, problem_list
from ratchet.autopilot.problem_names import name_problems, unnamed
from ratchet.autopilot.problem_readings import MAX_TRACES_READ, ask_coach, problems_coach
from ratchet.autopilot.problem_reports import DAYS
from ratchet.autopilot.problem_scan import LOW_SCORE, Scanned, scan
from ratchet.autopilot.problem_work import find_problem
from ratchet.autopilot.pull_requests import refresh_releases
from ratchet.cli.console import (
    Folder,
    Json,
    format_dollars,
    format_recent_time,
    one_line,
    out,
    print_json,
    project_in,
    short,
    table,
    wait_for,
)
from ratchet.cli.errors import err
from ratchet.cli.keys import StoreUrl, open_store
from ratchet.observe.project_paths import folder_with_config
from ratchet.store import Store
from ratchet.types import (
    NEEDS_WORK,
    PROBLEM_TRANSITIONS,
    Conflict,
    InputError,
    Occurrence,
    Problem,
    ProblemReport,
    ProblemState,
)
from ratchet.types.wording import counted

problems = typer.Typer(help="Find the agent's problems in live traffic, worst first.")

DEFAULT_PROBLEMS_SHOWN = 20
DEFAULT_TRACES_SHOWN = 5

UNSETTLED = PROBLEM_TRANSITIONS.keys() - {"fixed", "ignored"}
"""States of the problems that are listed by default."""

KIND_WORDS = {
    "error": "error",
    "low_score": "low score",
    "negative_feedback": "complaint",
    "retry": "asked again",
    "abandonment": "abandoned",
    "loop": "loop",
    "refusal": "refusal",
    "guardrail": "guardrail",
    "cut_off": "cut off",
}
_BARS = "▁▂▃▄▅▆▇█"

Id = Annotated[str, typer.Argument(metavar="ID", help="Start of the problem's id.")]
Why = Annotated[str, typer.Option("--reason", help="The reason, for later readers.")]


@problems.callback(invoke_without_command=True)
def list_(
    context: typer.Context,
    agent: Annotated[str | None, typer.Option(help="Only problems of this agent.")] = None,
    state: Annotated[
        Literal["open", "learning", "proposed", "fixed", "returned", "ignored", "all"] | None,
        typer.Option(
            help="Only problems in this state; by default all except fixed and ignored ones."
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000)] = DEFAULT_PROBLEMS_SHOWN,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Find the agent's problems in live traffic, worst first.

    New traces are looked through first. A problem is a kind of failure: errors, low scores,
    complaints, refusals, loops and the like that resemble one another. It keeps its id, and its
    weight is its share of traffic × how bad it is.

    Examples:

      ratchet problems

      ratchet problems --agent support --state returned

      ratchet problems show 3f2a9c

      ratchet problems ignore 3f2a9c --reason "known, fixed upstream next week"

      ratchet improve --problem 3f2a9c
    """
    if context.invoked_subcommand is not None:
        return
    now = time.time()
    with open_store(folder, store, must_exist=True) as opened:
        scanned = _scan(opened, folder, store, now)
        states = UNSETTLED if state is None else None if state == "all" else {state}
        listed = problem_list(opened, now=now, agent=agent, states=states, limit=limit)
    if json:
        print_json(listed)
        return
    found = listed.problems
    for problem in scanned.returned:
        out.print(Text(f"Returned: {problem.id[:6]}  {one_line(problem.title, 90)}", style="red"))
    if not found:
        out.print(_none(listed.traces, agent, state), markup=False)
        _print_coverage(listed)
        return
    _print_list(found, listed.traces, now)
    if listed.total > len(found):
        out.print(f"{listed.total - len(found)} more: --limit {listed.total}.", style="dim")
    _print_coverage(listed)
    worst = next((r.problem for r in found if r.problem.state in NEEDS_WORK), None)
    if worst is not None:
        out.print(
            f"Show one: ratchet problems show {worst.id[:6]}. Work on it: ratchet improve"
            f" --problem {worst.id[:6]}.",
            style="dim",
            markup=False,
        )


def _scan(opened: Store, folder: Path, url: str | None, now: float) -> Scanned:
    """Look through new traces, and print progress if that takes long."""
    began = time.monotonic()
    told = 0.0

    def on_page(traces: int) -> None:
        nonlocal told
        if time.monotonic() - max(began, told) > 2.0:
            told = time.monotonic()
            err.print(f"Looking through new traces: {traces} so far.", style="dim")

    score, low_score = None, LOW_SCORE
    if url is None and folder_with_config(folder) is not None:
        project = project_in(folder)
        score, low_score = live_scores(project, opened)
        if opened.problems.list(state="proposed"):  # merged meanwhile, or closed
            _, unread = refresh_releases(project, opened)
            for sentence in unread:
                err.print(
                    "Pull requests could not be read, so their last known state is shown: "
                    f"{sentence}",
                    markup=False,
                )
    scanned = asyncio.run(scan(opened, now=now, score=score, low_score=low_score, on_page=on_page))
    if scanned.elsewhere:
        err.print(
            "Another process is reading new traces; these are the problems found so far.",
            style="dim",
        )
    return scanned


def _print_coverage(listed: ProblemList) -> None:
    """Print how many failing traces belong to no problem, and how many the coach has not read."""
    if listed.in_no_problem:
        verb = "is" if listed.in_no_problem == 1 else "are"
        out.print(
            f"{listed.in_no_problem} of {counted(listed.failing, 'failing trace')} {verb} in no"
            " problem yet.",
            style="dim",
        )
    if listed.unread:
        out.print(
            f"The coach can read {counted(listed.unread, 'failing trace')} and say what went wrong:"
            " ratchet problems read.",
            style="dim",
        )


def _none(traces: int, agent: str | None, state: str | None) -> str:
    if not traces:
        of = f" of {agent}" if agent else ""
        return (
            f"No trace{of} in the last {DAYS} days. Record some: ratchet init, then use the agent."
        )
    if state not in (None, "all"):
        return f"No problem is in state {state}."
    return f"No problem in {counted(traces, 'trace')} of the last {DAYS} days."


def _print_list(found: Sequence[ProblemReport], traces: int, now: float) -> None:
    out.print(f"{counted(traces, 'trace')} in the last {DAYS} days.", style="dim")
    agents = {report.problem.agent for report in found}
    rows = table(
        "problem", "what goes wrong", *(["agent"] if len(agents) > 1 else []), "kind", "state",
        "traces", "share", f"{DAYS} days", "last", "cost", right=("traces", "share", "cost"),
    )  # fmt: skip
    for report in found:
        problem = report.problem
        rows.add_row(
            Text(problem.id[:6]),
            Text(one_line(problem.title, 90)),
            *([Text(problem.agent)] if len(agents) > 1 else []),
            Text(KIND_WORDS[problem.kind]),
            Text(problem.state, style="red" if problem.state == "returned" else ""),
            Text(str(report.traces)),
            Text(f"{100 * report.share:.1f} %"),
            Text(trend(report.days)),
            Text(format_recent_time(int(problem.last_seen * 1e9), now)),
            Text(format_dollars(report.cost_usd)),
        )
    for column in rows.columns:
        column.no_wrap = column.header != "what goes wrong"
    out.print(rows)


def trend(days: Sequence[int]) -> str:
    """Counts by day as a line of bars."""
    most = max(days, default=0)
    if not most:
        return "·" * len(days)
    return "".join(
        "·" if not count else _BARS[round(count / most * (len(_BARS) - 1))] for count in days
    )


@problems.command()
def show(
    problem: Id,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Most traces.")
    ] = DEFAULT_TRACES_SHOWN,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Show a problem: what fails, in which traces, and what was done about it.

    Examples:

      ratchet problems show 3f2a9c

      ratchet problems show 3f2a9c --limit 50
    """
    now = time.time()
    with open_store(folder, store, must_exist=True) as opened:
        found = find_problem(opened, problem)
        detail = problem_detail(opened, found, now=now, limit=limit)
    if json:
        print_json(detail)
        return
    report, examples = detail.report, detail.occurrences
    out.print(Text(one_line(found.title, 200), style="bold"))
    out.print(
        f"{found.id}  {KIND_WORDS[found.kind]}  agent {found.agent}  {found.state}", markup=False
    )
    out.print(
        f"{counted(report.traces, 'trace')} of the last {DAYS} days"
        f" ({100 * report.share:.1f} % of traffic), loss {report.loss:.2f},"
        f" {format_dollars(report.cost_usd)}  {trend(report.days)}",
        markup=False,
    )
    out.print(
        f"First seen {format_recent_time(int(found.first_seen * 1e9), now)}, last"
        f" {format_recent_time(int(found.last_seen * 1e9), now)}.",
        markup=False,
    )
    for name, text in (
        ("Measured by", found.evaluator),
        ("Pull requests", ", ".join(found.requests)),
        ("Runs", ", ".join(map(short, found.run_ids))),
        ("Frozen set", found.frozen_set),
    ):
        if text:
            out.print(f"{name}: {text}", markup=False)
    for change in detail.transitions:
        by = f" by {change.by}" if change.by else ""
        out.print(
            f"  {format_recent_time(int(change.at * 1e9), now)}  {change.source} →"
            f" {change.target}{by}: {change.reason}",
            markup=False,
            style="dim",
        )
    for example in examples:
        _print_example(example, now)
    if len(examples) < report.traces:
        out.print(f"\nTo see all of its traces: --limit {report.traces}.", style="dim")
    if detail.unread:
        out.print(
            f"\nThe coach can read {detail.unread} of its traces and say what went wrong:"
            " ratchet problems read.",
            style="dim",
        )
    _print_next(found, detail.is_at_work)


def _print_example(example: Occurrence, now: float) -> None:
    out.print()
    out.print(
        f"Trace {short(example.trace_id)}, {format_recent_time(int(example.at * 1e9), now)}",
        style="bold",
    )
    for name, text in (
        ("asked", example.input),
        ("answered", example.output),
        ("wrong", example.wrong),
    ):
        if text:
            out.print(Text(f"  {name:9}{one_line(text, 400)}"))


def _print_next(found: Problem, is_at_work: bool) -> None:
    """Print what the user can do next.

    Args:
        found: The problem.
        is_at_work: Whether a process is at work on its newest run.
    """
    id = found.id[:6]
    steps = {
        "open": f"Work on it: ratchet improve --problem {id}. Ignore it: ratchet problems ignore"
        f" {id} --reason …",
        "learning": "A run is working on it: ratchet status."
        if is_at_work
        else f"Its run was interrupted. Continue: ratchet improve --problem {id}.",
        "proposed": "Review the pull request, then merge or close it; ratchet problems notices "
        f"which. Try another change: ratchet improve --problem {id}.",
        "fixed": f"It returns if it occurs again. If it is not fixed: ratchet problems reopen "
        f"{id}.",
        "ignored": f"Reopen it: ratchet problems reopen {id}.",
    }
    out.print()
    out.print(
        steps["open" if found.state == "returned" else found.state], style="dim", markup=False
    )


@problems.command()
def read(
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Most traces.")
    ] = MAX_TRACES_READ,
    agent: Annotated[str | None, typer.Option(help="Only problems of this agent.")] = None,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Have the coach read failing traces, ten per request, and say what went wrong.

    What it says decides which traces are one problem. Each trace is read once. Then it names those
    of the worst ten problems that it has not named.

    Examples:

      ratchet problems read

      ratchet problems read --limit 200
    """
    project = project_in(folder)
    with project.open_store() as opened:
        _scan(opened, folder, None, time.time())
        done = wait_for(
            ask_coach(project, opened, _say, agent=agent, limit=limit), quiet=json, paid_by=project
        )
    if json:
        print_json(done)
        return
    if not done.calls:
        out.print("The coach has read every failing trace.")
        return
    out.print(
        f"Read {counted(done.traces, 'failing trace')} in {counted(done.calls, 'call')}, for"
        f" {format_dollars(done.cost_usd) or 'an unknown price'}."
        " See the problems: ratchet problems."
    )


def _say(sentence: str) -> None:
    err.print(sentence, markup=False)


@problems.command()
def name(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...",
            help="Starts of ids; by default the ten worst problems that the coach has not named.",
        ),
    ] = None,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Have the coach write the titles, ten problems a request.

    Examples:

      ratchet problems name

      ratchet problems name 3f2a9c
    """
    project = project_in(folder)
    now = time.time()
    with project.open_store() as opened:
        wanted = [find_problem(opened, id) for id in ids] if ids else unnamed(opened, now)

        async def work() -> list[Problem]:
            async with problems_coach(project, opened, _say) as coach:
                return await name_problems(coach, opened, wanted, now, _say)

        named = wait_for(work(), quiet=json, paid_by=project) if wanted else []
    if json:
        print_json({"problems": named})
        return
    if not wanted:
        out.print("There is no problem to name. Find problems first: ratchet problems")
    for problem in named:
        out.print(f"{problem.id[:6]}  {problem.title}", markup=False)


@problems.command()
def ignore(
    problem: Id,
    reason: Why,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Ignore a problem: it is neither listed nor worked on until it is reopened.

    Examples:

      ratchet problems ignore 3f2a9c --reason "the shop closes in May"
    """
    _decide(problem, "ignored", reason, folder, store, json)


@problems.command()
def reopen(
    problem: Id,
    reason: Why = "",
    folder: Folder = Path("."),
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Reopen a problem that was ignored or marked as fixed.

    Examples:

      ratchet problems reopen 3f2a9c
    """
    _decide(problem, "open", reason, folder, store, json)


@problems.command()
def fixed(
    problem: Id,
    reason: Why = "",
    folder: Folder = Path("."),
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Mark a problem as fixed by other means. It returns if it occurs again.

    Examples:

      ratchet problems fixed 3f2a9c --reason "the archive is back"
    """
    _decide(problem, "fixed", reason, folder, store, json)


def _decide(
    prefix: str, state: ProblemState, reason: str, folder: Path, store: str | None, json: bool
) -> None:
    if state == "ignored" and not reason.strip():
        raise InputError("Say why the problem is ignored: --reason.")
    now = time.time()
    with open_store(folder, store, must_exist=True) as opened:
        found = find_problem(opened, prefix)
        if found.state == state:
            raise Conflict(f"Problem {found.id[:6]} is already {state}: {found.reason}")
        fields = {"fixed_at": now} if state == "fixed" else {}
        changed = opened.problems.change(
            found.id, state, reason=reason, now=now, by=getpass.getuser(), **fields
        )
    if json:
        print_json(changed)
        return
    title = one_line(changed.title, 100)
    out.print(f"{changed.id[:6]} is {changed.state}: {title}", markup=False)
