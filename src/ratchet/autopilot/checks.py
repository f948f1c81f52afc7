"""Checks that a candidate must pass before rollouts are spent on it."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from ratchet.autopilot.code_sandbox import hidden_paths, is_self_graded, repository_of
from ratchet.autopilot.project import Project
from ratchet.learn import Finding, Lab
from ratchet.learn.checks import (
    CandidateChange,
    Check,
    CheckRun,
    Checks,
    Copies,
    OwnTests,
    TypeChecks,
    has_mypy,
    imports_what_is_there,
    installed,
    keeps_prompt,
    keeps_shape,
)
from ratchet.run.contained import SELF_GRADED, differs
from ratchet.run.program import AnyAgent
from ratchet.ship import make_patch
from ratchet.source import SourceTree
from ratchet.types import Candidate, Code, Declaration, ShipError

TEST_MEMORY = 1024 * 1024 * 1024
TEST_PROCESSES = 64

TESTS_AT_ONCE = 2
"""Concurrent test commands; one on fewer than four cores, since rollouts run at the same time."""


def make_checks(
    project: Project,
    agent: AnyAgent,
    baseline: Candidate,
    say: Callable[[str], None] = lambda text: None,
) -> Checks:
    """The checks for a project; checks of code only if it has code.

    Args:
        project: The project.
        agent: The loaded agent.
        baseline: Compared with candidates.
        say: Called once for each thing that cannot be checked.
    """
    section = project.config.checks
    checks: list[Check] = [keeps_prompt(section.prompt_growth)]
    tests: list[Check] = []
    targets = {
        name: declaration
        for name, declaration in agent.declarations.items()
        if isinstance(declaration.resource, Code)
    }
    if targets:
        root = repository_of(project.root)
        interpreter = project.interpreter
        python = interpreter.executable if interpreter else sys.executable
        importing = interpreter.path if interpreter else None
        path = [str((project.root / folder).resolve()) for folder in project.config.agent.path]
        tree = SourceTree(root, (*path, ".", "src"))
        patch = _Patches(baseline, agent.declarations, root)
        copies = Copies(root, hidden_paths(project))
        code = {name: d.resource for name, d in targets.items() if isinstance(d.resource, Code)}
        checks.append(_can_be_contained(project, code))
        if is_self_graded(project, agent) and not project.config.sandbox.unsafe_self_graded:
            checks.append(_not_self_graded(code))
        checks += [
            keeps_shape,
            imports_what_is_there(_texts(targets), _is_there(tree, importing)),
            patch,
        ]
        if section.types and has_mypy(root, importing):
            tests.append(TypeChecks(patch.files, copies, say, python))
        if section.tests:
            tests.append(
                OwnTests(
                    tree=tree,
                    targets=targets,
                    patch=patch.files,
                    copies=copies,
                    command=project.config.ship.test,
                    run=_Sandboxed(project, root),
                    python=python,
                    say=say,
                )
            )
    return Checks(baseline, checks, tests)


async def checked_finding(lab: Lab, finding: Finding) -> Finding:
    """The finding of learning, or the source when checks or tests refuse its best candidate.

    Algorithms run the checks themselves, early and at no loss. This catches those that omit one:
    no candidate that would fail the repository's tests goes to the proof.
    """
    best = finding.best
    if best.id == lab.baseline.id:
        return finding
    fault = await lab.check(best) or await lab.test(best)
    if not fault:
        return finding
    return msgspec.structs.replace(
        finding,
        best=lab.baseline,
        best_val=finding.baseline_val,
        sentence=f"{finding.sentence} The best candidate, {best.id[:8]}, was refused: {fault}",
    )


class _Patches:
    """Writes candidates into the source in memory, to refuse early what cannot be patched."""

    def __init__(
        self, baseline: Candidate, declarations: Mapping[str, Declaration], root: Path
    ) -> None:
        self._baseline = baseline
        self._declarations = declarations
        self._root = root

    async def __call__(self, change: CandidateChange) -> str:
        if not any(isinstance(old, Code) for old, _ in change.resources.values()):
            return ""
        try:
            await asyncio.to_thread(self.files, change.candidate)
        except ShipError as error:
            return f"The candidate cannot be written into the source: {error.message}"
        return ""

    def files(self, candidate: Candidate) -> dict[str, bytes]:
        """New content by path relative to the root."""
        patch = make_patch(self._baseline, candidate, self._declarations, self._root)
        return {path: new for path, (_, new) in patch.files.items()}


class _Sandboxed:
    """Runs test commands in the sandbox."""

    def __init__(self, project: Project, root: Path) -> None:
        from ratchet.sandbox import importable
        from ratchet.sandbox.interpreter import this_interpreter

        self._project = project
        cores = os.cpu_count() or 1
        self._free = asyncio.Semaphore(max(1, min(TESTS_AT_ONCE, cores // 2)))
        self._read = [
            *importable(root, project.interpreter),
            *(Path(prefix) for prefix in (project.interpreter or this_interpreter()).prefixes),
            *(project.root / name for name in project.config.sandbox.read),
        ]

    async def __call__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        seconds: float | None = None,
    ) -> CheckRun:
        # More at once would slow one another until they time out.
        async with self._free:
            return await self._run(command, folder, environment, seconds)

    async def _run(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        seconds: float | None,
    ) -> CheckRun:
        from ratchet.sandbox import SandboxLimits, run

        project = self._project
        section = project.config.sandbox
        limits = SandboxLimits(
            seconds=min(project.config.checks.tests_s, seconds or math.inf),
            memory_bytes=max(TEST_MEMORY, section.memory_mb * 1024 * 1024),
            processes=TEST_PROCESSES,
        )
        began = time.monotonic()
        ended = await asyncio.to_thread(
            run,
            command,
            cwd=folder,
            environment=environment,
            writable=[folder],
            read=self._read,
            hide=hidden_paths(project),
            limits=limits,
            level=section.level,
            unsafe=section.unsafe,
        )
        return CheckRun(
            code=ended.code,
            output=f"{ended.output}\n{ended.error}",
            seconds=time.monotonic() - began,
        )


def _not_self_graded(source: Mapping[str, Code]) -> Check:
    async def check(change: CandidateChange) -> str:
        return SELF_GRADED if differs(change.candidate.resources, source) else ""

    return check


def _can_be_contained(project: Project, source: Mapping[str, Code]) -> Check:
    """Refuse code with a sentence if there is no sandbox; prompts and params still improve."""

    async def check(change: CandidateChange) -> str:
        if not differs(change.candidate.resources, source):
            return ""
        from ratchet.sandbox import SandboxUnavailable
        from ratchet.sandbox.levels import resolve_level

        section = project.config.sandbox
        try:
            await asyncio.to_thread(resolve_level, section.level, unsafe=section.unsafe)
        except SandboxUnavailable as error:
            return f"{error}"
        return ""

    return check


def _texts(targets: Mapping[str, Declaration]) -> Callable[[str], str]:
    def text(name: str) -> str:
        file = targets[name].file if name in targets else None
        try:
            return Path(file).read_text(encoding="utf-8") if file else ""
        except (OSError, UnicodeDecodeError):
            return ""

    return text


def _is_there(tree: SourceTree, path: tuple[str, ...] | None) -> Callable[[str], bool]:
    def is_there(module: str) -> bool:
        return tree.find(module) is not None or installed(module, path)

    return is_there
