"""Live processes: what is read at import is the release that is active when the process starts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ratchet
from ratchet import _redirected_files
from ratchet.cli.keys import open_store
from ratchet.observe import Handle
from ratchet.store import Store
from ratchet.types import Activation, Candidate, PromptTemplate
from tests.serving import RunningServer

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
    """Write `ratchet.toml`, and run a command of Ratchet."""
    (project / "ratchet.toml").write_text(text + '[agent]\nentry = "bot:run"\n')
    open_store(project, None).close()


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
    configure(released, config)
    with caplog.at_level(logging.WARNING, "ratchet"):
        start("bot")
    assert "The release's prompt files cannot be used" in caplog.text
    assert Path("agents.yaml").read_text() == "goal: Aim. # high\n"


def test_a_file_that_was_changed_since_is_read_as_it_is_until_a_command_has_run(
    released: Path, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    configure(released, FILES)
    (released / "agents.yaml").write_text("goal: Aim. # higher\n")
    handle = start("bot")
    assert Path("agents.yaml").read_text() == "goal: Aim. # higher\n"
    assert "was changed after the release's texts were written" in caplog.text
    handle.shutdown(60)
    open_store(released, None).close()
    start("bot")
    assert Path("agents.yaml").read_text() == "goal: Aim high. # higher\n"


def test_an_agent_of_a_server_writes_a_text_into_the_file_that_is_one_and_no_other(
    released: Path,
    start: Start,
    serving: Callable[..., RunningServer],
    caplog: pytest.LogCaptureFixture,
) -> None:
    (released / "plan.md").write_text("---\nmodel: small\n---\nsource")
    configure(released, f'{FILES}[[prompt_files]]\npath = "plan.md"\n')
    start("bot", url=serving(f"sqlite:///{released}/.ratchet/ratchet.db").url)
    assert Path("plan.md").read_text() == "---\nmodel: small\n---\nreleased"
    assert Path("agents.yaml").read_text() == "goal: Aim. # high\n"
    assert "agents.yaml is read as it is: the release changes fields of it" in caplog.text
