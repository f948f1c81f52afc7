"""Run a repository's own tests on a commit, outside the user's work tree."""

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
    from ratchet.sandbox.interpreter import Interpreter

TestOutcome = Literal["passed", "failed", "timed_out", "not_configured"]

_ALLOWED = frozenset({"PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "TERM", "TZ"})
_KEEP_BYTES = 32_768
"""Bytes of output retained, half of them from the head."""
_PROCESSES = 2048
_MEMORY_SHARE, _SCRATCH_SHARE = 0.75, 0.25
"""Shares of the machine's memory for the tests and for their scratch folder."""


@dataclass(frozen=True)
class TestCommand:
    """The repository's own test command and its permissions."""

    __test__ = False

    command: str | None = None
    """Split as a shell would, run without a shell; `{python}` stands for the agent's interpreter.
    None or blank: no tests are run.
    """
    timeout_s: float = 600.0
    """Timeout of one run in seconds; everything it started is killed then."""
    environment: tuple[str, ...] = ()
    """Names of additional environment variables to pass on."""
    network: bool = False
    """Whether the tests may use the network."""
    sandbox: bool = True
    """Whether the tests run in a sandbox."""
    hide: tuple[Path, ...] = ()
    """Files and folders that the tests must not read. Those in the repository are also removed
    from the work tree. Files named like secrets are always hidden.
    """
    read: tuple[Path, ...] = ()
    """Files and folders that the tests may read; this can include files named like secrets."""
    python: Interpreter | None = None
    """The interpreter for `{python}`; None for that of this process."""


NO_TESTS = TestCommand()


@dataclass(frozen=True)
class TestReport:
    """Result of a test command."""

    __test__ = False

    outcome: TestOutcome
    command: str = ""
    """As configured."""
    exit_code: int | None = None
    output: str = ""
    """Head and tail of stdout and stderr together."""
    timeout_s: float = 0.0
    base: TestOutcome | None = None
    """Result of the same command without the patch; None when it was not run."""
    contained: str = ""
    """How the command was sandboxed, as in "in a sandbox without network"."""
    advice: str = ""
    """A sentence on what may help besides fixing the tests; empty if nothing is known."""

    def sentence(self) -> str:
        """The result in one sentence."""
        if self.outcome == "not_configured":
            return "No test command is configured, so no tests were run on this change."
        result = _outcome_text(self.outcome, self.exit_code, self.timeout_s)
        without = (
            f"; without it they {_outcome_text(self.base, None, self.timeout_s)}"
            if self.base
            else ""
        )
        where = f", {self.contained}" if self.contained else ""
        return f"`{self.command}`{where}: the tests {result} on this change{without}."

    def hint(self) -> str | None:
        """What to do when the tests fail without the patch as well; None when they pass."""
        if self.base in (None, "passed"):
            return None
        return f"The tests fail even without the change. Fix them first. {self.advice}".strip()

    def tail(self) -> str:
        """The last lines of the output, with long lines cut."""
        lines = self.output.strip().splitlines()[-12:]
        return "\n".join(line if len(line) <= 200 else f"{line[:200]}…" for line in lines)


def run_tests(repository: Repository, commit: str, base: str, tests: TestCommand) -> TestReport:
    """Run the test command in a temporary work tree of a commit; on failure also of its base.

    It runs in a sandbox where one is available, because the commit holds a candidate's code.

    Args:
        repository: The commit's repository.
        commit: Full hash of the patched commit.
        base: Full hash of the commit without the patch.
        tests: The command and its permissions.

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


def run_once(repository: Repository, commit: str, tests: TestCommand) -> TestReport:
    """Run a command in a temporary work tree of one commit; raises as `run_tests` does."""
    return _run_on(repository, commit, tests, _level(tests.sandbox))


def _outcome_text(outcome: TestOutcome | None, exit_code: int | None, timeout_s: float) -> str:
    if outcome == "timed_out":
        return f"did not finish within {timeout_s:g} s"
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
    python = tests.python.executable if tests.python else sys.executable
    words = [word.replace("{python}", python) for word in words]
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
    """Remove what the tests must not read from a work tree.

    Returns:
        Removed paths relative to the tree. Hiding them is not enough: Landlock allows no new
        entries
        in a folder that holds something hidden.
    """
    readable = [path.resolve() for path in tests.read]
    secret = [path.relative_to(tree) for path in secret_files(tree)]
    removable = [
        path
        for path in secret
        if not any(
            (root / path).resolve().is_relative_to(readable_path) for readable_path in readable
        )
    ]
    removable += [path.relative_to(root) for path in tests.hide if path.is_relative_to(root)]
    removed = []
    for path in dict.fromkeys(removable):
        target = tree / path
        if path == Path(".git"):
            continue  # a file naming a hidden folder
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        elif os.path.lexists(target):
            target.unlink()
        else:
            continue
        removed.append(path.as_posix())
    return removed


_NO_SOCKETS = (
    "This machine's sandbox may have denied the tests a socket. A sandbox with bubblewrap "
    "(package `bubblewrap`) has its own loopback network; `network = true` under [ship] lets the "
    "tests use yours."
)


def _advice(output: str, hidden: list[str], tests: TestCommand, level: Level) -> str:
    """Advice for tests that failed in a sandbox, based on their output."""
    missed = [path for path in hidden if Path(path).name in output]
    if missed:
        names = ", ".join(f"`{path}`" for path in missed)
        listed = ", ".join(f'"{path}"' for path in missed)
        return (
            f"The output names {names}, which code in the sandbox must not read: it could learn "
            f"the expected answers or a secret. If your tests need it, set show = [{listed}] under"
            " [ship]."
        )
    # The output looks as if the tests were denied a socket.
    refused = os.strerror(errno.EPERM) in output
    return _NO_SOCKETS if refused and level == "landlock" and not tests.network else ""


_OVER = ("memory", "flooded", "crashed")
"""Statuses that only a sandbox reports."""


def _run(
    words: list[str],
    tree: Path,
    repository: Repository,
    environment: dict[str, str],
    tests: TestCommand,
    level: Level,
) -> CommandResult:
    from ratchet.sandbox import SandboxFailed, SandboxLimits, importable, run
    from ratchet.sandbox.interpreter import this_interpreter

    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # The work tree replaces the repository: the user's copy of it is not visible.
    python = tests.python or this_interpreter()
    read = [
        *importable(repository.root, python),
        Path(environment.get("VIRTUAL_ENV") or python.prefix),
        *map(Path, python.prefixes),
    ]
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
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in _ALLOWED or name.startswith("LC_") or name in names
    }
    # A package installed in editable mode would otherwise be imported from the user's work tree,
    # and the tests would run on code without the patch.
    mine = [tree / repository.prefix, tree / repository.prefix / "src", tree, tree / "src"]
    moved = [_moved(Path(p), repository.root, tree) for p in _python_path(inherited)]
    paths = dict.fromkeys(str(path) for path in [*mine, *moved] if path.is_dir())
    return {**inherited, "PYTHONPATH": os.pathsep.join(paths)}


def _python_path(environment: dict[str, str]) -> Iterator[str]:
    return (part for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part)


def _moved(path: Path, root: Path, tree: Path) -> Path:
    absolute = path.resolve()
    return tree / absolute.relative_to(root) if absolute.is_relative_to(root) else absolute
