"""`ratchet init` as people and machines read it."""

from __future__ import annotations

import io
import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from ratchet.cli.app import run
from tests.wire.repositories import LOOK_ALIKES

NAMED = {one.name: one for one in LOOK_ALIKES}


def test_the_page_names_entry_prompts_effects_and_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = NAMED["folder-named-like-a-framework"].write(tmp_path)
    assert run(["init", "--look", str(root)]) == 0
    page = capsys.readouterr().out
    for words in ("openai-agents", "src/texts/clerk.md", "overlay", "serve(", ".env.prod"):
        assert words in page
    assert "never-read" not in page


def test_the_page_names_tests_tracing_and_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {case.name: case for case in LOOK_ALIKES}
    traced = named["traced-already"].write(tmp_path)
    assert run(["init", "--look", str(traced)]) == 0
    page = " ".join(capsys.readouterr().out.split())
    for words in ("python -m pytest", "1 test in 1 file", "global tracer provider is set at"):
        assert words in page
    assert "No data that could be tasks found." in page
    kept = named["data-that-could-be-tasks"].write(tmp_path)
    assert run(["init", "--look", str(kept)]) == 0
    page = capsys.readouterr().out
    assert "data/loans.csv" in page
    assert "lost, sadly" not in page


def test_the_json_has_all_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = NAMED["star-import"].write(tmp_path)
    assert run(["init", "--look", str(root), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["prompts"][0]["parts"][0]["start"] > 0
    assert found["prompts_left_out"][0]["reason"].startswith("index")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository with an agent and answered questions."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Someone")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "someone@example.com")
    root = next(one for one in LOOK_ALIKES if one.name == "data-that-could-be-tasks")
    folder = root.write(tmp_path)
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "the agent"]):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    return folder


def _tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_init_without_a_terminal_says_what_to_do(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", str(library)]) == 2
    assert "Take the defaults with --yes, or see them first with --dry-run" in (
        capsys.readouterr().err
    )


def test_a_dry_run_shows_the_page_and_the_diff_and_writes_nothing(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = _tree(library)
    assert run(["init", str(library), "--dry-run"]) == 0
    assert _tree(library) == before
    page = " ".join(capsys.readouterr().out.split())
    for words in ("What this agent is", "What is risky", "+import ratchet", "Nothing was written"):
        assert words in page


def test_init_commits_to_a_branch_and_undo_takes_it_back(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: data for path, data in _tree(library).items() if not path.startswith(".git/")}
    assert run(["init", str(library), "--yes", "--no-check"]) == 0
    assert "Committed to ratchet/init" in capsys.readouterr().out
    assert tomllib.loads((library / "ratchet.toml").read_text())["agent"]["entry"]
    assert len((library / "tasks.jsonl").read_text().splitlines()) > 5
    assert run(["init", str(library), "--yes", "--no-check"]) == 0
    assert "wired already, and nothing is new" in capsys.readouterr().out
    assert run(["init", str(library), "--undo"]) == 0
    after = {path: data for path, data in _tree(library).items() if not path.startswith(".git/")}
    assert after == before


def test_the_json_of_init_tells_the_commit_and_its_files(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", str(library), "--yes", "--json", "--no-check"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["branch"] == "ratchet/init"
    assert "desk.py" in [one["path"] for one in found["files"]]


def test_questions_are_asked_on_a_terminal_and_no_is_no(
    library: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (library / "mailer.py").write_text(
        "import smtplib\nfrom desk import ask\n\ndef run(question):\n"
        "    smtplib.SMTP('h').sendmail('a', 'b', ask(question))\n"
    )
    before = _tree(library)
    monkeypatch.setattr("sys.stdin", _Terminal("9\n1\n1\nn\n"))
    assert run(["init", str(library), "--no-check"]) == 0
    page = capsys.readouterr().out
    assert "What does one task run?" in page
    assert "Numbers from 1 to" in page
    assert "Which of these may act" in page
    assert "Nothing was written." in page
    assert _tree(library) == before


def test_a_repository_without_an_agent_says_what_was_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sums.py").write_text("def add(a, b):\n    return a + b\n")
    assert run(["init", str(tmp_path), "--yes"]) == 2
    said = capsys.readouterr().err
    assert "No agent was found" in said
    assert "Looked for:" in said


def test_an_entry_or_a_project_that_is_not_there_is_a_sentence(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", str(library), "--yes", "--entry", "desk.py:nobody"]) == 2
    assert "No entry is named 'desk.py:nobody'" in capsys.readouterr().err
    assert run(["init", str(library), "--yes", "--project", "elsewhere"]) == 2
    assert "There is no agent in 'elsewhere'" in capsys.readouterr().err


def test_a_folder_that_is_no_git_repository_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = NAMED["older-version-and-class-attributes"].write(tmp_path)
    assert run(["init", str(folder), "--yes", "--no-check"]) == 2
    said = capsys.readouterr().err
    assert "not in a git repository" in said
    assert "ratchet init --no-git" in said
    assert not (folder / "ratchet.toml").exists()


def test_a_folder_without_git_is_wired_in_place_and_taken_back_from_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = NAMED["data-that-could-be-tasks"].write(tmp_path)
    before = _tree(folder)
    assert run(["init", str(folder), "--yes", "--no-check", "--no-git"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "ratchet init --undo takes them back from it: keep that file" in page
    assert "ratchet.prompt" in (folder / "desk.py").read_text()
    assert run(["init", str(folder), "--yes", "--no-check", "--no-git"]) == 0
    assert "nothing is new" in capsys.readouterr().out
    (folder / "desk.py").write_text((folder / "desk.py").read_text() + "\n# by hand\n")
    assert run(["init", str(folder), "--undo"]) == 0
    assert "Written in place" in capsys.readouterr().out
    assert _tree(folder) == {**before, "desk.py": before["desk.py"] + b"\n# by hand\n"}


def test_a_repository_is_wired_and_taken_back_without_a_commit_if_asked(library: Path) -> None:
    before = _tree(library)
    assert run(["init", str(library), "--yes", "--no-check", "--no-git", "--json"]) == 0
    assert (library / "ratchet.toml").exists()
    assert run(["init", str(library), "--undo", "--no-git", "--json"]) == 0
    assert _tree(library) == before
