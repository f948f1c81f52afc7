"""`ratchet init --undo` and `ratchet doctor`, as people and machines read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ratchet.cli.app import run
from ratchet.wire.applying import commit
from tests.repositories import git
from tests.wire.plans import AGENT, plan_of, repository, state_of


def _wired(root: Path) -> Path:
    commit(plan_of(repository(root)), "ratchet/init", "Wire it")
    return root


def test_undo_is_previewed_and_done_from_a_folder_of_the_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = repository(tmp_path / "made")
    before = state_of(root)
    commit(plan_of(root), "ratchet/init", "Wire it")
    (root / "inner").mkdir()
    wired = state_of(root)
    assert run(["init", "--undo", "--dry-run", "--in", str(root / "inner")]) == 0
    page = capsys.readouterr().out
    assert "Would have removed: ratchet.toml" in page
    assert "Would have restored: agent.py, requirements.txt" in page
    assert "Would have deleted the branch ratchet/init." in page
    assert state_of(root) == wired
    assert run(["init", "--undo", str(root)]) == 0
    assert "You are on main." in capsys.readouterr().out
    assert state_of(root) == before
    assert run(["init", "--undo", str(root)]) == 2
    assert "is not wired" in capsys.readouterr().err


def test_what_was_edited_is_named_also_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = _wired(tmp_path / "made")
    (root / "ratchet.toml").write_text("# mine\n")
    assert run(["init", "--undo", "--json", str(root)]) == 0
    undone = json.loads(capsys.readouterr().out)
    assert [kept["path"] for kept in undone["kept"]] == ["ratchet.toml"]
    assert undone["branch"] == "ratchet/init"
    assert undone["began_at"] == "main"
    assert (root / "ratchet.toml").read_text() == "# mine\n"
    assert (root / "agent.py").read_text() == AGENT


def test_look_and_undo_run_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--undo", "--", "python", "main.py"]) == 2
    assert "do not run a command" in capsys.readouterr().err


# --- doctor


def _project(root: Path) -> Path:
    _wired(root)
    (root / "tasks.jsonl").write_text('{"input": "x"}\n')
    return root


def test_doctor_says_that_all_is_there_and_reads_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = _project(tmp_path / "made")
    before = state_of(root)
    assert run(["doctor", str(root)]) == 0
    assert "Everything that the settings name exists." in capsys.readouterr().out
    assert state_of(root) == before


BROKEN = {
    '[agent]\nentry = "agent:gone"\n': "The entry agent:gone does not exist: agent.py has no gone.",
    '[agent]\nentry = "gone:answer"\n': "there is no module gone",
    '[agent]\nentry = "agent:answer"\npath = ["app"]\n': "The folder app does not exist.",
    '[agent]\nentry = "agent:answer"\n[tasks]\nfile = "no.jsonl"\n': "The task file no.jsonl",
    '[agent]\nentry = "agent:answer"\n[[evaluators]]\nuse = "agent:score"\n': "The evaluator",
    '[agent]\nentry = "agent:answer"\n[[prompt_files]]\npath = "a.yaml"\n': "The prompt file",
    "[agent\n": "ratchet.toml",
    '[agent]\nentry = "agent:answer"\nno_such_key = 1\n': "no_such_key",
}


@pytest.mark.parametrize("settings", BROKEN)
def test_settings_that_name_what_is_not_there_are_said_with_the_next_step(
    settings: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = _project(tmp_path / "made")
    (root / "ratchet.toml").write_text(settings)
    assert run(["doctor", str(root)]) == 1
    assert BROKEN[settings] in " ".join(capsys.readouterr().out.split())


def test_a_declaration_that_was_removed_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = _project(tmp_path / "made")
    (root / "agent.py").write_text(AGENT)
    git(root, "commit", "-qam", "mine")
    assert run(["doctor", str(root), "--json"]) == 1
    (misfit,) = json.loads(capsys.readouterr().out)["misfits"]
    assert misfit["place"]["path"] == "agent.py"
    assert misfit["what"] == "The declaration of the prompt librarian is gone."


def test_doctor_without_settings_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", str(tmp_path)]) == 2
    assert "There is no ratchet.toml" in capsys.readouterr().err
