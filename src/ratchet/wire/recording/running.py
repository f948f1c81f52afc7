"""Runs a command to its end, or a service until it has answered one request, and ends it."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from ratchet._http import httpx2
from ratchet.run.handover import FORM_TYPE
from ratchet.run.request_headers import filled_headers
from ratchet.sandbox.acts import Watch
from ratchet.types import InputError
from ratchet.types.wording import counted
from ratchet.wire.recording.contained import ContainedWatch
from ratchet.wire.recording.environment import RunEnvironment
from ratchet.wire.recording.processes import Ended, Process, answers, wait_until
from ratchet.wire.recording.recording import CommandRun, ServiceRun

OWNER_S = 600.0
"""Seconds within which a service that its owner starts must answer."""
MAX_ANSWER_BYTES = 4_000_000
"""Maximum number of bytes of an answer to keep."""


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """Where a recorded program runs."""

    root: Path
    """Its working folder."""
    folder: Path
    """Folder of the recording, where hooks keep their journals."""
    around: RunEnvironment
    watch: Watch | ContainedWatch
    """Starts the program and watches what it does."""
    say: Callable[[str], None]
    """Called with what is being waited for."""
    timeout_s: float
    """Seconds that the command, or the service's answer, may take."""
    model_calls: Callable[[], int]
    """Number of model calls so far."""

    def start(self, argv: tuple[str, ...], stdin: str | None) -> Process:
        """Start a program here."""
        return Process(
            self.watch,
            argv,
            cwd=self.root,
            environ=self.around.variables,
            mark=str(self.folder),
            stdin=stdin,
        )


def run_command(run: CommandRun, stage: Stage) -> Ended:
    """Run a command to its end or its time limit."""
    started = time.monotonic()
    try:
        process = stage.start(run.argv, run.stdin)
    except OSError as error:
        problem = f"{run.argv[0]} cannot be started: {error.strerror or error}."
        return Ended(code=127, problem=problem)

    def still_runs(seconds: float) -> None:
        calls = counted(stage.model_calls(), "model call")
        stage.say(f"The command is still running after {seconds:.0f} s and {calls}.")

    try:
        code = process.wait(stage.timeout_s, still_runs)
        seconds = time.monotonic() - started
    finally:
        process.end()
    return process.ended(seconds=seconds, code=code, timed_out=code is None)


def run_service(run: ServiceRun, stage: Stage) -> Ended:
    """Send one request to a service, which Ratchet or its owner starts.

    Raises:
        InputError: Something else listens where the service should start.
    """
    if not run.serve:
        problem = _wait_for_owner(run, stage)
        return Ended(problem=problem) if problem else _asked(run, run.url, stage)
    if isinstance(stage.watch, Watch) and answers(run.url):
        raise InputError(
            f"Something is already listening at {run.url}.",
            hint="Stop it so that the recorded service can start there, or leave out --serve and "
            "start the service yourself.",
        )
    started = time.monotonic()
    process = stage.start(run.serve, None)
    answered, problem = Ended(), ""
    try:
        stage.say(f"Started the service; waiting for {run.url}.")
        wait_until(
            lambda: process.code is not None or process.reachable(run.url),
            stage.timeout_s,
            stage.say,
            run.url,
        )
        if process.code is None and (url := process.reachable(run.url)):
            answered = _asked(run, url, stage)
        elif process.code is None:
            problem = f"Nothing answered at {run.url} within {stage.timeout_s:g} s."
        else:
            problem = f"The service ended with exit code {process.code} before it answered."
        code = process.code
        seconds = time.monotonic() - started
    finally:
        process.end()
    ended = process.ended(seconds=seconds, code=code, timed_out=answered.timed_out)
    return ended.with_answer(answered, problem)


def _asked(run: ServiceRun, url: str, stage: Stage) -> Ended:
    """Send the request, and read the answer to its end."""
    started = time.monotonic()
    body = bytearray()
    problem, status, late, timeout_s = "", 0, False, stage.timeout_s
    headers = filled_headers(run.headers, {**stage.around.dotenv, **stage.around.owner})
    try:
        with (
            httpx2.Client(trust_env=False, timeout=timeout_s) as client,
            client.stream(
                run.method,
                url,
                content=(urlencode(run.form) or run.data).encode(),
                headers={"content-type": _content_type(run), **headers},
            ) as answer,
        ):
            status = answer.status_code
            for piece in answer.iter_bytes():
                body += piece[: MAX_ANSWER_BYTES - len(body)]
                if time.monotonic() - started > timeout_s:
                    late = True
                    break
    except httpx2.TimeoutException:
        late = True
    except httpx2.HTTPError as error:
        problem = f"{run.url} did not answer: {error or type(error).__name__}."
    if late:
        problem = f"{run.url} did not answer within {timeout_s:g} s."
    return Ended(
        timed_out=late,
        seconds=time.monotonic() - started,
        problem=problem,
        response=body.decode("utf-8", "replace"),
        status=status,
    )


def _content_type(run: ServiceRun) -> str:
    if run.form:
        return FORM_TYPE
    try:
        json.loads(run.data)
    except ValueError:
        return "text/plain; charset=utf-8"
    return "application/json"


def _wait_for_owner(run: ServiceRun, stage: Stage) -> str:
    """Wait until the owner has started the service as told. Returns why not; empty if it did."""
    for line in _starting_lines(stage.root, stage.around):
        stage.say(line)
    if old := answers(run.url):
        stage.say(f"The service at {run.url} is running without these variables: stop it first.")

    def started() -> bool:
        nonlocal old
        answering = answers(run.url)
        old = old and answering
        return answering and (not old or any(stage.folder.glob("*.jsonl")))

    wait_until(started, OWNER_S, stage.say, f"the service at {run.url}")
    if started():
        return ""
    return f"No service that was started with these variables answered at {run.url}."


def _starting_lines(root: Path, around: RunEnvironment) -> list[str]:
    """How the owner starts the service: with variables that depend on its language."""
    manifests = ("pyproject.toml", "requirements.txt", "setup.py")
    hooks = []
    if any(root.glob("*.py")) or any((root / name).exists() for name in manifests):
        hooks.append("PYTHONPATH")
    if (root / "package.json").exists():
        hooks.append("BUN_OPTIONS" if any(root.glob("bun.lock*")) else "NODE_OPTIONS")
    ways = [{name: around.hooks[name] for name in (hook, "RATCHET_RECORDING")} for hook in hooks]
    return [
        "Start your service in another terminal as usual, with these variables set:",
        *(
            "  " + " ".join(f"{name}={shlex.quote(value)}" for name, value in way.items()) + " …"
            for way in ways or [around.providers]
        ),
    ]
