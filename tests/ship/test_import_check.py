"""The patched agent is imported where its values come through the program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.types import ShipError

Make = Callable[..., Any]

AGENT = """\
from pathlib import Path

import ratchet

LINES = (Path(__file__).parent / "p.md").read_text().splitlines()
P = ratchet.prompt("p", {expression})
"""


@pytest.fixture
def make(make_project: Make) -> Make:
    def made(expression: str, text: str, more: str = "") -> Any:
        project = make_project("")
        project.write("p.md", text)
        project.write("agent.py", AGENT.format(expression=expression) + more)
        project.commit("agent")
        return project.load()

    return made


def test_what_the_program_keeps_is_released(make: Make) -> None:
    project = make('" ".join(LINES)', "You plan walks.")
    release = project.ship(project.candidate(p="You plan long walks."))
    assert "was not checked" not in Path(release.pull_request).read_text()


def test_what_the_program_would_change_is_not(make: Make) -> None:
    project = make('" ".join(LINES)', "You plan walks.")
    before = project.state()
    with pytest.raises(ShipError, match=r"agent does not declare p with the candidate's values"):
        project.ship(project.candidate(p="You plan walks.\nFar ones."))
    assert project.state() == before
    assert project.branches() == []


def test_a_change_that_breaks_the_import_is_not_released(make: Make) -> None:
    more = 'assert "!" not in str(P), "too loud"\n'
    project = make("LINES[0]", "You plan walks.", more)
    with pytest.raises(ShipError, match="agent cannot be imported: AssertionError: too loud"):
        project.ship(project.candidate(p="You plan walks!"))
    assert project.branches() == []


def test_an_agent_that_cannot_be_imported_anyway_is_called_so(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTKEY", "secret")
    more = "import os\nassert 'AGENTKEY' in os.environ, 'no AGENTKEY'\n"
    project = make("LINES[0]", "You plan walks.", more)
    release = project.ship(project.candidate(p="You plan long walks."))
    text = Path(release.pull_request).read_text()
    assert (
        "was not checked: importing it fails even without the change (AssertionError: no AGENTKEY)"
        in text
    )
    assert project.branches() == [release.branch]
