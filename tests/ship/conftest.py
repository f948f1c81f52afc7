"""Real git repositories with an agent in them, and candidates of what it declares."""

from __future__ import annotations

import linecache
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ratchet.bind import registry
from ratchet.ship import TestCommand, make_patch, ship
from ratchet.types import (
    Candidate,
    Code,
    Decision,
    Declaration,
    GuardrailResult,
    Params,
    PromptTemplate,
    Release,
    Resource,
    defaults,
)

AGENT = """\
import ratchet

SYSTEM = ratchet.prompt("system", "You are a booking assistant. {policy}")
KNOBS = ratchet.params("retrieval", k=ratchet.Int(5, 1, 20), threshold=0.3)


@ratchet.evolve
def rank(query, docs):
    # The first is as good as any.
    return docs[0]


def answer(question):
    return rank(question, [SYSTEM.format(policy=""), KNOBS.k])
"""

DECISION = Decision(
    verdict="promote",
    metric="exact_match",
    alpha=0.05,
    pairs=173,
    baseline=0.4125,
    candidate=0.4875,
    e_value=31.25,
    interval=(0.0115, 0.1385),
    guardrails=(
        GuardrailResult(
            metric="latency",
            margin=0.25,
            unit="s",
            baseline=1.5,
            candidate=1.75,
            e_value=64.5,
            passed=True,
        ),
    ),
    sentence="The candidate is better | by `0.075`.",
)

NOW = 1_700_000_000.0


def load(path: Path) -> dict[str, Declaration]:
    """Import a file as an agent would be, and return what it declares."""
    registry.forget()
    linecache.clearcache()
    try:
        exec(
            compile(path.read_bytes(), str(path), "exec"),
            {"__name__": "agent", "__file__": str(path)},
        )
        return registry.declarations()
    finally:
        registry.forget()


@dataclass
class Project:
    """A git repository with an agent."""

    root: Path
    file: str = "agent.py"
    declarations: dict[str, Declaration] = field(default_factory=dict)

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def write(self, path: str, content: str | bytes) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def commit(self, message: str = "work") -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")

    def load(self) -> Project:
        self.declarations = load(self.root / self.file)
        return self

    @property
    def source(self) -> bytes:
        return (self.root / self.file).read_bytes()

    @property
    def baseline(self) -> Candidate:
        return Candidate.of(defaults(self.declarations))

    def candidate(self, **changes: Any) -> Candidate:
        """Params from a dict of values, a prompt or a function from its text."""
        baseline = self.baseline
        resources: dict[str, Resource] = {}
        for name, change in changes.items():
            old = baseline.resources[name]
            if isinstance(change, Mapping):
                assert isinstance(old, Params)
                resources[name] = old.replace(**change)
            elif isinstance(old, Code):
                resources[name] = Code(change, old.function)
            elif isinstance(old, PromptTemplate):
                resources[name] = PromptTemplate(change, old.engine)
            else:
                resources[name] = change
        return baseline.derive(resources, algorithm="Tune", reason="k = 7 finds more")

    def patched(self, **changes: Any) -> bytes:
        """The agent's file after the patch."""
        patch = make_patch(self.baseline, self.candidate(**changes), self.declarations, self.root)
        assert list(patch.files) == [self.file]
        old, new = patch.files[self.file]
        assert old == self.source
        return new

    def branches(self) -> list[str]:
        return self.git("branch", "--list", "--format=%(refname:short)", "ratchet/*").split()

    def state(self) -> tuple[str, str, str, bytes]:
        """All that a release must leave as it is."""
        head = self.git("rev-parse", "HEAD")
        status = self.git("status", "--porcelain")
        return head, self.git("symbolic-ref", "HEAD"), status, self.source

    def ship(self, candidate: Candidate | None = None, **changes: Any) -> Release:
        arguments: dict[str, Any] = {
            "repo": self.root,
            "baseline": self.baseline,
            "candidate": candidate or self.candidate(retrieval={"k": 7}),
            "declarations": self.declarations,
            "decision": DECISION,
            "evidence_path": self.root.parent / "evidence.json",
            "experiment_id": "experiment-1",
            "out_dir": self.root.parent / "out",
            "now": NOW,
            "agent_entry": "agent:answer",
        }
        given = {name: changes.pop(name) for name in list(changes) if name.startswith("test_")}
        tests = TestCommand(**{name.removeprefix("test_"): given[name] for name in given})
        return ship(**{**arguments, "tests": tests, **changes})


@pytest.fixture(autouse=True)
def git_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git as a new user has it, with a name; whoever runs the tests plays no part."""
    config = tmp_path / "gitconfig"
    config.write_text(
        "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in list(os.environ):
        if name.startswith(("GIT_AUTHOR", "GIT_COMMITTER")):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of the test's own, which every test must leave empty."""
    import tempfile

    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[..., Project]:
    """Make a repository whose agent has the given source."""

    def make(source: str | bytes = AGENT, file: str = "agent.py") -> Project:
        root = tmp_path / "repo"
        root.mkdir()
        project = Project(root, file)
        project.git("init", "--quiet")
        project.write(file, source)
        project.commit("first")
        (tmp_path / "evidence.json").write_text("{}")
        return project.load()

    return make


@pytest.fixture
def project(make_project: Callable[..., Project]) -> Project:
    """A repository with the example agent."""
    return make_project()
