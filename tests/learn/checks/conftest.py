"""Changes of one resource, and small repositories with tests of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.learn.checks import CandidateChange
from ratchet.types import Candidate, Code, PromptTemplate, Resource


def change(old: Resource, new: Resource, name: str = "it") -> CandidateChange:
    """A candidate that changes one resource."""
    return CandidateChange(Candidate.of({name: new}), {name: (old, new)})


def code(source: str) -> Code:
    """Code of a function, named as it names itself."""
    return Code(source, source.partition("def ")[2].partition("(")[0])


def prompt(text: str) -> PromptTemplate:
    """A prompt of f-string form."""
    return PromptTemplate(text)


@pytest.fixture
def repository(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """A git repository of these files."""

    def make(files: dict[str, str]) -> Path:
        root = tmp_path / "repository"
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=root, check=True)
        return root

    return make
