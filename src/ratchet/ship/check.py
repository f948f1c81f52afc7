"""Run a repository's own tests on a commit, away from the user's work tree."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ratchet.ship.repository import Repository
from ratchet.ship.worktree import checkout
from ratchet.source import secret_files
from ratchet.types import ShipError

if TYPE_CHECKING:
    from ratchet.sandbox import CommandResult, Level

TestOutcome = Literal["passed", "failed", "timed_out", "not_configured"]

_ALLOWED = frozenset({"PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "TERM", "TZ"})
_KEEP_BYTES = 32_768
"""Bytes of output kept, half of them from the head."""
_PROCESSES = 2048
_MEMORY_SHARE, _SCRATCH_SHARE = 0.75, 0.25
"""How much of the machine's memory tests may take, and how much of it their scratch folder."""


@dataclass(frozen=True)
class TestCommand:
    """The repository's own tests, and what they may have."""

    __test__ = False

    command: str | None = None
    """As a shell would split it, run without a shell; `{python}` stands for this interpreter. None
    or blank: nothing is run."""
    timeout_s: float = 600.0
    """Seconds for one run; everything it started is killed then."""
    environment: tuple[str, ...] = ()
    """Names of further environment variables to hand on."""
    network: bool = False
    """The tests may use the network."""
    sandbox: bool = True
    """False runs them without a sandbox."""
    hide: tuple[Path, ...] = ()
    """Files and folders that they must not read; those of the repository are not in their work
    tree either. Secrets by their names are hidden unasked."""
    read: tuple[Path, ...] = ()
    """Files and folders that they may read; a secret by its name that is named here as well."""


NO_TESTS = TestCommand()


@dataclass(frozen=True)
class TestReport:
    """How a test command ended."""

    __test__ = False

    outcome: TestOutcome
    command: str = ""
    """As configured."""
    exit_code: int | None = None
    output: str = ""
    """Head and tail of stdout and stderr together."""
    timeout_s: float = 0.0
    base: TestOutcome | None = None
    """How the same command ended without the patch; None when it was not tried."""
    contained: str = ""
    """How the command was contained, as in "in a sandbox without network"."""
    advice: str = ""
    """What may help beside mending the tests, in a sentence; empty when nothing is known."""

    def sentence(self) -> str:
        """The report in one sentence."""
        if self.outcome == "not_configured":
            return "No test command is configured, so no tests were run on this change."
        said = _said(self.outcome, self.exit_code, self.timeout_s)
        without = f"; without it they {_said(self.base, None, self.timeout_s)}" if self.base else ""
        where = f", {self.contained}" if self.contained else ""
        return f"`{self.command}`{where}: the tests {said} on this change{without}."

    def hint(self) -> str | None:
        """What to do when the tests fail without the patch, too; None when they do not."""
        if self.base in (None, "passed"):
            return None
        return f"They fail without the change too: mend them first. {self.advice}".strip()

    def tail(self) -> str:
        """The last lines of the output, long ones cut."""
        lines = self.output.strip().splitlines()[-12:]
        return "\n".join(line if len(line) <= 200 else f"{line[:200]}…" for line in lines)


def run_tests(repository: Repository, commit: str, base: str, tests: TestCommand) -> TestReport:
    """Run the test command in a temporary work tree of a commit; on failure also of its base.

    It runs in a sandbox where this machine can make one: a candidate's code is in that commit.

    Args:
        repository: Whose commit it is.
        commit: Full hash of the patched commit.
        base: Full hash of the commit without the patch.
        tests: The command, and what it may have.

    Raises:
        ShipError: The command is malformed or its program does not exist.
    """
    if tests.command is None or not tests.command.strip():
        return TestReport("not_configured")
    level = _level(tests.sandbox)
    report = _run_on(repository, commit, tests, level)
    if report.outcome == "passed":
        return report
    return replace(report, base=_run_on(repository, base, tests, level).outcome)


def _said(outcome: TestOutcome | None, exit_code: int | None, timeout_s: float) -> str:
    if outcome == "timed_out":
        return f"did not end within {timeout_s:g} s"
    if outcome == "failed":
        return "fail" if exit_code is None else f"fail (exit code {exit_code})"
    return "pass"


def _contained(tests: TestCommand, level: Level) -> str:
    if level == "none":
        return "without a sandbox"
    return "in a sandbox" if tests.network else "in a sandbox without network"


def _level(sandbox: bool) -> Level:
    from ratchet.sandbox import best_level

    return best_level() if sandbox else "none"


def _run_on(repository: Repository, commit: str, tests: TestCommand, level: Level) -> TestReport:
    command = tests.command or ""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ShipError(
            f"The test command {command!r} cannot be split into words: {error}.",
            hint="Check its quotes in ratchet.toml.",
        ) from None
    words = [word.replace("{python}", sys.executable) for word in words]
    with checkout(repository, commit) as tree:
        hidden = [] if level == "none" else _take_out(tree, repository.root, tests)
        environment = _environment(repository, tree, tests.environment)
        ended = _run(words, tree, repository, environment, tests, level)
    outcome: TestOutcome = "passed" if ended.code == 0 else "failed"
    if ended.status == "timed_out":
        outcome = "timed_out"
    why = f"{ended.output}\n{ended.error}" if ended.status in _OVER else ended.output
    return TestReport(
        outcome,
        command,
        ended.code,
        why,
        tests.timeout_s,
        contained=_contained(tests, level),
        advice=_advice(why, hidden, tests, level),
    )


def _take_out(tree: Path, root: Path, tests: TestCommand) -> list[str]:
    """Remove from a work tree what the tests must not read.

    Returns:
        What was removed, by path relative to the tree. It is not only made unreadable: where a
        folder holds something unreadable, Landlock lets nothing be made in it.
    """
    shown = [path.resolve() for path in tests.read]
    secret = [path.relative_to(tree) for path in secret_files(tree)]
    taken = [
        path
        for path in secret
        if not any((root / path).resolve().is_relative_to(one) for one in shown)
    ]
    taken += [path.relative_to(root) for path in tests.hide if path.is_relative_to(root)]
    removed = []
    for path in dict.fromkeys(taken):
        there = tree / path
        if path == Path(".git"):
            continue  # a file that names a folder, which is not shown
        if there.is_dir() and not there.is_symlink():
            shutil.rmtree(there)
        elif os.path.lexists(there):
            there.unlink()
        else:
            continue
        removed.append(path.as_posix())
    return removed


_NO_SOCKETS = (
    "The sandbox of this machine may have refused them a socket: one with bubblewrap (package"
    " `bubblewrap`) has a loopback network of its own; `network = true` under [ship] gives them"
    " yours."
)


def _advice(output: str, hidden: list[str], tests: TestCommand, level: Level) -> str:
    """What may help tests that failed in a sandbox, by what they printed."""
    missed = [path for path in hidden if Path(path).name in output]
    if missed:
        names = ", ".join(f"`{path}`" for path in missed)
        listed = ", ".join(f'"{path}"' for path in missed)
        return (
            f"They name {names}, which code in the sandbox must not read: it could learn the"
            f" expected answers or a secret. If your tests need it, set show = [{listed}] under"
            " [ship]."
        )
    # The output looks as if a test had been refused a socket.
    refused = os.strerror(errno.EPERM) in output
    return _NO_SOCKETS if refused and level == "landlock" and not tests.network else ""


_OVER = ("memory", "flooded", "crashed")
"""Ways to end that only the sandbox can tell of."""


def _run(
    words: list[str],
    tree: Path,
    repository: Repository,
    environment: dict[str, str],
    tests: TestCommand,
    level: Level,
) -> CommandResult:
    from ratchet.sandbox import SandboxFailed, SandboxLimits, importable, run

    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # The work tree stands for the repository: the user's own copy of it is not shown.
    read = [*importable(repository.root), Path(environment.get("VIRTUAL_ENV") or sys.prefix)]
    try:
        return run(
            words,
            cwd=tree / repository.prefix,
            environment=environment,
            writable=[tree],
            read=[path for path in (*read, *tests.read) if path.exists()],
            hide=tests.hide,
            limits=SandboxLimits(
                seconds=tests.timeout_s,
                memory_bytes=int(machine * _MEMORY_SHARE),
                processes=_PROCESSES,
                output_bytes=_KEEP_BYTES,
                scratch_bytes=int(machine * _SCRATCH_SHARE),
            ),
            level=level,
            unsafe=level == "none",
            network=tests.network,
        )
    except SandboxFailed as error:
        raise ShipError(
            f"The test command {tests.command!r} cannot be started: {error}",
            hint="Check it in ratchet.toml; `{python}` stands for this interpreter.",
        ) from None


def _environment(repository: Repository, tree: Path, names: Collection[str]) -> dict[str, str]:
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
