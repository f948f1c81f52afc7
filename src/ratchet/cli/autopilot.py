"""`ratchet autopilot`: the loop, unattended; its state, and commands to steer it."""

from __future__ import annotations

import asyncio
import getpass
import os
import signal
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from ratchet.autopilot import Project
from ratchet.cli.console import Folder, Json, out, print_json, project_in, short, table
from ratchet.cli.errors import err
from ratchet.store import Store
from ratchet.types import Cycle, InputError, OperatorCommand, OperatorVerb, dollars_text
from ratchet.types.wording import counted

autopilot = typer.Typer(
    help="Run the loop unattended: watch, learn, prove, ship, watch again.",
    no_args_is_help=True,
)

By = Annotated[
    str | None,
    typer.Option("--by", help="Name of the person who decides; by default the current user."),
]
Reason = Annotated[str, typer.Option("--reason", help="The reason, which is stored and shown.")]
CycleId = Annotated[
    str | None,
    typer.Argument(metavar="[ID]", help="Start of a cycle's id; by default the current cycle."),
]


@autopilot.command()
def run(
    folder: Folder = Path("."),
    attached: Annotated[bool, typer.Option("--attached", hidden=True)] = False,
) -> None:
    """Run the autopilot until Ctrl-C or SIGTERM.

    Several may run on one store: one leads, the others stand by. Killed at any moment, it goes on
    where it was. What it may do is set in the section autopilot of ratchet.toml.

    Examples:

      ratchet autopilot run
    """
    project = project_in(folder)
    with project.open_store() as store:
        again = asyncio.run(_run(project, store, attached))
    if again:  # the agent's modules changed, and this process has imported the old ones
        options = ["--attached"] if attached else []
        command = ["-m", "ratchet", "autopilot", "run", "--project", str(project.root), *options]
        os.execv(sys.executable, [sys.executable, *command])  # noqa: S606


async def _run(project: Project, store: Store, attached: bool) -> bool:
    """Run until stopped; True when the autopilot is to be restarted."""
    from ratchet.autopilot.cycle import project_autopilot

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if attached:  # to a server: when that is gone, so is the other end of the pipe
        loop.add_reader(sys.stdin.fileno(), stop.set)
    await project_autopilot(project, store, say=_say).run(stop)
    return not stop.is_set()


def _say(sentence: str) -> None:
    err.print(f"{datetime.now().astimezone():%H:%M:%S} {sentence}", markup=False, soft_wrap=True)


@autopilot.command()
def status(folder: Folder = Path("."), json: Json = False) -> None:
    """Show what the autopilot is doing, why it is waiting, and what comes next."""
    from ratchet.autopilot.cycle.status import status_of
    from ratchet.autopilot.live_agent import live_agent

    project = project_in(folder)
    with project.open_store() as store:
        overview = status_of(store, project.config, live_agent(project, store), time.time())
    if json:
        print_json(overview)
        return
    cycle = overview.cycle
    cycle_note = f", cycle {short(cycle.id)}" if cycle else ""
    state = overview.state.replace("_", " ")
    out.print(
        f"[bold]{overview.agent}[/]: {state}{cycle_note} (mode {overview.mode})", highlight=False
    )
    rows = table("", "")
    rows.show_header = False
    rows.add_row("does", overview.does)
    if overview.waits:
        rows.add_row("waits", overview.waits + _until(overview.waits_until))
    rows.add_row("next", overview.next)
    if cycle is not None and cycle.request:
        rows.add_row("request", cycle.request)
    spent = overview.spent
    rows.add_row(
        "today",
        f"{spent.rollouts} of {counted(overview.rollouts_per_day, 'rollout')},"
        f" {dollars_text(spent.dollars)} of {dollars_text(overview.dollars_per_day)},"
        f" {spent.requests} of {counted(overview.requests_per_day, 'pull request')}",
    )
    for action in overview.unfinished:
        tries = f", {action.tries} tries: {action.error}" if action.error else ""
        rows.add_row("to do", f"{action.kind.replace('_', ' ')}{tries}")
    for ended in overview.ended:
        rows.add_row(ended.state, f"{short(ended.id)}: {ended.message or ended.trigger}")
    out.print(rows, markup=False)


def _until(moment: float | None) -> str:
    return "" if moment is None else f" ({datetime.fromtimestamp(moment).astimezone():%a %H:%M})"


@autopilot.command()
def pause(
    reason: Reason = "", by: By = None, folder: Folder = Path("."), json: Json = False
) -> None:
    """Pause: no cycle begins or continues, but releases are still watched.

    A rollback still happens. The pause outlives restarts.
    """
    _tell(folder, "pause", by, reason, json, "Paused. Releases are still watched.")


@autopilot.command()
def resume(
    reason: Reason = "", by: By = None, folder: Folder = Path("."), json: Json = False
) -> None:
    """Resume after a pause."""
    _tell(folder, "resume", by, reason, json, "Resumed.")


@autopilot.command()
def approve(
    cycle: CycleId = None,
    reason: Reason = "",
    by: By = None,
    deny: Annotated[bool, typer.Option("--deny", help="Deny it instead.")] = False,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Approve the candidate of a cycle that is waiting for approval.

    The approval is for this candidate alone. autopilot.approvers in ratchet.toml says who may.

    Examples:

      ratchet autopilot approve --by ann

      ratchet autopilot approve 1a2b3c4d --deny --reason "Too terse."
    """
    from ratchet.autopilot.cycle.policy import is_approver

    project = project_in(folder)
    who = by or getpass.getuser()
    policy = project.config.autopilot
    if not is_approver(policy, who):
        raise InputError(
            f"{who!r} may not approve; {', '.join(policy.approvers)} may.",
            hint="Give an approver's name with --by; approvers are listed under [autopilot].",
        )
    with project.open_store() as store:
        selected = _selected(project, store, cycle)
        if selected.state != "approval":
            raise InputError(
                f"Cycle {short(selected.id)} is in state {selected.state!r} and is not waiting for "
                "approval.",
                hint="See: ratchet autopilot status.",
            )
        verb: OperatorVerb = "deny" if deny else "approve"
        command = _command(project, store, verb, who, reason, selected)
        store.operator_commands.add(command)
    verdict = "Denied" if deny else "Approved"
    _print(command, json, f"{verdict}: candidate {short(selected.candidate_id)}.")


@autopilot.command()
def stop(
    cycle: CycleId = None,
    reason: Reason = "",
    by: By = None,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """End the current cycle: its canary ends, its pull request is closed, and nothing is released.

    A release that is watched stays; undo it with: ratchet rollback. The autopilot itself goes on.
    """
    project = project_in(folder)
    with project.open_store() as store:
        selected = _selected(project, store, cycle)
        command = _command(project, store, "stop", by or getpass.getuser(), reason, selected)
        store.operator_commands.add(command)
    _print(command, json, f"Cycle {short(selected.id)} will end at the autopilot's next step.")


def _tell(
    folder: Path, verb: OperatorVerb, by: str | None, reason: str, json: bool, message: str
) -> None:
    project = project_in(folder)
    with project.open_store() as store:
        command = _command(project, store, verb, by or getpass.getuser(), reason, None)
        store.operator_commands.add(command)
    _print(command, json, message)


def _command(
    project: Project,
    store: Store,
    verb: OperatorVerb,
    by: str,
    reason: str,
    cycle: Cycle | None,
) -> OperatorCommand:
    from ratchet.autopilot.live_agent import live_agent

    return OperatorCommand(
        verb=verb,
        agent=live_agent(project, store),
        cycle_id=cycle.id if cycle else "",
        candidate_id=cycle.candidate_id if cycle else "",
        by=by,
        reason=reason,
        at=time.time(),
    )


def _selected(project: Project, store: Store, prefix: str | None) -> Cycle:
    from ratchet.autopilot.live_agent import live_agent

    underway = store.cycles.underway(live_agent(project, store))
    if underway is None:
        raise InputError("No cycle is running.", hint="See: ratchet autopilot status.")
    if prefix is not None and not underway.id.startswith(prefix):
        raise InputError(
            f"The running cycle is {short(underway.id)}, not {prefix!r}.",
            hint="See: ratchet autopilot status.",
        )
    return underway


def _print(command: OperatorCommand, json: bool, sentence: str) -> None:
    if json:
        print_json(command)
    else:
        out.print(sentence, markup=False)
