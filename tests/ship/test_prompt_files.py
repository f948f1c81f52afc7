"""Releases of prompts in files: patched byte-exactly, recognised, rolled back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ratchet.source.prompt_files import declared_prompts
from ratchet.types import PromptFile, ShipError

YAML = "# Crew\r\nwriter:\r\n  goal: 'Write {topic}.' # aim\r\nreader: 'Write {topic}.'\r\n"
PROMPT = "---\nmodel: x\n---\nBe brief.\nBe kind.\n"
FILES = (
    PromptFile("config/agents.yaml", ("writer.goal", "reader")),
    PromptFile("plan.prompty"),
)
CHANGES = {"agents.writer.goal": "Don't write {topic}.", "plan": "Be brief.\nBe very kind.\n"}
AFTER = {
    "config/agents.yaml": YAML.replace("goal: 'Write", "goal: 'Don''t write"),
    "plan.prompty": PROMPT.replace("Be k", "Be very k"),
}


@pytest.fixture
def project(make_project: Callable[..., Any]) -> Any:
    made = make_project("X = 1\n")
    made.write("config/agents.yaml", YAML)
    made.write("plan.prompty", PROMPT)
    made.commit("agent")
    made.declarations = declared_prompts(made.root, FILES)
    return made


def content(project: Any, commit: str) -> dict[str, str]:
    import subprocess

    return {
        path: subprocess.run(
            ["git", "show", f"{commit}:{path}"], cwd=project.root, capture_output=True, check=True
        ).stdout.decode()
        for path in AFTER
    }


def test_a_release_changes_the_texts_and_no_other_byte(project: Any) -> None:
    candidate = project.candidate(**CHANGES)
    release = project.ship(candidate)
    assert content(project, release.commit) == AFTER
    changed = project.git("diff", "--name-only", release.base, release.commit).split()
    assert sorted(changed) == sorted(AFTER)
    assert project.ship(candidate) == release


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("config/agents.yaml", YAML.replace("goal: 'Write", "goal: 'Draw"), "changed since"),
        ("config/agents.yaml", AFTER["config/agents.yaml"], "changed since"),
        ("config/agents.yaml", "writer: 1\n", "is not written out there"),
        ("plan.prompty", PROMPT.replace("kind", "rude"), "changed since"),
        ("plan.prompty", AFTER["plan.prompty"], "already holds the candidate's text"),
    ],
)
def test_a_file_that_changed_since_is_left_alone(
    project: Any, file: str, text: str, says: str
) -> None:
    project.write(file, text)
    project.commit("edited")
    name = "plan" if file == "plan.prompty" else "agents.writer.goal"
    with pytest.raises(ShipError, match=says):
        project.ship(project.candidate(**{name: CHANGES[name]}))
