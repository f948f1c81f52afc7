"""Records a service: starts it or waits for it, sends one request, and ends it."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ratchet._http import httpx2
from ratchet.sandbox.acts import Watch
from ratchet.wire.recording.contained import ContainedWatch
from ratchet.wire.recording.processes import Ended, Process, answers, wait_until
from ratchet.wire.recording.recording import ServiceRun
from ratchet.wire.recording.surroundings import Surroundings

START_S = 120.0
"""Seconds until a service that was started must answer at its port."""
MOST = 4_000_000
"""Bytes of an answer that are kept."""
OWNER_S = 600.0
"""Seconds until a service that its owner starts must answer."""


def run_service(
    run: ServiceRun,
    watch: Watch | ContainedWatch,
    root: Path,
    around: Surroundings,
    folder: Path,
    say: Callable[[str], None],
    timeout_s: float,
) -> Ended:
    """Let a service answer one request.

    Args:
        run: The service.
        watch: What starts it and sees what it does.
        root: Its working folder.
        around: Its environment.
        folder: Of the recording, where hooks keep their journals.
        say: Told what is waited for.
        timeout_s: Seconds that the answer may take.
    """
    if not run.serve:
        problem = _wait_for_owner(run, root, around, folder, say)
        return Ended(problem=problem) if problem else _asked(run, run.url, timeout_s)
    if answers(run.url):
        problem = (
            f"Something answers at {run.url} already. End it, so that the recorded service can"
            " start there; or leave out --serve, and start it yourself."
        )
        return Ended(problem=problem)
    started = time.monotonic()
    process = Process(watch, run.serve, cwd=root, environ=around.variables, mark=str(folder))
    answered = Ended()
    problem = ""
    try:
        say(f"Started {shlex.join(run.serve)}; waiting for {run.url}.")
        wait_until(
            lambda: process.code is not None or process.reachable(run.url), START_S, say, run.url
        )
        if process.code is None and (url := process.reachable(run.url)):
            answered = _asked(run, url, timeout_s)
        elif process.code is None:
            problem = f"Nothing answered at {run.url} within {START_S:g} s."
        else:
            problem = f"The service ended with exit code {process.code} before it answered."
        code = process.code
        seconds = time.monotonic() - started
    finally:
        process.end()
    ended = process.ended(seconds=seconds, code=code, timed_out=answered.timed_out)
    return ended.with_answer(answered, problem)


def _asked(run: ServiceRun, url: str, timeout_s: float) -> Ended:
    """Send the request, and read the answer to its end."""
    started = time.monotonic()
    body = bytearray()
    problem, status, late = "", 0, False
    try:
        with (
            httpx2.Client(trust_env=False, timeout=timeout_s) as client,
            client.stream(
                run.method, url, content=run.data.encode(), headers=_headers(run)
            ) as answer,
        ):
            status = answer.status_code
            for piece in answer.iter_bytes():
                body += piece[: MOST - len(body)]
                if time.monotonic() - started > timeout_s:
                    late = True
                    break
    except httpx2.TimeoutException:
        late = True
    except httpx2.HTTPError as error:
        problem = f"{run.url} gave no answer: {error or type(error).__name__}."
    if late:
        problem = f"{run.url} did not answer within {timeout_s:g} s."
    return Ended(
        timed_out=late,
        seconds=time.monotonic() - started,
        problem=problem,
        response=body.decode("utf-8", "replace"),
        status=status,
    )


def _headers(run: ServiceRun) -> dict[str, str]:
    if any(name.lower() == "content-type" for name in run.headers):
        return dict(run.headers)
    try:
        json.loads(run.data)
    except ValueError:
        return {"content-type": "text/plain; charset=utf-8", **run.headers}
    return {"content-type": "application/json", **run.headers}


def _wait_for_owner(
    run: ServiceRun,
    root: Path,
    around: Surroundings,
    folder: Path,
    say: Callable[[str], None],
) -> str:
    """Wait until the owner has started the service as it is said; why not, or nothing."""
    for line in starting_lines(root, around):
        say(line)
    if old := answers(run.url):
        say(f"What answers at {run.url} now was not started with them: end it first.")

    def started() -> bool:
        nonlocal old
        there = answers(run.url)
        old = old and there
        return there and (not old or any(folder.glob("*.jsonl")))

    wait_until(started, OWNER_S, say, f"the service at {run.url}")
    if started():
        return ""
    return f"No service that was started with these variables answered at {run.url}."


def starting_lines(root: Path, around: Surroundings) -> list[str]:
    """How the owner starts the service: the variables for its language."""
    hooks = around.hooks
    mark = f"RATCHET_RECORDING={shlex.quote(hooks['RATCHET_RECORDING'])}"
    lines = ["Start your service in another terminal as usual, with two variables before it:"]
    python = any(root.glob("*.py")) or any(
        (root / name).exists() for name in ("pyproject.toml", "requirements.txt", "setup.py")
    )
    if python:
        lines.append(f"  PYTHONPATH={shlex.quote(hooks['PYTHONPATH'])} {mark} …")
    if (root / "package.json").exists():
        lines.append(f"  NODE_OPTIONS={shlex.quote(hooks['NODE_OPTIONS'])} {mark} …")
    if len(lines) == 1:
        lines.append(f"  {_assignments(around.providers)} …")
    return lines


def _assignments(variables: Mapping[str, str]) -> str:
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
