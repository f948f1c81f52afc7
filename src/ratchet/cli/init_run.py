"""The steps of `ratchet init`: record, derive, ask, write, verify, commit."""

from __future__ import annotations

import math
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from json import dumps as json_text
from pathlib import Path
from typing import Any

import msgspec
import typer

from ratchet.autopilot.learning_sections import RunSection
from ratchet.autopilot.project_tasks import tasks_to_prove
from ratchet.cli.console import one_line, out, print_json
from ratchet.cli.errors import err
from ratchet.cli.init_declare import DeclaredParts, Declaring, declared
from ratchet.cli.init_failures import advice_without_denials, check_recorded
from ratchet.cli.init_files_before import WRITTEN, FilesBefore
from ratchet.cli.init_left import created_by, perhaps_caches, traces_of, written_outside
from ratchet.cli.init_page import (
    constant_values,
    left_by_run,
    not_verified,
    print_dry_run,
    print_recorded,
    print_verified,
    same_for_all,
)
from ratchet.cli.init_tests import tests_as_before
from ratchet.cli.init_variants import how, variants
from ratchet.cli.init_verify import (
    RecordedAnswers,
    WiringVerification,
    entries_needed,
    verify,
)
from ratchet.cli.init_words import quoted
from ratchet.observe.project_paths import FILE_NAME
from ratchet.source.files import own_files
from ratchet.types import AgentError, InputError
from ratchet.types.wording import counted
from ratchet.wire.applying import (
    Plan,
    RunTrace,
    check_branch,
    commit,
    make_plan,
    show,
    undo,
    wired,
    write,
)
from ratchet.wire.changes import Changes, FileChange
from ratchet.wire.deriving.allowed import OutsideAct
from ratchet.wire.deriving.derive import Derived, Wiring, derive
from ratchet.wire.deriving.owner_input import as_text, owner_values
from ratchet.wire.deriving.settings import TASKS_FILE, settings_text, tasks_text
from ratchet.wire.deriving.starters import Starters, Table, starter_tasks
from ratchet.wire.looking import look
from ratchet.wire.looking.data_files import rows_of
from ratchet.wire.looking.inventory import Inventory
from ratchet.wire.recording.missing import KEY
from ratchet.wire.recording.record import placeholders_for, record
from ratchet.wire.recording.recording import CommandRun, Recording, ServiceRun

TIMEOUT_RATIO = 3
"""Time limit of a rollout as a multiple of the recorded run's time, since several run at once."""

NOTHING_DECLARED = DeclaredParts(Changes(), (), False)


MAX_EXAMPLE = 80
"""Characters of the recorded input, where a task is shown."""

MAX_REASON = 300
"""Characters of the reason why a wiring does not work, while others are tried."""


class InitOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    inputs: tuple[str, ...]
    allowed: tuple[str, ...]
    simulated: bool
    declare: bool
    tests: bool
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
        InputError: The project is wired already, or an input is named that the run does not have.
        AgentError: The run made no model call, or no wiring of it works.
    """
    begun = time.monotonic()
    say = _say_aside if json else _say
    _check_unwired(root)
    if options.branch is not None and not options.dry_run:
        check_branch(root, options.branch)
    _check_inputs(root, run, options.inputs)
    arguments = _arguments(run, options)
    say(f"Running: {one_line(_told(run))}")
    files_before = FilesBefore(root)
    places = [subject.rpartition(":") for subject in options.allowed]
    hosts = [(host, int(port)) for host, _, port in places if host and port.isdigit()]
    watched = partial(
        record,
        run,
        root=root,
        simulated=options.simulated,
        say=say,
        timeout_s=options.timeout_s,
        hosts=hosts,
    )
    recording, agent_s = watched(), []
    if options.simulated and not recording.calls:
        agent_s.append(recording.seconds)
        recording = _once_more(watched, recording, root, say) or recording
    agent_s.append(recording.seconds)
    check_recorded(recording, options.allowed)
    inventory = look(root)
    derived = _derived(recording, root, options)
    _check_sent(options.inputs, run, derived)
    if not json:
        print_recorded(recording, derived)
    stashed = () if options.dry_run else _stashed(run, recording, files_before)
    if stashed:
        say(
            f"\nThe recorded run changed {', '.join(stashed)}. So that rollouts begin as it began, "
            "the committed version is back, and git's stash has the change: git stash pop"
        )
    acts = list(_asked(derived.acts) if options.asks else derived.acts)
    restored: list[str] = []

    def restore() -> bool:
        files = () if _runs_on(run) else files_before.restore(recording.writes)
        if files:
            say(
                f"The model got other texts than in the recorded run, which changed"
                f" {', '.join(files)}. So that rollouts begin as it began, the content from before"
                f" is back; what the run wrote is in {WRITTEN}."
            )
        restored.extend(files)
        return bool(files)

    def planned(wiring: Wiring, parts: DeclaredParts) -> Plan:
        traces = traces_of(root, recording)
        left = [trace for trace in traces if not files_before.is_as_before(trace.path)]
        return _plan(root, wiring, acts, recording, inventory, parts, arguments, left)

    def verified(wiring: Wiring, plan: Plan) -> WiringVerification:
        settings = next(file.after for file in plan.files if file.path == FILE_NAME)
        began = time.monotonic()
        with RecordedAnswers(recording) as replay:
            verification = verify(root, settings, wiring, recording, replay, say)
        agent_s.append(verification.agent_s or time.monotonic() - began)
        return verification

    def verified_in_place(wiring: Wiring, plan: Plan) -> WiringVerification:
        with in_place(plan):
            return verified(wiring, plan)

    if options.dry_run:
        plan = planned(derived.wirings[0], NOTHING_DECLARED)
        seconds = time.monotonic() - begun
        took = {"seconds": seconds, "own_seconds": seconds - sum(agent_s)}
        _dry_run(recording, derived, show(plan), took, json=json)
        if options.declare:
            say("Prompts are declared after a wiring is verified, so they are not in this diff.")
        return
    declaring = _first_that_works(
        root, derived.wirings, recording, acts, planned, verified, restore, say, arguments
    )
    if options.declare:
        declaring = declared(
            root,
            declaring,
            derived,
            recording,
            planned=planned,
            verified=verified_in_place,
            say=say,
        )
    checked = time.monotonic()
    findings = list(declaring.verification.findings)
    if options.tests:
        python = recording.python.executable if recording.python else ""
        finding = tests_as_before(root, inventory.tests, declaring.plan, python=python, say=say)
        findings += [finding] if finding else []
    tests_s = time.monotonic() - checked
    committed = None
    if options.branch is None:
        write(declaring.plan)
    else:
        message = f"Wire the agent into Ratchet\n\nBy: ratchet init {arguments}\n"
        committed = commit(declaring.plan, options.branch, message)
    seconds = time.monotonic() - begun
    own_s = seconds - sum(agent_s) - tests_s
    next_steps = _next(root, declaring, derived, recording)
    if json:
        print_json(
            {
                "mode": declaring.wiring.mode,
                "agent": declaring.wiring.agent,
                "input": declaring.wiring.task_input,
                "files": [planned.path for planned in declaring.plan.files],
                "branch": committed.branch if committed else None,
                "commit": committed.commit if committed else None,
                "findings": findings,
                "not_verified": list(not_verified(recording, findings)),
                "denied": declaring.verification.denied,
                "acts": acts,
                "left_by_run": declaring.plan.traces,
                "stashed": stashed,
                "restored": restored,
                "prompts": derived.prompts,
                "learned": declaring.verification.learned,
                "declared": declaring.names,
                "left_alone": declaring.left,
                "recorded": _recorded(recording, derived),
                "seconds": seconds,
                "own_seconds": own_s,
                "next": next_steps,
            }
        )
        return
    print_verified(
        recording,
        declaring.wiring,
        declaring.verification,
        findings,
        declaring.left,
        derived.prompts,
    )
    where = f"Committed to {committed.branch} ({committed.commit[:8]})" if committed else "Written"
    files = ", ".join(planned.path for planned in declaring.plan.files)
    tests = " and the tests" if options.tests and inventory.tests else ""
    say(f"\n{where}: {files}. It took {own_s:.0f} s, plus the agent's own runs{tests}.")
    if committed and committed.why_not:
        say(f"The branch is not checked out. {committed.why_not}")
    for sentence in left_by_run(root, declaring.plan.traces):
        say(sentence)
    if sentence := constant_values(derived, declaring.wiring):
        say(sentence)
    for step in next_steps:
        say(f"Next: {step}")
    say("To undo this: ratchet init --undo")


@contextmanager
def in_place(plan: Plan) -> Iterator[None]:
    """Write the plan's files, and undo that when the context ends.

    The originals are stored first: after a kill, `ratchet init --undo` restores them.
    """
    write(plan)
    try:
        yield
    finally:
        undo(plan.root)


def _once_more(
    watched: Callable[..., Recording], recording: Recording, root: Path, say: Callable[[str], None]
) -> Recording | None:
    """Record again a simulated run that called no model, without what may have prevented the call.

    Args:
        watched: Records the run; takes the placeholders for keys, and what it starts without.
        recording: The first run.
        root: The repository's folder.
        say: Told why it is run again.

    Returns:
        The recording; None if it called no model either, or if there is nothing to leave out.
    """
    again: Recording | None = None
    if recording.failed:
        named = [missing.name for missing in recording.missing if missing.kind == "variable"]
        unset = [name for name in named if KEY.search(name)]
        keys = placeholders_for(root, recording.run, few=not unset, besides=unset)
        if keys.keys() != placeholders_for(root, recording.run).keys():
            which = f"a placeholder for {', '.join(unset)}" if unset else "fewer placeholders"
            say(f"It failed before any model call. Once more, with {which}.")
            again = watched(keys=keys)
    elif left := perhaps_caches(recording):
        say(f"No model call was seen. Once more, without {', '.join(left)}: it may be a cache.")
        again = watched(absent=[os.path.expanduser(path) for path in left])
    return again if again is not None and again.calls else None


def _first_that_works(
    root: Path,
    wirings: Sequence[Wiring],
    recording: Recording,
    acts: list[OutsideAct],
    planned: Callable[[Wiring, DeclaredParts], Plan],
    verified: Callable[[Wiring, Plan], WiringVerification],
    restore: Callable[[], bool],
    say: Callable[[str], None],
    arguments: str,
) -> Declaring:
    """Verify the wirings in turn, and take the first that works.

    If the agent's model gets other texts than it got in the recorded run, the files that the run
    changed are restored, and what it created is left out.

    Raises:
        AgentError: None does.
    """
    reasons: list[str] = []
    denied: dict[str, None] = {}
    created, outside = created_by(root, recording), written_outside(recording)
    absences = [created] if created else []
    absences += [(*created, *outside)] if outside else []

    def checked(wiring: Wiring) -> Declaring:
        say(
            f"\nChecking {one_line(wiring.label)}, contained, with the recorded input{how(wiring)}…"
        )
        plan = planned(wiring, NOTHING_DECLARED)
        return Declaring(wiring, plan, verified(wiring, plan))

    kept: Declaring | None = None
    for wiring in wirings:
        attempt = checked(wiring)
        if attempt.verification.differences and restore():
            attempt = checked(wiring)
        attempt = _most_like_recorded(attempt, recording, absences, checked)
        verification = attempt.verification
        if verification.works and wiring.mode == "entry" and verification.differences and not kept:
            kept = attempt  # what is around the function may add what the model is missing
            say("With it, the model gets other texts than in the recorded run, or in a second one.")
            continue
        if verification.works:
            is_better = not verification.differences and verification.holds("answer")
            return kept if kept and not is_better else attempt
        needed = entries_needed(verification.denied, recording)
        all_denied = [act.allow for act in verification.denied if act.allow]
        denied |= dict.fromkeys(needed or all_denied)
        tried = "".join(f" It tried {act.said}; this was denied." for act in verification.denied)
        reasons.append(f"{one_line(wiring.label)}: {verification.why.strip()}{tried}")
        if len(wirings) > 1:
            say(f"This wiring does not work: {one_line(reasons[-1], MAX_REASON)}")
    if kept:
        return kept
    allow = " ".join(f"--allow {shlex.quote(subject)}" for subject in denied)
    raise AgentError(
        "The agent runs on its own, but no wiring of it works. Nothing was written.\n"
        + "\n".join(reasons),
        hint=f"Allow what it needs: ratchet init {allow} {arguments}"
        if allow
        else advice_without_denials(root, recording, reasons, arguments),
    )


def _most_like_recorded(
    attempt: Declaring,
    recording: Recording,
    absences: Sequence[tuple[str, ...]],
    checked: Callable[[Wiring], Declaring],
) -> Declaring:
    """The variant of a wiring whose model gets what it got in the recorded run, if there is one."""
    tried = [attempt.wiring]
    while attempt.verification.differences or not attempt.verification.works:
        for variant in variants(attempt.wiring, attempt.verification, recording, absences):
            if variant in tried:
                continue
            tried.append(variant)
            retried = checked(variant)
            fewer = retried.verification.differences < attempt.verification.differences
            if retried.verification.works and (fewer or not attempt.verification.works):
                attempt = retried
                break
        else:
            return attempt
    return attempt


def _stashed(
    run: CommandRun | ServiceRun, recording: Recording, files_before: FilesBefore
) -> tuple[str, ...]:
    """Stash what the recorded run changed, unless a service that still runs may be using it."""
    if _runs_on(run):
        return ()
    return files_before.stash(
        write.path
        for write in recording.writes
        if write.place == "project" and write.how != "created"
    )


def _runs_on(run: CommandRun | ServiceRun) -> bool:
    """Whether it is a service that the owner started, which may be using the project's files."""
    return isinstance(run, ServiceRun) and not run.serve


def _plan(
    root: Path,
    wiring: Wiring,
    acts: Sequence[OutsideAct],
    recording: Recording,
    inventory: Inventory,
    parts: DeclaredParts,
    arguments: str,
    left: Sequence[RunTrace],
) -> Plan:
    starters = _starters(root, wiring, inventory)
    settings = settings_text(
        wiring,
        acts,
        starters,
        arguments=arguments,
        python=_named_python(root, recording),
        prompt_files=parts.files,
        import_per_candidate=parts.import_per_candidate,
        timeout_s=_timeout_s(recording),
    )
    files = [FileChange(FILE_NAME, "How the agent runs, and what it may do.", content=settings)]
    if not (root / TASKS_FILE).exists():
        files.append(FileChange(TASKS_FILE, "The starter tasks.", content=tasks_text(starters)))
    return make_plan(root, [Changes(tuple(files)), parts.changes], left)


def _timeout_s(recording: Recording) -> float | None:
    """The time limit of rollouts, if the recorded run was too slow for the default."""
    seconds = math.ceil(TIMEOUT_RATIO * recording.seconds)
    return seconds if seconds > RunSection().timeout_s else None


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
    """The agent's interpreter for the settings; empty if it is found without them."""
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
            f"{root} already has a {FILE_NAME}.",
            hint="Undo the wiring first (ratchet init --undo), or edit the file and check it: "
            "ratchet doctor",
        )


def _derived(recording: Recording, root: Path, options: InitOptions) -> Derived:
    """The wirings of a run; first those of a sentence that was typed without quotes."""
    found = partial(
        derive, root=root, paths=_paths(root), chosen=options.inputs, allowed=options.allowed
    )
    derived = found(recording)
    whole = None if options.inputs else quoted(recording)
    if whole is None:
        return derived
    first = found(whole)
    return msgspec.structs.replace(first, wirings=(*first.wirings, *derived.wirings))


def _check_inputs(root: Path, run: CommandRun | ServiceRun, chosen: Sequence[str]) -> None:
    """Refuse an --input that is neither one of the run's values nor a file of the project."""
    values = [as_text(value.value) for value in owner_values(run)]
    unknown = [text for text in chosen if text not in values and not (root / text).is_file()]
    if unknown:
        listed = ", ".join(repr(one_line(value)) for value in values) or "none"
        raise InputError(
            f"--input {unknown[0]!r} is not one of the values given to the run: {listed}.",
            hint="Name one of these, exactly as in the command, --stdin or --data; or name a file "
            "of the project that the command reads.",
        )


def _check_sent(chosen: Sequence[str], run: CommandRun | ServiceRun, derived: Derived) -> None:
    """Refuse an --input that names a file which is not the task's input."""
    values = [as_text(value.value) for value in owner_values(run)]
    for text in chosen:
        if text not in values and os.path.normpath(text) != derived.input_file:
            why = (
                "a value of the command reached the model"
                if derived.inputs
                else "its text did not reach the model"
            )
            raise InputError(
                f"{text} is not the task's input: {why}.",
                hint="Leave out --input to see what reached the model.",
            )


def _asked(acts: Sequence[OutsideAct]) -> tuple[OutsideAct, ...]:
    """The acts, after asking the owner about those that are not proposed: the only question."""
    open_hosts = [act for act in acts if act.key == "hosts" and not act.allow]
    if not open_hosts:
        return tuple(acts)
    for number, act in enumerate(open_hosts, 1):
        out.print(f"  {number}  {act.subject}: {act.said}", markup=False)
    answer = typer.prompt(
        "Which of these may rollouts use? Numbers separated by commas, all or none", default="none"
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


def _dry_run(
    recording: Recording, derived: Derived, diff: str, took: dict[str, float], *, json: bool
) -> None:
    if not json:
        print_dry_run(diff)
        return
    print_json(
        {
            "wirings": derived.wirings,
            "acts": derived.acts,
            "prompts": derived.prompts,
            "recorded": _recorded(recording, derived),
            "diff": diff,
            **took,
        }
    )


def _recorded(recording: Recording, derived: Derived) -> dict[str, Any]:
    notes = list(recording.notes)
    return {
        "calls": len(recording.calls),
        "seconds": recording.seconds,
        "notes": [*notes, *([sentence] if (sentence := same_for_all(derived)) else [])],
    }


def _next(root: Path, declaring: Declaring, derived: Derived, recording: Recording) -> list[str]:
    """The commands that work now, or what they still need."""
    if not (derived.inputs or derived.input_file):
        return [
            "ratchet run and ratchet eval work, with the agent's single built-in input. Before "
            "ratchet improve, let the command take its input, then run ratchet init --undo and "
            "ratchet init again"
        ]
    steps = [declaring.next_step] if declaring.next_step else []
    held = {finding.name: finding.holds for finding in declaring.verification.findings}
    has_answer = bool(held.get("answer"))
    if held.get("changed prompt") is False:
        steps.append(
            "ratchet improve cannot change the prompts as they are sent. First declare them in"
            " the source: ratchet init --undo, then ratchet init --declare with the same command"
        )
    if derived.function and not has_answer and recording.python is not None:
        steps.append(
            f"{one_line(derived.function)} may return an answer that the command does not print. To"
            f" wire it: {recording.python.executable} -m pip install agent-ratchet, then ratchet"
            " init --undo, and ratchet init again"
        )
    if keys := " and ".join(recording.model_keys):
        steps.append(
            f"set the key of a real model ({keys}) in the environment, or in .env if the command"
            " loads it: the simulated model answered for this wiring alone"
        )
    if not (declaring.verification.learned or derived.prompts or declaring.names):
        return [
            *steps,
            "ratchet eval (shows latency and cost). For ratchet improve there is no"
            " prompt: the source holds none of the texts that the model got",
        ]
    tasks = (root / TASKS_FILE).read_text(encoding="utf-8") if (root / TASKS_FILE).exists() else ""
    lines = [line for line in tasks.splitlines() if line.strip()]
    answered = sum('"expected"' in line for line in lines)
    if answered:
        progress = f"{answered} of {counted(len(lines), 'task')} have an answer"
        return [*steps, f"ratchet eval ({progress})"]
    task_input = declaring.wiring.task_input
    example = json_text(task_input, ensure_ascii=False)
    example = example if len(example) <= MAX_EXAMPLE else "…"
    is_file = isinstance(task_input, str) and os.path.isfile(os.path.join(root, task_input))
    of_file = "each input is the path of a file; " if is_file else ""
    return [
        *steps,
        "ratchet eval (shows latency and cost)",
        f'add tasks with answers to {TASKS_FILE} ({{"input": {example}, "expected": …}}; {of_file}'
        "ratchet improve"
        f" needs about {tasks_to_prove(0.3)} to prove a gain of 0.3), name an evaluator in"
        f" {FILE_NAME} (see ratchet evaluators list --built-in), commit both, then: ratchet eval",
    ]


def _arguments(run: CommandRun | ServiceRun, options: InitOptions) -> str:
    """The arguments of `ratchet init` that record the same run again."""
    words = [word for value in options.inputs for word in ("--input", value)]
    words += [word for subject in options.allowed for word in ("--allow", subject)]
    flags = {"--simulated": options.simulated, "--declare": options.declare}
    words += [flag for flag, is_given in flags.items() if is_given]
    return " ".join([*map(_quoted, words), _words_of(run)])


def _told(run: CommandRun | ServiceRun) -> str:
    """What is run, for people."""
    if isinstance(run, CommandRun):
        given = "" if run.stdin is None else f", with {run.stdin.strip()!r} on standard input"
        return f"{shlex.join(run.argv)}{given}"
    started = f"{shlex.join(run.serve)}, then " if run.serve else ""
    return f"{started}{run.method} {run.url} {run.data or ''}".rstrip()


def _words_of(run: CommandRun | ServiceRun) -> str:
    """The arguments of `ratchet init` that say what is run."""
    if isinstance(run, CommandRun):
        words = [] if run.stdin is None else ["--stdin", run.stdin.removesuffix("\n")]
        return " ".join(map(_quoted, [*words, "--", *run.argv]))
    words = ["--serve", shlex.join(run.serve)] if run.serve else []
    words += ["--url", run.url]
    if run.method != ("POST" if run.data else "GET"):
        words += ["--method", run.method]
    words += [word for pair in run.headers.items() for word in ("--header", ": ".join(pair))]
    return " ".join(map(_quoted, [*words, *(["--data", run.data] if run.data else [])]))


def _quoted(word: str) -> str:
    """A word quoted for a shell, on one line."""
    if word.isprintable():
        return shlex.quote(word)
    names = {"\n": "\\n", "\\": "\\\\", "'": "\\'"}
    characters = (
        names.get(character)
        or (character if character.isprintable() else f"\\U{ord(character):08x}")
        for character in word
    )
    return f"$'{''.join(characters)}'"


def _say(sentence: str) -> None:
    out.print(sentence, markup=False)


def _say_aside(sentence: str) -> None:
    """Report progress apart from the JSON: on standard error, or to the calling program."""
    err.print(sentence.strip(), markup=False)
