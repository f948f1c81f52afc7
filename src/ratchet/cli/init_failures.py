"""Why a recorded run, or all wirings of it, failed, and what to do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

from ratchet.cli.console import one_line
from ratchet.cli.init_left import traces_of, written_outside
from ratchet.cli.init_verify import NO_CALL
from ratchet.source.secret_files import is_hidden_in_home
from ratchet.types import AgentError
from ratchet.types.wording import counted
from ratchet.wire.recording.record import LAST_OUTPUT
from ratchet.wire.recording.recording import CommandRun, Recording, ServiceRun

MAX_ANSWER = 300
"""Maximum length of a service's answer in a message, in characters."""

_PYTHON = re.compile(r'^(?:requires-)?python\s*=\s*"[\^>=~\s]*(\d+)\.(\d+)', re.MULTILINE)
"""The oldest Python that a manifest allows."""


def check_recorded(recording: Recording, allowed: Sequence[str]) -> None:
    """Refuse a run that showed no agent, and say what was missing.

    Raises:
        AgentError: It failed, or no model answered it.
    """
    answered = any(200 <= call.status < 300 for call in recording.calls)
    if answered and not recording.failed:
        return
    lacking = "".join(
        f"\n  {missing.kind} {missing.name}: {missing.why} {missing.fix}"
        for missing in recording.missing
    )
    ended = (
        f"It did not finish in time; it had made {counted(len(recording.calls), 'model call')}."
        if recording.timed_out
        else "The service did not answer."
        if isinstance(recording.run, ServiceRun) and not recording.response_status
        else f"The command ended with exit code {recording.exit_code}."
        if isinstance(recording.run, CommandRun)
        else f"The service answered with status {recording.response_status}: "
        f"{one_line(recording.response, MAX_ANSWER) or 'nothing'}."
    )
    notes = " ".join(recording.notes)
    tail = "\n".join(part for part in (recording.stdout, recording.stderr_tail) if part.strip())
    tail = tail.strip()
    if len(tail) > LAST_OUTPUT:
        tail = tail[-LAST_OUTPUT:].partition("\n")[2] or tail[-LAST_OUTPUT:]
    last_output = f"\nIts last output:\n{tail}" if tail else ""
    if recording.failed:
        raise AgentError(
            f"The agent's own run failed, so there is nothing to wire. {ended} {notes}".rstrip()
            + (f"\nMissing:{lacking}" if lacking else "")
            + last_output,
            hint=_too_old(recording) + _refused(recording, allowed) + _after_failure(recording),
        )
    if recording.calls:
        statuses = {
            f"status {call.status}" if call.status else "no answer" for call in recording.calls
        }
        raise AgentError(
            f"There is nothing to wire: its {counted(len(recording.calls), 'model call')} failed"
            f" ({', '.join(sorted(statuses))})."
            + (f"\nMissing:{lacking}" if lacking else "")
            + last_output,
            hint="Correct the model's address or key, or let a simulated model answer:"
            " --simulated.",
        )
    raise AgentError(
        f"There is nothing to wire. {notes}".rstrip()
        + (f"\nMissing:{lacking}" if lacking else "")
        + last_output,
        hint=_refused(recording, allowed)
        + _closed(recording.run)
        + (f"{moved_aside(outside)}\n" if (outside := written_outside(recording)) else "")
        + ("If its last output shows an error, mend that first. Otherwise give" if tail else "Give")
        + " a command whose input makes the agent call its model; clear any cached answers; let a"
        " variable such as OPENAI_BASE_URL set its client's base URL.",
    )


def _closed(run: CommandRun | ServiceRun) -> str:
    """Advice for a program that ends with its input, before its model can answer."""
    if not isinstance(run, CommandRun) or run.stdin is None:
        return ""
    open_longer = f"(cat; sleep 20) | {shlex.join(run.argv)}"
    return (
        "If the program ends as soon as its input does, keep the input open until its model has"
        f" answered: ratchet init --stdin {shlex.quote(run.stdin.strip())} -- sh -c"
        f" {shlex.quote(open_longer)}\n"
    )


def _too_old(recording: Recording) -> str:
    """A sentence if the program ran in an older Python than its manifest asks for; else empty."""
    manifest = Path(recording.root, "pyproject.toml")
    wanted = _PYTHON.search(manifest.read_text(errors="replace")) if manifest.is_file() else None
    used = recording.python.version if recording.python else ""
    if not wanted or not used:
        return ""
    oldest, version = (tuple(map(int, parts[:2])) for parts in (wanted.groups(), used.split(".")))
    if version >= oldest:
        return ""
    return f"pyproject.toml asks for Python {'.'.join(wanted.groups())}, but this was {used}.\n"


def _after_failure(recording: Recording) -> str:
    """Advice after a run that failed."""
    if recording.response_status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return (
            "If the service wants a key, put it into .env or the environment, and name it: --header"
            " 'Authorization: Bearer $SERVICE_KEY'"
        )
    if recording.response_status == HTTPStatus.METHOD_NOT_ALLOWED:
        return "The service wants another method: give --method POST, or a body with --data."
    has_lines = isinstance(recording.run, CommandRun) and recording.run.stdin is not None
    if recording.timed_out and has_lines and recording.calls:
        return (
            "If it goes on after its last line, give the line that ends it too, such as exit: "
            "--stdin $'Where is my order?\\nexit'"
        )
    if recording.simulated and recording.calls:
        if recording.timed_out:
            return (
                "It may be waiting for words that a simulated model never says: set a key, and "
                "leave out --simulated."
            )
        return (
            "Run it by hand until it works, then run ratchet init again. If it failed on a "
            "simulated answer, which means nothing, set a key and leave out --simulated."
        )
    if recording.lacked_hosts and not (recording.calls or recording.missing):
        return "Or run it by hand until it works, then run ratchet init again."
    return "Run it by hand until it works, then run ratchet init again."


def _refused(recording: Recording, allowed: Sequence[str]) -> str:
    """What a contained run asked for in vain and may need, as a sentence; empty if nothing."""
    hosts = [host for host in recording.lacked_hosts if host not in allowed]
    others = any(missing.kind != "host" for missing in recording.missing)
    if others or not (recording.simulated and hosts):
        return ""
    return (
        f"With --simulated, the run is contained, and could not reach {', '.join(hosts)}. If the "
        "agent needs one of these, such as a database, add --allow HOST:PORT.\n"
    )


def advice_without_denials(
    root: Path, recording: Recording, reasons: Sequence[str], arguments: str
) -> str:
    """Advice for a failure in which nothing was denied."""
    changed = [trace.path for trace in traces_of(root, recording) if trace.how != "created"]
    no_call = all(NO_CALL in reason for reason in reasons)
    if no_call and (outside := written_outside(recording)):
        calls = counted(len(recording.calls), "model call")
        return (
            f"The recorded run made {calls}, so a cache may have answered this time. "
            f"{moved_aside(outside)}"
        )
    if changed and no_call and not recording.simulated:
        paths = ", ".join(changed[:5])
        return (
            f"The recorded run changed {paths}, so the same input now finds different files. "
            f"Restore them, and record on copies: ratchet init --simulated {arguments}"
        )
    written = [write.path for write in recording.writes if is_hidden_in_home(write.path)]
    if used := dict.fromkeys([*recording.settings_read, *written]):
        folders = dict.fromkeys(map(_settings_folder, used))
        allow = " ".join(f"--allow {folder}" for folder in folders)
        return (
            f"The recorded run used {', '.join([*used][:5])}, which rollouts do not"
            f" see. Allow it: ratchet init {allow} {arguments}"
        )
    return (
        "Try a command that starts the program in another way, or that takes the input as a "
        "separate argument: ratchet init --help"
    )


def _settings_folder(path: str) -> str:
    """The folder of a program's settings: `~/.config/NAME`."""
    parts = path.split("/")
    return "/".join(parts[: 3 if len(parts) > 3 else 2])


def moved_aside(places: Sequence[str]) -> str:
    """Advice about caches outside the project, as sentences."""
    words = [shlex.quote(place).replace("'~/", "~/'", 1) for place in places]
    moves = " && ".join(f"mv {word} {word}.kept" for word in words)
    return (
        f"The run wrote {', '.join(places)}. If that is a cache, move it away and record again:"
        f" {moves}"
    )
