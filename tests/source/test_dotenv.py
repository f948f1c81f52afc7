"""Variables of the `.env` that a program started in a folder would load."""

from __future__ import annotations

from pathlib import Path

from ratchet.source.dotenv import read_dotenv


def test_the_nearest_file_up_to_the_repositorys_root_is_read(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OUTSIDE=1\n")
    root = tmp_path / "shop"
    project = root / "examples" / "desk"
    project.mkdir(parents=True)
    (root / ".git").mkdir()
    assert read_dotenv(project) == {}
    (root / ".env").write_text("export MODEL_URL='http://localhost:9/v1'\n# KEY=no\n")
    assert read_dotenv(project) == {"MODEL_URL": "http://localhost:9/v1"}
    (project / ".env").write_text("NEAR=2\n")
    assert read_dotenv(project) == {"NEAR": "2"}


def test_without_git_only_the_folder_itself_is_looked_in(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("ABOVE=1\n")
    (tmp_path / "project").mkdir()
    assert read_dotenv(tmp_path / "project") == {}
    assert read_dotenv(tmp_path) == {"ABOVE": "1"}
