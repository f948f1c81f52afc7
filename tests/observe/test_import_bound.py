"""Live processes: what is read at import is the release that is active when the process starts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ratchet
from ratchet import _redirected_files
from ratchet.observe import Handle
from ratchet.store import Store
from ratchet.types import Activation, Candidate, PromptTemplate

Start = Callable[..., Handle]

SOURCE = Candidate.of(
    {"plan": PromptTemplate("source"), "agents.goal": PromptTemplate("Aim.", "plain")}
)
RELEASE = SOURCE.derive(
    {"plan": PromptTemplate("released"), "agents.goal": PromptTemplate("Aim high.", "plain")},
    algorithm="apo",
)
FILES = '[[prompt_files]]\npath = "agents.yaml"\nfields = "goal"\n'


@pytest.fixture(autouse=True)
def _own_files() -> Iterator[None]:
    _redirected_files.restore()  # an earlier test may have loaded an agent for rollouts
    yield
    _redirected_files.restore()
    ratchet.bind.forget()


@pytest.fixture
def released(project: Path) -> Path:
    """A project whose store has an active release, and nothing read of it yet."""
    folder = project / ".ratchet"
    folder.mkdir()
    (project / "agents.yaml").write_text("goal: Aim. # high\n")
    with Store.open(f"sqlite:///{folder / 'ratchet.db'}") as store:
        for candidate in (SOURCE, RELEASE):
            store.candidates.put(candidate)
        store.agents.activate(
            Activation(agent="bot", candidate_id=RELEASE.id, activated_at=time.time())
        )
    return project


def configure(project: Path, text: str) -> None:
    (project / "ratchet.toml").write_text(f'[agent]\nentry = "bot:run"\n{text}')


def test_a_constant_has_the_release_right_after_the_start(released: Path, start: Start) -> None:
    configure(released, "[run]\nimport_per_candidate = true\n")
    start("bot")
    assert str(ratchet.prompt("plan", "source")) == "released"


def test_a_file_of_prompts_is_read_with_the_releases_text(released: Path, start: Start) -> None:
    configure(released, FILES)
    start("bot")
    assert (released / "agents.yaml").read_text() == "goal: Aim high. # high\n"
    with open("agents.yaml", "r+") as file:  # to write it, one gets the file itself
        assert file.read() == "goal: Aim. # high\n"


def test_files_stay_as_they_are_where_one_opts_out(released: Path, start: Start) -> None:
    configure(released, FILES)
    start("bot", prompt_files=False)
    assert Path("agents.yaml").read_text() == "goal: Aim. # high\n"


def test_a_process_of_rollouts_reads_its_candidates_files(released: Path, start: Start) -> None:
    configure(released, FILES)
    _redirected_files.leave_to_rollouts()
    start("bot")
    assert Path("agents.yaml").read_text() == "goal: Aim. # high\n"


@pytest.mark.parametrize(
    "config",
    [FILES.replace("goal", "gone"), FILES.replace("agents.yaml", "no.yaml"), "prompt_files = 3\n"],
)
def test_what_cannot_be_redirected_is_told_and_read_as_it_is(
    released: Path, start: Start, caplog: pytest.LogCaptureFixture, config: str
) -> None:
    text = f'{config}[agent]\nentry = "bot:run"\n' if "= 3" in config else ""
    configure(released, config)
    if text:
        (released / "ratchet.toml").write_text(text)
    with caplog.at_level(logging.WARNING, "ratchet"):
        start("bot")
    assert "Files of prompts are read as they are" in caplog.text
    assert Path("agents.yaml").read_text() == "goal: Aim. # high\n"
