"""The test check: runs the repository's own tests that cover a target on a candidate's code."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from ratchet.bind import same_behaviour
from ratchet.learn.checks.check import CandidateChange
from ratchet.learn.checks.copies import Copies
from ratchet.source import SourceTree, TestFile, related_tests
from ratchet.types import Candidate, Code, Declaration

MAX_FILES = 20
"""Maximum number of test files per candidate, the nearest to the target first."""

FAULT_LIMIT = 600
"""Maximum length of output in a fault, in characters."""

TIMEOUT_RATIO, MIN_TIMEOUT_S = 10.0, 20.0
"""Timeout with a candidate's code, as a multiple of the duration without it, and the minimum in
seconds: other candidates wait for tests that hang."""

MAX_FAILURES = 3
"""Number of failing tests after which the run stops: one is enough to refuse."""

_WITH_VALUE = frozenset({"-c", "--config-file", "--confcutdir", "-k", "-m", "-p", "--rootdir"})
"""Options of pytest and of Python that take a value."""

_PYTEST = ("-rfE", "--tb=short", "-p", "no:cacheprovider")
"""Options always passed: list the names and reasons of failures, leave no cache behind."""

_FAILED = {
    "pytest": re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE),
    "unittest": re.compile(r"^(?:FAIL|ERROR): (.+)$", re.MULTILINE),
}
_PASSED = re.compile(r"^.*?\b(\d+) passed\b.*$", re.MULTILINE)
_NOISE = re.compile(
    r"\s*([.FEsxX=_-]+( *\[ *\d+%\])?|Ran \d+ tests? in .*|=*[^=]* in \d+\.\d+s[^=]*=*"
    r"|=+ [\w ]+ =+|[ _]*_ .* _[ _]*|FAILED \([\w=, ]+\)|!+ .* !+)\s*"
)
"""Lines of a test runner's output without information on a failure."""
_RAN = re.compile(r"^Ran (\d+) tests?\b", re.MULTILINE)


class CheckRun(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a command in the sandbox."""

    code: int | None
    """Exit code; None if it was stopped."""
    output: str
    seconds: float = 0.0
    """Duration in seconds."""


class CommandRunner(Protocol):
    """Runs a command in isolation."""

    async def __call__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        seconds: float | None = None,
    ) -> CheckRun:
        """Run it in a writable folder, with a timeout in seconds."""
        ...


class TestVerdict(msgspec.Struct, frozen=True):
    """Result of a test run."""

    failed: frozenset[str]
    passed: int
    output: str
    seconds: float = 0.0
    """Duration in seconds."""


class OwnTests:
    """The test check.

    Tests that also fail on the unpatched source are ignored. If the tests cannot run without the
    patch either (for example because they need a service), the check passes, and this is reported
    once.

    Args:
        tree: The repository's sources.
        targets: Location of each code resource, by name.
        patch: Maps the change to content by path, relative to the repository's root, with the
            candidate's code.
        copies: Makes copies of the repository.
        command: The test command of `[ship]`; None for pytest or unittest, by the kind of tests.
        run: Runs commands in the sandbox.
        python: Path of the interpreter that has the repository's packages.
        say: Called once with each thing that could not be tested.
    """

    def __init__(
        self,
        *,
        tree: SourceTree,
        targets: Mapping[str, Declaration],
        patch: Callable[[Candidate], Mapping[str, bytes]],
        copies: Copies,
        command: str | None,
        run: CommandRunner,
        python: str = sys.executable,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._tree = tree
        self._targets = targets
        self._patch = patch
        self._copies = copies
        self._command = command
        self._run = run
        self._python = python
        self._say = say
        self._reported: set[str] = set()
        self._baselines: dict[tuple[Path, ...], asyncio.Future[TestVerdict]] = {}
        self._touching: dict[str, list[TestFile]] = {}

    async def __call__(self, change: CandidateChange) -> str:
        """Run the tests that cover the change."""
        names = [
            name
            for name, (old, new) in change.resources.items()
            if isinstance(old, Code) and isinstance(new, Code) and not same_behaviour(old, new)
        ]
        tests = await asyncio.to_thread(self._tests, names)
        if not tests:
            return ""
        patch = self._patch(change.candidate)
        key = tuple(test.file for test in tests)
        before = await self._baseline(key, tests)
        if not before.passed:
            self._report(
                "The tests that touch "
                + ", ".join(names)
                + f" do not pass without a change either, so they check nothing: {before.output}"
            )
            return ""
        self._report(
            f"The code of {', '.join(names)} must pass the tests that touch it before it costs "
            f"more than a few rollouts: {_files(self._tree.root, tests)}."
        )
        patience = max(MIN_TIMEOUT_S, TIMEOUT_RATIO * before.seconds)
        after = await self._verdict(tests, patch, before.failed, patience)
        new = sorted(after.failed - before.failed)
        listed = ", ".join(names)
        if new:
            more = f" and {len(new) - MAX_FAILURES} more" if len(new) > MAX_FAILURES else ""
            return (
                f"The code of {listed} fails tests of the repository that pass without it: "
                f"{', '.join(new[:MAX_FAILURES])}{more}. {after.output}"
            )
        if after.passed < before.passed:
            return (
                f"With the code of {listed}, {after.passed} tests of the repository pass; without "
                f"it, {before.passed}."
            )
        return ""

    def _tests(self, names: Sequence[str]) -> list[TestFile]:
        by_file: dict[Path, TestFile] = {}
        for name in names:
            target = self._targets.get(name)
            if target is None or target.file is None:
                continue
            if name not in self._touching:
                function = (target.qualname or name).rpartition(".")[2]
                self._touching[name] = related_tests(
                    self._tree, Path(target.file).resolve(), function
                )
            for test in self._touching[name]:
                by_file.setdefault(test.file, test)
        nearest = sorted(by_file.values(), key=lambda t: (not t.mentions, t.distance, t.file))
        return nearest[:MAX_FILES]

    async def _baseline(self, key: tuple[Path, ...], tests: Sequence[TestFile]) -> TestVerdict:
        baseline = self._baselines.get(key)
        if baseline is None or (baseline.done() and (baseline.cancelled() or baseline.exception())):
            baseline = asyncio.ensure_future(self._verdict(tests, {}))
            self._baselines[key] = baseline
        return await asyncio.shield(baseline)

    async def _verdict(
        self,
        tests: Sequence[TestFile],
        patch: Mapping[str, bytes],
        failing: Collection[str] | None = None,
        patience: float | None = None,
    ) -> TestVerdict:
        def made() -> tuple[object, Path]:
            context = self._copies.patched(patch)
            return context, context.__enter__()

        context, copy = await asyncio.to_thread(made)
        try:
            failed: set[str] = set()
            passed, output, seconds = 0, "", 0.0
            for kind, command in self._commands(tests):
                if kind == "pytest":
                    command += _shortened(failing)
                ran = await self._run(
                    command, folder=copy, environment=self._environment(copy), seconds=patience
                )
                seconds += ran.seconds
                verdict = _read(kind, ran)
                failed |= verdict.failed
                passed += verdict.passed
                output = output or (verdict.output if verdict.failed or not passed else "")
            return TestVerdict(frozenset(failed), passed, output.replace(f"{copy}/", ""), seconds)
        finally:
            await asyncio.to_thread(context.__exit__, None, None, None)  # type: ignore[attr-defined]

    def _commands(self, tests: Sequence[TestFile]) -> list[tuple[str, list[str]]]:
        """Commands to run: the configured one on these files, if its syntax is known."""
        files = [test.file.relative_to(self._tree.root).as_posix() for test in tests]
        words = [w.replace("{python}", self._python) for w in shlex.split(self._command or "")]
        if words and any(Path(word).name in ("pytest", "py.test") for word in words):
            options = self._without_paths(words)
            return [("pytest", [*options, *_PYTEST, *files])]
        if words and "unittest" not in words:
            return [("whole", words)]
        commands = []
        under_pytest = [t for t in tests if t.kind == "pytest" and "unittest" not in words]
        if under_pytest:
            chosen = [f for f, t in zip(files, tests, strict=True) if t in under_pytest]
            start = [self._python, "-m", "pytest", "-q"]
            commands.append(("pytest", [*start, *_PYTEST, *chosen]))
        unittest_files = [f for f, t in zip(files, tests, strict=True) if t not in under_pytest]
        if unittest_files:
            commands.append(("unittest", [self._python, "-m", "unittest", *unittest_files]))
        return commands

    def _without_paths(self, words: Sequence[str]) -> list[str]:
        """A pytest command without its path arguments."""
        arguments = []
        for before, word in zip(["", *words], words, strict=False):
            is_path = (self._tree.root / word.partition("::")[0]).exists()
            if not is_path or Path(word).is_absolute() or before in _WITH_VALUE:
                arguments.append(word)
        return arguments

    def _environment(self, copy: Path) -> dict[str, str]:
        root = self._tree.root
        folders = [copy / folder.relative_to(root) for folder in self._tree.path]
        path = dict.fromkeys(str(f) for f in [*folders, copy, copy / "src"] if f.is_dir())
        return {"PYTHONPATH": ":".join(path), "PYTHONDONTWRITEBYTECODE": "1"}

    def _report(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self._say(text)


def _files(root: Path, tests: Sequence[TestFile]) -> str:
    paths = [test.file.relative_to(root).as_posix() for test in tests[:3]]
    more = f" and {len(tests) - 3} more" if len(tests) > 3 else ""
    return f"{', '.join(paths)}{more}"


def _shortened(failing: Collection[str] | None) -> list[str]:
    """Pytest options for a candidate's run: skip known failures, stop after a few new ones."""
    if failing is None:
        return []
    deselected = sorted(name for name in failing if "::" in name)
    unloaded = len(failing) - len(deselected)  # files that fail to load
    return [f"--maxfail={unloaded + MAX_FAILURES}", *(f"--deselect={name}" for name in deselected)]


def _read(kind: str, ran: CheckRun) -> TestVerdict:
    """Parse a run's output: which tests failed, and how many passed."""
    output = ran.output.strip()
    if ran.code is None:
        return TestVerdict(
            frozenset({"the tests' time"}), 0, f"They did not end in time. {_end(output)}"
        )
    if kind == "whole":
        ended = frozenset() if ran.code == 0 else frozenset({"the test command"})
        return TestVerdict(ended, int(ran.code == 0), _end(output))
    failed = {name.strip() for name in _FAILED[kind].findall(output)}
    counts = (_PASSED if kind == "pytest" else _RAN).findall(output)
    passed = int(counts[-1]) if counts else 0
    if kind == "unittest":
        passed = max(0, passed - len(failed))
    if ran.code not in (0, 5) and not failed:  # 5: pytest found no test
        failed = {f"the run itself (exit code {ran.code})"}
    return TestVerdict(frozenset(failed), passed, _end(output))


def _end(output: str) -> str:
    """The end of the output, without separators and durations, so that it is reproducible."""
    lines = [line.rstrip() for line in output.splitlines() if not _NOISE.fullmatch(line)]
    tail: list[str] = []
    left = FAULT_LIMIT
    for line in reversed([line for line in lines if line]):
        left -= len(line) + 1
        if left < 0:
            if not tail:
                tail.append(line[:FAULT_LIMIT])
            break
        tail.append(line)
    return "\n".join(reversed(tail))
