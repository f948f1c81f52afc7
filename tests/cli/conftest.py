"""A small agent in a git repository, and the `ratchet` command as a person runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import interpreters

AGENT = """
import ratchet

KNOBS = ratchet.params("knobs", aim=ratchet.Float(0.0, 0.0, 1.0))


@ratchet.tool
def look(number):
    return KNOBS.aim


@ratchet.agent
def answer(number):
    return round(max(0.0, 1.0 - abs(look(number) - 0.6)), 6)


@ratchet.evaluator
def closeness(output):
    return output
"""

CONFIG = """
[agent]
entry = "agent:answer"

[[evaluators]]
use = "agent:closeness"
vouched = true

[improve]
algorithm = "tune"

[improve.options]
max_trials = 12

[[guardrails]]
metric = "latency"
off = true
"""

INLINE = """
[run]
executor = "inline"
"""
"""Rollouts in the command's own process: for tests of what is not about workers."""


class Project:
    """A project folder and the command that works on it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def ratchet(
        self, *arguments: str, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `ratchet` in the project."""
        return interpreters.run(
            [sys.executable, "-m", "ratchet", *arguments],
            cwd=self.root,
            env={**os.environ, "COLUMNS": "200", **(env or {})},
            timeout=120,
        )

    def json(self, *arguments: str) -> dict[str, object]:
        """Run `ratchet` with --json and read what it prints."""
        done = self.ratchet(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found

    def git(self, *arguments: str) -> str:
        """Run git in the project."""
        identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"]
        done = subprocess.run(
            ["git", *identity, *arguments],
            cwd=self.root,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def commit(self, message: str = "change") -> None:
        """Commit everything."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        (self.root / name).write_text(text, encoding="utf-8")


MakeProject = Callable[..., Project]


def build(
    root: Path, *, agent: str = AGENT, config: str = CONFIG + INLINE, tasks: int = 240
) -> Project:
    """A project in a new folder, committed."""
    root.mkdir()
    project = Project(root)
    project.write("agent.py", agent)
    project.write("ratchet.toml", config)
    project.write(".gitignore", "__pycache__/\n")
    lines = [json.dumps({"id": f"t{n}", "input": n}) for n in range(tasks)]
    project.write("tasks.jsonl", "\n".join(lines) + "\n")
    project.git("init", "-q", "-b", "main")
    project.commit("agent")
    return project


@pytest.fixture
def make_project(tmp_path: Path) -> MakeProject:
    """Builds projects in this test's own folder."""

    def make(*, name: str = "project", **changes: Any) -> Project:
        return build(tmp_path / name, **changes)

    return make


@pytest.fixture(scope="session")
def improved(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that was improved and shipped; shared, so that tests only look at it."""
    project = build(tmp_path_factory.mktemp("improved") / "project")
    project.json("improve")
    return project


@pytest.fixture
def released(improved: Project, tmp_path: Path) -> Project:
    """A copy of the project that was improved and shipped: tests change it."""
    return Project(Path(shutil.copytree(improved.root, tmp_path / "released", symlinks=True)))
