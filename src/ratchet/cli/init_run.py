"""The steps of `ratchet init`: record, derive, ask, write, verify, commit."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import msgspec
import typer

from ratchet.cli.console import counted, one_line, out, print_json
from ratchet.cli.init_verify import Replay, Verification, verify
from ratchet.observe.project_paths import FILE_NAME
from ratchet.source.files import own_files
from ratchet.types import AgentError, InputError
from ratchet.wire.applying import Plan, commit, make_plan, show, wired, write
from ratchet.wire.changes import Changes, FileChange
from ratchet.wire.deriving.allowed import OutsideAct
from ratchet.wire.deriving.derive import Derived, Wiring, derive
from ratchet.wire.deriving.settings import TASKS, settings_text, tasks_text
from ratchet.wire.deriving.starters import Starters, Table, starter_tasks
from ratchet.wire.looking import look
from ratchet.wire.looking.data_files import rows_of
from ratchet.wire.looking.inventory import Inventory
from ratchet.wire.recording import record
from ratchet.wire.recording.recording import CommandRun, Recording, ServiceRun


class InitOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the options of the command line say."""

    inputs: tuple[str, ...]
    allowed: tuple[str, ...]
    simulated: bool
    declare: bool
    asks: bool
    dry_run: bool
    branch: str | None
    """None writes in place."""
    timeout_s: float


def wire_by_watching(
    root: Path, run: CommandRun | ServiceRun, options: InitOptions, *, json: bool
) -> None:
    """Record a run, derive its wiring, verify it, and commit it.

    Raises:
        InputError: The project is wired already.
        AgentError: The run made no model call, or no wiring of it works.
    """
    begun = time.monotonic()
    say = _silent if json else _say
    _check_unwired(root)
    say(f"Running: {one_line(_command_line(run))}")
    recording = record(
        run, root=root, simulated=options.simulated, say=say, timeout_s=options.timeout_s
    )
    _check_recorded(recording)
    inventory = look(root)
    derived = derive(recording, root, _paths(root), chosen=options.inputs, allowed=options.allowed)
    if not json:
        _print_recorded(recording, derived)
    acts = _asked(derived.acts) if options.asks else derived.acts
    plans = [_plan(root, wiring, acts, recording, inventory) for wiring in derived.wirings]
    if options.dry_run:
        _print_dry_run(recording, derived, plans[0], json=json)
        return
    wiring, plan, verification = _first_that_works(root, derived.wirings, plans, recording, say)
    done = None
    if options.branch is None:
        write(plan)
    else:
        message = f"Wire the agent into Ratchet\n\nFrom one run of: {_command_line(run)}\n"
        done = commit(plan, options.branch, message)
    seconds = time.monotonic() - begun
    if json:
        print_json(
            {
                "mode": wiring.mode,
                "agent": wiring.agent,
                "input": wiring.task_input,
                "files": [planned.path for planned in plan.files],
                "branch": done.branch if done else None,
                "commit": done.commit if done else None,
                "findings": verification.findings,
                "denied": verification.denied,
                "prompts": derived.prompts,
                "recorded": {
                    "calls": len(recording.calls),
                    "seconds": recording.seconds,
                    "notes": recording.notes,
                },
                "seconds": seconds,
                "next": _next(root),
            }
        )
        return
    _print_verified(wiring, verification)
    where = f"Committed to {done.branch} ({done.commit[:8]})" if done else "Written"
    files = ", ".join(planned.path for planned in plan.files)
    own = seconds - recording.seconds - verification.agent_s
    say(f"\n{where}: {files}. It took {own:.0f} s besides the agent's own run.")
    say(f"Next: {_next(root)}")
    say("To take it back: ratchet init --undo")


def _first_that_works(
    root: Path,
    wirings: Sequence[Wiring],
    plans: Sequence[Plan],
    recording: Recording,
    say: Callable[[str], None],
) -> tuple[Wiring, Plan, Verification]:
    """Verify one wiring after the other, in the project's folder, and take the first that works.

    Raises:
        AgentError: None does; the folder is as it was.
    """
    reasons = []
    denied: dict[str, None] = {}
    for wiring, plan in zip(wirings, plans, strict=True):
        say(f"\nChecking {one_line(wiring.label)}, contained, with the recorded input…")
        with Replay(recording) as replay, in_place(plan):
            verification = verify(root, wiring, recording, replay)
        if verification.works:
            return wiring, plan, verification
        denied |= dict.fromkeys(act.allow for act in verification.denied if act.allow)
        tried = "".join(f" It tried {act.said}; denied." for act in verification.denied)
        reasons.append(f"{one_line(wiring.label)}: {verification.why.strip()}{tried}")
        if len(plans) > 1:
            say(f"It does not work as wired: {reasons[-1]}")
    allow = " ".join(f"--allow {shlex.quote(subject)}" for subject in denied)
    command = _command_line(recording.run)
    raise AgentError(
        "The agent runs by itself, and not as wired. Nothing was written.\n" + "\n".join(reasons),
        hint=f"Allow what it needs: ratchet init {allow} -- {command}"
        if allow
        else "Another command, with the input as a word of its own, may be wired better.",
    )


@contextmanager
def in_place(plan: Plan) -> Iterator[None]:
    """The plan's files as they will be, for a while."""
    for planned in plan.files:
        path = plan.root / planned.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(planned.after)
    try:
        yield
    finally:
        for planned in plan.files:
            path = plan.root / planned.path
            if planned.before is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(planned.before)


def _plan(
    root: Path,
    wiring: Wiring,
    acts: Sequence[OutsideAct],
    recording: Recording,
    inventory: Inventory,
) -> Plan:
    starters = _starters(root, wiring, inventory)
    settings = settings_text(
        wiring,
        acts,
        starters,
        command=_command_line(recording.run),
        python=_named_python(root, recording),
    )
    files = [FileChange(FILE_NAME, "How the agent runs, and what it may do.", content=settings)]
    if not (root / TASKS).exists():
        files.append(FileChange(TASKS, "The tasks to begin with.", content=tasks_text(starters)))
    return make_plan(root, [Changes(tuple(files))])


def _paths(root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in own_files(root)]


def _starters(root: Path, wiring: Wiring, inventory: Inventory) -> Starters:
    wanted = set(wiring.fields or (wiring.parameter,))
    tables = [
        Table(path=table.path, columns=table.columns, rows=rows_of(root, table))
        for table in inventory.data_files
        if wanted <= set(table.columns)
    ]
    return starter_tasks(wiring.task_input, wiring.fields, wiring.parameter, tables)


def _named_python(root: Path, recording: Recording) -> str:
    """The agent's interpreter for the settings; empty where it is found without them."""
    from ratchet.sandbox.interpreter import find_interpreter

    used = recording.python
    if used is None:
        return ""
    by_itself = find_interpreter(root, None)
    same = os.path.realpath(by_itself or sys.executable) == os.path.realpath(used.executable)
    return "" if same else used.executable


def _check_unwired(root: Path) -> None:
    if wired(root) is not None or (root / FILE_NAME).exists():
        raise InputError(
            f"{root} has a {FILE_NAME} already.",
            hint="Take the wiring back first (ratchet init --undo), or edit the file and run:"
            " ratchet check",
        )


def _check_recorded(recording: Recording) -> None:
    """Refuse a run that showed no agent, with all that it lacked.

    Raises:
        AgentError: It failed, or called no model.
    """
    if recording.calls and not recording.failed:
        return
    lacking = "".join(
        f"\n  {missing.kind} {missing.name}: {missing.why} {missing.fix}"
        for missing in recording.missing
    )
    ended = (
        "It did not end in time."
        if recording.timed_out
        else f"It ended with exit code {recording.exit_code}."
        if isinstance(recording.run, CommandRun)
        else f"It answered with status {recording.response_status}."
    )
    if recording.failed:
        tail = recording.stderr_tail.strip()[-1_500:]
        shown = f"\nIts last output:\n{tail}" if tail else ""
        raise AgentError(
            f"The agent's own run failed, so there is nothing to wire. {ended}"
            + (f"\nMissing:{lacking}" if lacking else "")
            + shown,
            hint="It takes another method: give --method POST, or the body by --data."
            if recording.response_status == HTTPStatus.METHOD_NOT_ALLOWED
            else "Run it by hand until it works, then again: ratchet init",
        )
    notes = " ".join(recording.notes)
    raise AgentError(
        f"The run made no model call that could be seen. {notes}".rstrip()
        + (f"\nMissing:{lacking}" if lacking else ""),
        hint="Give a command with an input that makes the agent ask its model; set the base URL of"
        " its client by a variable, such as OPENAI_BASE_URL.",
    )


def _asked(acts: Sequence[OutsideAct]) -> tuple[OutsideAct, ...]:
    """The acts with the owner's word on those that are not proposed: the only question."""
    open_hosts = [act for act in acts if act.key == "hosts" and not act.allow]
    if not open_hosts:
        return tuple(acts)
    for number, act in enumerate(open_hosts, 1):
        out.print(f"  {number}  {act.subject}: {act.said}", markup=False)
    answer = typer.prompt(
        "Which of these may rollouts use? Numbers with commas, all or none", default="none"
    )
    words = {word.strip() for word in answer.split(",")}
    allowed = {
        act.subject
        for number, act in enumerate(open_hosts, 1)
        if "all" in words or str(number) in words
    }
    return tuple(
        msgspec.structs.replace(act, allow=True) if act.subject in allowed else act for act in acts
    )


def _print_recorded(recording: Recording, derived: Derived) -> None:
    said = f"{counted(len(recording.calls), 'model call')} in {recording.seconds:.1f} s"
    model = ", by a simulated model" if recording.simulated else ""
    out.print(f"\nRecorded: {said}{model}.", markup=False)
    for prompt in derived.prompts:
        times = counted(prompt.calls, "call")
        out.print(f"  {prompt.path}:{prompt.line}  “{prompt.beginning}…”  {times}", markup=False)
    if derived.acts:
        out.print("Outside of itself it did:", markup=False)
    for act in derived.acts:
        word = "allowed" if act.allow else "not allowed"
        out.print(f"  {act.key[:-1]} {act.subject}: {act.said}; {word} in rollouts", markup=False)
    for note in recording.notes:
        out.print(f"Not seen: {note}", markup=False)


def _print_dry_run(recording: Recording, derived: Derived, plan: Plan, *, json: bool) -> None:
    diff = show(plan)
    if json:
        print_json({"wirings": derived.wirings, "prompts": derived.prompts, "diff": diff})
        return
    out.print(diff, markup=False)
    out.print("Nothing was written, and nothing was verified.", markup=False)


def _print_verified(wiring: Wiring, verification: Verification) -> None:
    out.print(f"\nIt works as wired: {one_line(wiring.label)}", markup=False)
    for finding in verification.findings:
        mark = {True: "verified", False: "failed", None: "not verified"}[finding.holds]
        out.print(f"  {finding.name}: {mark}. {finding.said}", markup=False)
    for act in verification.denied:
        out.print(f"  It tried {act.said}; denied.", markup=False)


def _next(root: Path) -> str:
    """The command that works now, or what is missing for it."""
    tasks = (root / TASKS).read_text(encoding="utf-8") if (root / TASKS).exists() else ""
    lines = [line for line in tasks.splitlines() if line.strip()]
    answered = sum('"expected"' in line for line in lines)
    if answered:
        return f"ratchet eval ({answered} of {counted(len(lines), 'task')} have an answer)"
    return (
        f'add tasks with answers to {TASKS} ({{"input": …, "expected": …}}), name an evaluator in'
        f" {FILE_NAME} (ratchet evaluators lists them), then: ratchet eval"
    )


def _command_line(run: CommandRun | ServiceRun) -> str:
    if isinstance(run, CommandRun):
        return shlex.join(run.argv)
    serve = f"--serve {shlex.quote(shlex.join(run.serve))} " if run.serve else ""
    return f"{serve}--url {run.url} --data {shlex.quote(run.data)}"


def _say(sentence: str) -> None:
    out.print(sentence, markup=False)


def _silent(_: str) -> None:
    pass
