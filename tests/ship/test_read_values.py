"""Releases of what a declaration reads from elsewhere: recognised, merged, rolled back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ratchet.ship import refresh, rollback
from ratchet.types import ShipError

NOW = 1_700_000_100.0

AGENT = """\
from pathlib import Path

import ratchet
import yaml

HERE = Path(__file__).parent
CONFIG = yaml.safe_load((HERE / "config.yaml").read_text())
CITY = "Vienna"

KNOBS = ratchet.params(
    "knobs", k=ratchet.Int(CONFIG["k"], 1, 20), t=ratchet.Float(CONFIG["t"], 0.0, 1.0), n=3
)
GUIDE = ratchet.prompt("guide", f"You recommend restaurants in {CITY} to tourists.")
RULES = ratchet.prompt("rules", (HERE / "rules.md").read_text())
STYLE = ratchet.prompt("style", CONFIG["style"].strip())
HEAD = "You are a waiter."
TONE = ratchet.prompt("tone", HEAD + " Be " + "calm.")
"""
CONFIG = "# Knobs\nk: 5\nt: 1 # all\nstyle: |\n  Be brief.\n  Be kind.\n"
RULES = "# Rules\n\nNever name a price.\n"
CHANGES = {
    "knobs": {"k": 7, "t": 0.5, "n": 4},
    "guide": "You recommend cheap restaurants in Vienna to tourists.",
    "rules": "# Rules\n\nName prices in euros.\n",
    "style": "Be brief.\nBe very kind.",
    "tone": "You are a good waiter. Be calm.",
}
AFTER = {
    "agent.py": AGENT.replace("n=3", "n=4")
    .replace("restaurants", "cheap restaurants")
    .replace("a waiter", "a good waiter"),
    "config.yaml": CONFIG.replace("5", "7").replace("t: 1", "t: 0.5").replace("Be k", "Be very k"),
    "rules.md": CHANGES["rules"],
}


@pytest.fixture
def project(make_project: Callable[..., Any]) -> Any:
    def made() -> Any:
        made = make_project("")
        made.write("config.yaml", CONFIG)
        made.write("rules.md", RULES)
        made.write("agent.py", AGENT)
        made.commit("agent")
        return made.load()

    return made()


def shown(project: Any, commit: str) -> dict[str, str]:
    return {path: project.git("show", f"{commit}:{path}") + "\n" for path in AFTER}


def test_a_release_changes_each_file_that_a_value_is_read_from(project: Any) -> None:
    candidate = project.candidate(**CHANGES)
    release = project.ship(candidate)
    assert shown(project, release.commit) == AFTER
    assert sorted(project.git("diff", "--name-only", release.base, release.commit).split()) == (
        sorted(AFTER)
    )
    assert project.ship(candidate) == release


def test_a_merged_release_is_recognised_and_rolled_back(project: Any) -> None:
    release = project.ship(project.candidate(**CHANGES))
    project.git("merge", "--quiet", release.branch)
    # Other values and lines may change meanwhile.
    for path, head in {"config.yaml": "first: 7\n", "agent.py": '"""The agent."""\n'}.items():
        project.write(path, head + (project.root / path).read_text())
    project.commit("more")
    merged = refresh(release, project.root)
    assert merged.state == "merged"
    undone = rollback(merged, project.root, NOW)
    before = {"agent.py": AGENT, "config.yaml": CONFIG, "rules.md": RULES}
    assert shown(project, undone.rollback) == {
        "agent.py": '"""The agent."""\n' + before["agent.py"],
        "config.yaml": "first: 7\n" + before["config.yaml"],
        "rules.md": before["rules.md"],
    }
    project.git("merge", "--quiet", undone.rollback)
    assert refresh(merged, project.root).state == "rolled_back"


def test_a_file_that_git_ignores_is_not_patched(project: Any) -> None:
    project.git("rm", "--quiet", "--cached", "config.yaml")
    project.write(".gitignore", "config.yaml\n")
    project.commit("ignore it")
    with pytest.raises(ShipError, match=r"config\.yaml is not in the last commit"):
        project.ship(project.candidate(knobs={"k": 7}))
