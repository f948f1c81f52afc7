"""Run a repository's own tests on a commit, away from the user's work tree."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal

from ratchet.ship.repository import Repository
from ratchet.ship.worktree import checkout
from ratchet.types import ShipError

Outcome = Literal["passed", "failed", "timed_out", "not_configured"]

_ALLOWED = frozenset({"PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "TERM", "TZ"})
_KEEP_BYTES = 16_384
"""Bytes of output kept from the head and from the tail, each."""
_REAP_S = 2.0


@dataclass(frozen=True)
class TestReport:
    """How a test command ended."""

    __test__ = False

    outcome: Outcome
    command: str = ""
    """As configured."""
    exit_code: int | None = None
    output: str = ""
    """Head and tail of stdout and stderr together."""
    timeout_s: float = 0.0
    base: Outcome | None = None
    """How the same command ended without the patch; None when it was not tried."""

    def sentence(self) -> str:
        """The report in one sentence."""
        if self.outcome == "not_configured":
            return "No test command is configured, so no tests were run on this change."
        said = _said(self.outcome, self.exit_code, self.timeout_s)
        without = f"; without it they {_said(self.base, None, self.timeout_s)}" if self.base else ""
        return f"`{self.command}`: the tests {said} on this change{without}."

    def tail(self) -> str:
        """The last lines of the output, long ones cut."""
        lines = self.output.strip().splitlines()[-12:]
        return "\n".join(line if len(line) <= 200 else f"{line[:200]}…" for line in lines)


def run_tests(
    repository: Repository,
    commit: str,
    base: str,
    *,
    command: str | None,
    timeout_s: float,
    environment: Sequence[str] = (),
) -> TestReport:
    """Run the test command in a temporary work tree of a commit; on failure also of its base.

    Args:
        repository: Whose commit it is.
        commit: Full hash of the patched commit.
        base: Full hash of the commit without the patch.
        command: As a shell would split it, run without a shell; `{python}` stands for this
            interpreter. None or blank: nothing is run.
        timeout_s: Seconds for one run; everything it started is killed then.
        environment: Names of further environment variables to hand on.

    Raises:
        ShipError: The command is malformed or its program does not exist.
    """
    if command is None or not command.strip():
        return TestReport("not_configured")
    report = _run_on(repository, commit, command, timeout_s, environment)
    if report.outcome == "passed":
        return report
    return replace(report, base=_run_on(repository, base, command, timeout_s, environment).outcome)


def _said(outcome: Outcome | None, exit_code: int | None, timeout_s: float) -> str:
    if outcome == "timed_out":
        return f"did not end within {timeout_s:g} s"
    if outcome == "failed":
        return "fail" if exit_code is None else f"fail (exit code {exit_code})"
    return "pass"


def _run_on(
    repository: Repository, commit: str, command: str, timeout_s: float, names: Sequence[str]
) -> TestReport:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ShipError(
            f"The test command {command!r} cannot be split into words: {error}.",
            hint="Check its quotes in ratchet.toml.",
        ) from None
    words = [word.replace("{python}", sys.executable) for word in words]
    with checkout(repository, commit) as tree:
        folder = tree / repository.prefix
        outcome, code, output = _run(
            words, folder, _environment(repository, tree, names), timeout_s, command
        )
    return TestReport(outcome, command, code, output, timeout_s)


def _run(
    words: list[str], folder: Path, environment: dict[str, str], timeout_s: float, command: str
) -> tuple[Outcome, int | None, str]:
    try:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise ShipError(
            f"The test command {command!r} cannot be started: {error}.",
            hint="Check it in ratchet.toml; `{python}` stands for this interpreter.",
        ) from None
    kept = _Kept()
    assert process.stdout is not None
    reader = threading.Thread(target=kept.read, args=(process.stdout,), daemon=True)
    reader.start()
    outcome: Outcome = "failed"
    try:
        code = process.wait(timeout_s)
        outcome = "passed" if code == 0 else "failed"
    except subprocess.TimeoutExpired:
        outcome = "timed_out"
    finally:
        # Also after a normal end: what the tests left running must not outlive the work tree.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join(_REAP_S)
        if not reader.is_alive():
            process.stdout.close()
    return outcome, process.returncode if outcome != "timed_out" else None, kept.text()


class _Kept:
    """Head and tail of a stream of any length."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def read(self, stream: IO[bytes]) -> None:
        while chunk := os.read(stream.fileno(), 65_536):
            room = _KEEP_BYTES - len(self._head)
            self._head += chunk[:room]
            self._tail += chunk[room:]
            if (over := len(self._tail) - _KEEP_BYTES) > 0:
                self._dropped += over
                del self._tail[:over]

    def text(self) -> str:
        gap = f"\n… {self._dropped} bytes left out …\n".encode() if self._dropped else b""
        return bytes(self._head + gap + self._tail).decode(errors="replace")


def _environment(repository: Repository, tree: Path, names: Sequence[str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _ALLOWED or name.startswith("LC_") or name in names
    }
    # A package installed in editable mode would otherwise be imported from the user's work tree,
    # and the tests would pass on code without the patch.
    mine = [tree / repository.prefix, tree / repository.prefix / "src", tree, tree / "src"]
    given = [_moved(Path(p), repository.root, tree) for p in _python_path(kept)]
    paths = dict.fromkeys(str(path) for path in [*mine, *given] if path.is_dir())
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)}


def _python_path(environment: dict[str, str]) -> Iterator[str]:
    return (part for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part)


def _moved(path: Path, root: Path, tree: Path) -> Path:
    absolute = path.resolve()
    return tree / absolute.relative_to(root) if absolute.is_relative_to(root) else absolute
