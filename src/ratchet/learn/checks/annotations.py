"""The type check: refuses a candidate whose code adds mypy errors to its file.

Applies only to repositories that configure mypy in an environment where it is installed. Elsewhere
annotations are unverified, so a type checker would reject candidates for old errors; there the
return value is compared with its annotation at run time, in the sandbox.
"""

from __future__ import annotations

import asyncio
import configparser
import os
import re
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from ratchet.bind import same_behaviour
from ratchet.learn.checks.check import CandidateChange
from ratchet.learn.checks.copies import Copies
from ratchet.learn.checks.imports import installed
from ratchet.run.child import ChildProcess
from ratchet.types import Candidate, Code

MYPY_TIMEOUT_S = 120.0
"""Timeout of mypy, whose first run reads the whole repository."""

OUTPUT_BYTES = 4 * 1024 * 1024

_ERROR = re.compile(r"^(?P<file>.+?):\d+(?::\d+)?: error: (?P<message>.*)$", re.MULTILINE)


def has_mypy(root: Path, path: tuple[str, ...] | None = None) -> bool:
    """Whether a repository configures mypy and mypy is installed; see `installed`."""
    if not installed("mypy", path):
        return False
    if (root / "mypy.ini").is_file() or (root / ".mypy.ini").is_file():
        return True
    try:
        settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        if "mypy" in settings.get("tool", {}):
            return True
    except (OSError, ValueError):
        pass
    parser = configparser.ConfigParser()
    try:
        parser.read(root / "setup.cfg", encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return False
    return "mypy" in parser


class TypeChecks:
    """The type check.

    Args:
        patch: Maps the change to content by path, relative to the repository's root, with the
            candidate's code.
        copies: Makes copies of the repository.
        say: Called once if mypy cannot be used.
        python: Path of the interpreter that has the repository's packages.
    """

    def __init__(
        self,
        patch: Callable[[Candidate], Mapping[str, bytes]],
        copies: Copies,
        say: Callable[[str], None] = lambda text: None,
        python: str = sys.executable,
    ) -> None:
        self._patch = patch
        self._copies = copies
        self._python = python
        self._say = say
        self._reported = False
        self._cache = tempfile.TemporaryDirectory(prefix="ratchet-mypy-")
        self._before: dict[str, Counter[str] | None] = {}
        self._one = asyncio.Lock()
        """mypy's cache allows one writer at a time."""

    async def __call__(self, change: CandidateChange) -> str:
        """Compare mypy's errors in the changed files with those before the change."""
        names = [
            name
            for name, (old, new) in change.resources.items()
            if isinstance(old, Code) and isinstance(new, Code) and not same_behaviour(old, new)
        ]
        if not names:
            return ""
        patch = dict(self._patch(change.candidate))
        async with self._one:
            for file in sorted(patch.keys() - self._before.keys()):
                self._before[file] = await self._errors({}, [file])
            before = [errors for file in patch if (errors := self._before[file]) is not None]
            if len(before) < len(patch):
                return ""  # already reported
            after = await self._errors(patch, sorted(patch))
        new = (after or Counter()) - sum(before, Counter())
        if not new:
            return ""
        return f"mypy finds errors in the code of {', '.join(names)}: {'; '.join(list(new)[:3])}"

    async def _errors(self, patch: Mapping[str, bytes], files: list[str]) -> Counter[str] | None:
        """Counts of mypy's errors in these files; None if it crashed or timed out."""
        with self._copies.patched(patch) as copy:
            command = [
                self._python, "-m", "mypy", "--no-error-summary", "--no-pretty",
                "--no-color-output", "--hide-error-context", "--show-error-codes",
                "--cache-dir", self._cache.name, "--", *files,
            ]  # fmt: skip
            path = [str(folder) for folder in (copy, copy / "src") if folder.is_dir()]
            environment = {
                "PATH": os.environ.get("PATH", ""),
                "HOME": str(copy),
                "MYPYPATH": str(copy / "src") if len(path) > 1 else "",
            }
            child = ChildProcess(command, cwd=copy, environ=environment, stdin=Path(os.devnull))
            ended = await child.run(MYPY_TIMEOUT_S, OUTPUT_BYTES)
        if ended.why != "exit" or ended.code not in (0, 1):
            how = (
                f"did not finish within {MYPY_TIMEOUT_S:g} s."
                if ended.why == "late"
                else "could not run."
            )
            if not self._reported:
                self._say(f"mypy {how} The types were not checked.{ended.tail()}")
            self._reported = True
            return None
        text = ended.stdout.decode("utf-8", "replace")
        wanted = set(files)
        return Counter(
            match["message"] for match in _ERROR.finditer(text) if match["file"] in wanted
        )
