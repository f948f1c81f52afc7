"""A release in a real repository with a bare remote, and a forge that the remote belongs to."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.ship.forges.fake_forge import FakeForge
from tests.ship.forges.fake_github import REPOSITORY, FakeGitHub
from tests.ship.forges.fake_gitlab import PROJECT, FakeGitLab

from ratchet.ship import forges
from ratchet.ship.forges import ForgeSettings
from ratchet.ship.forges.http import ForgeHttp
from ratchet.types import PullRequest, Release


@dataclass
class Published:
    """A project whose main branch is at a remote."""

    project: Any
    remote: Path
    forge: Any
    settings: ForgeSettings
    environ: dict[str, str] = field(default_factory=dict)

    def propose(self, release: Release, **settings: Any) -> PullRequest:
        return forges.propose(
            release, self.project.root, replace(self.settings, **settings), environ=self.environ
        )

    def released(self, k: int = 7, experiment: str = "experiment-1", **more: Any) -> Release:
        changed = self.project.candidate(retrieval={"k": k})
        found: Release = self.project.ship(changed, experiment_id=experiment, **more)
        return found

    def tip(self, branch: str) -> str:
        """The tip of a branch at the remote, or nothing."""
        return self.forge.tip(branch) or ""

    def merge(self, number: int) -> None:
        """Merge a request at the remote, as its page would."""
        request = self.forge.requests[number - 1]
        clone = self.elsewhere()
        run(clone, "merge", "--no-ff", "--message", "merged", f"origin/{request.branch}")
        run(clone, "push", "--quiet", "origin", "HEAD:main")
        request.state, request.merged = "closed", True

    def elsewhere(self, branch: str = "main") -> Path:
        """Another clone of the remote, at a branch."""
        folder = self.remote.parent / f"clone-{len(list(self.remote.parent.iterdir()))}"
        run(self.remote.parent, "clone", "--quiet", str(self.remote), str(folder))
        run(folder, "switch", "--quiet", branch)
        return folder

    def push_elsewhere(self, change: Callable[[str], str], branch: str = "main") -> str:
        """Someone else changes the agent's file on a branch of the remote."""
        clone = self.elsewhere(branch)
        path = clone / self.project.file
        path.write_text(change(path.read_text()))
        run(clone, "commit", "--quiet", "--all", "--message", "theirs")
        run(clone, "push", "--quiet", "origin", f"HEAD:{branch}")
        return run(clone, "rev-parse", "HEAD")


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def published(project: Any, at: FakeForge, **settings: Any) -> Published:
    """Give a project a remote at a forge."""
    project.git("remote", "add", "origin", str(at.git))
    project.git("push", "--quiet", "origin", "main")
    return Published(project, at.git, at, ForgeSettings(api_url=at.url, **settings))


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses before requests that are repeated; the tests do not wait."""
    made: list[float] = []
    monkeypatch.setattr(ForgeHttp, "wait", lambda self, seconds: made.append(seconds))
    return made


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """An empty bare repository."""
    folder = tmp_path / "remote.git"
    run(tmp_path, "init", "--quiet", "--bare", str(folder))
    return folder


@pytest.fixture
def at_github(project: Any, bare: Path) -> Iterator[Published]:
    """A project at a GitHub that refuses what GitHub would refuse."""
    forge = FakeGitHub(bare)
    made = published(project, forge, forge="github", repository=REPOSITORY)
    made.environ["GITHUB_TOKEN"] = forge.token
    yield made
    forge.stop()
    assert forge.violations == []


@pytest.fixture
def at_gitlab(project: Any, bare: Path) -> Iterator[Published]:
    """A project at a GitLab, in a subgroup."""
    forge = FakeGitLab(bare)
    made = published(project, forge, forge="gitlab", repository=PROJECT)
    made.environ["GITLAB_TOKEN"] = forge.token
    yield made
    forge.stop()
    assert forge.violations == []
