"""Runs the project's own tests, without a wiring and with it; contained, so they leave nothing."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ratchet.cli.init_verify import WiringFinding
from ratchet.sandbox.containment import contained_level
from ratchet.sandbox.limits import SandboxFailed, SandboxUnavailable
from ratchet.wire.applying import Plan, PlannedFile
from ratchet.wire.looking.inventory import ProjectTests
from ratchet.wire.recording.contained import ContainedWatch
from ratchet.wire.recording.processes import Process

TESTS_TIMEOUT_S = 120.0
"""Time limit of each run of the tests."""

NO_COMMAND = 127
"""Exit code of a shell that does not find the program."""
NAME = "the project's tests"
_COUNT = re.compile(r"\d+ \w*(?:pass|fail|error|test)", re.I)
NO_TEST = "no test ran"
_NONE_RAN = re.compile(r"^(?:Ran 0 tests|no tests ran|collected 0 items)", re.I)
_RUNNER = re.compile(r"(uv|poetry|pdm) run ")
_FAILURE = re.compile(r"\b(?:failed|failures?|errors?)\b|^(?:FAILED|ERROR)\b|No module named")
"""A line that says what failed, which warnings may follow."""

_TIME = re.compile(
    r"(?:\bin )?\b\d+(?:\.\d+)? ?(?:m?s|sec|seconds|minutes)\b|\(\d+:\d\d:\d\d\)|[=\s]+"
)


class _NotRun(Exception):
    """The tests cannot be run here; the message is a sentence."""


class _End(NamedTuple):
    code: int
    said: str
    """The last line of what they printed, without times."""


def tests_as_before(
    root: Path,
    tests: Sequence[ProjectTests],
    plan: Plan,
    *,
    python: str,
    say: Callable[[str], None],
) -> WiringFinding | None:
    """Run the project's tests without the wiring and with it, and compare how they end.

    They run on a copy of the files and without a network, as a rollout does; the wiring is written
    into the copy. If they end differently with it, they run with it once more.

    Args:
        root: The project's folder, without the wiring.
        tests: The tests that a look named.
        plan: The wiring.
        python: The agent's interpreter; empty where none was seen.
        say: Told what is waited for.

    Returns:
        What came out; None for a project without tests.
    """
    if not tests:
        return None
    chosen = min(tests, key=lambda listed: listed.folder.count("/") + (listed.folder != "."))
    search_path = os.pathsep.join([*([str(Path(python).parent)] if python else []), _path()])
    runner = _RUNNER.match(chosen.command)
    if runner and not shutil.which(runner[1], path=search_path):
        # The environment is there all the same.
        chosen = msgspec.structs.replace(chosen, command=chosen.command[runner.end() :])
    command = chosen.command if chosen.folder == "." else f"{chosen.command} in {chosen.folder}"
    try:
        say(f"Running {NAME}, without the wiring: {command}")
        before = _run(root, chosen, (), search_path, say)
        say(f"Running {NAME}, with the wiring: {command}")
        after = _run(root, chosen, plan.files, search_path, say)
        if not _alike(before, after):
            say(
                "The result differs. Running the tests with the wiring once more, because some "
                "tests fail by chance."
            )
            after = _run(root, chosen, plan.files, search_path, say)
    except _NotRun as error:
        return WiringFinding(name=NAME, holds=None, said=str(error))
    return _compared(command, before, after)


def _compared(command: str, before: _End, after: _End) -> WiringFinding:
    if before.said == after.said == NO_TEST:
        return WiringFinding(name=NAME, holds=None, said=f"No test was found by: {command}")
    if before.code == after.code == 0:
        return WiringFinding(name=NAME, holds=True, said=f"The tests pass as before: {command}")
    if _alike(before, after):
        sentence = (
            f"The tests fail as before, with exit code {before.code}: {command} ({before.said})"
        )
        return WiringFinding(name=NAME, holds=None, said=sentence)
    sentence = (
        f"The tests end differently with the wiring: exit code {after.code} ({after.said}) "
        f"instead of {before.code} ({before.said}): {command}"
    )
    return WiringFinding(name=NAME, holds=False, said=sentence)


def _alike(before: _End, after: _End) -> bool:
    """Whether both ended alike; where no test is counted, what was printed last may be anything."""
    counted = any(_COUNT.search(end.said) for end in (before, after))
    return before.code == after.code and (before.said == after.said or not counted)


def _run(
    root: Path,
    tests: ProjectTests,
    files: Sequence[PlannedFile],
    search_path: str,
    say: Callable[[str], None],
) -> _End:
    """Run the tests once, on a copy of the project's files with these written into it."""
    with tempfile.TemporaryDirectory(prefix="ratchet-tests-") as folder:
        for file in files:
            path = Path(folder, file.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.after)
        environ = {
            **os.environ,
            "PATH": search_path,
            "RATCHET_INIT_TESTS": folder,
            # The environment as it is: there is no network.
            "UV_NO_SYNC": "1",
            "UV_FROZEN": "1",
        }
        copying = f"cp -R {shlex.quote(folder)}/. {shlex.quote(str(root))}/ && " if files else ""
        try:
            if contained_level("auto") != "bubblewrap":
                raise SandboxUnavailable("This machine cannot give the tests a copy of the files.")
            watch = ContainedWatch(root, hosts=(), writable=())
            process = Process(
                watch,
                ("/bin/sh", "-c", f"{copying}{tests.command}"),
                cwd=root / tests.folder,
                environ=environ,
                mark=folder,
            )
        except (SandboxUnavailable, SandboxFailed, OSError) as error:
            raise _NotRun(f"The tests were not run: {error}") from None
        begun = time.monotonic()
        try:
            code = process.wait(
                TESTS_TIMEOUT_S,
                lambda seconds: say(f"{tests.command} is still running after {seconds:.0f} s."),
            )
        finally:
            process.end()
        ended = process.ended(seconds=time.monotonic() - begun, code=code)
    if ended.problem:
        raise _NotRun(ended.problem)
    if ended.code is None:
        raise _NotRun(
            f"The tests did not finish within {TESTS_TIMEOUT_S:.0f} s; run them yourself:"
            f" {_typed(tests)}"
        )
    lines = [line for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
    telling = [line for line in lines if ended.code and _FAILURE.search(line)] or lines
    last_line = _TIME.sub(" ", telling[-1]).strip()[:200] if lines else "no output"
    last_line = NO_TEST if any(map(_NONE_RAN.search, lines)) else last_line
    if ended.code == NO_COMMAND:
        raise _NotRun(f"The tests cannot be run here: {last_line}")
    return _End(ended.code, last_line)


def _path() -> str:
    return os.environ.get("PATH", os.defpath)


def _typed(tests: ProjectTests) -> str:
    if tests.folder == ".":
        return tests.command
    return f"cd {shlex.quote(tests.folder)} && {tests.command}"
