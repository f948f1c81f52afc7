"""Which files a sandbox shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratchet.sandbox import SandboxFailed
from ratchet.sandbox.inside.landlock import LIST_ACCESS, READ_ACCESS, WRITE_ACCESS
from ratchet.sandbox.view import file_view, landlock_rules


def mine(made: list[tuple[str, str]], folder: Path) -> dict[str, str]:
    return {
        str(Path(path).relative_to(folder)): gives
        for path, gives in made
        if Path(path).is_relative_to(folder)
    }


def test_around_what_is_hidden_each_neighbour_is_shown(tmp_path: Path) -> None:
    for name in ("a/b/hidden", "a/b/shown", "a/c", ".env", "agent.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    view = file_view(root=tmp_path, hide=[tmp_path / "a" / "b" / "hidden"])
    assert mine(landlock_rules(view, "/scratch"), tmp_path) == {
        ".": LIST_ACCESS,
        "a": LIST_ACCESS,
        "a/b": LIST_ACCESS,
        "a/b/shown": READ_ACCESS,
        "a/c": READ_ACCESS,
        "agent.py": READ_ACCESS,
    }


def test_secrets_beside_what_is_read_are_hidden_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (".env.local", ".git/config", "lib.py", ".env/pyvenv.cfg", ".env.example"):
        (tmp_path / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lib" / name).touch()
    view = file_view(path=[str(tmp_path / "lib")])
    seen = {
        "lib": LIST_ACCESS,
        "lib/.env": READ_ACCESS,
        "lib/.env.example": READ_ACCESS,
        "lib/lib.py": READ_ACCESS,
    }
    assert mine(landlock_rules(view, "/scratch"), tmp_path) == seen
    # Who names one wants it.
    named = file_view(path=[str(tmp_path / "lib")], read=[tmp_path / "lib" / ".env.local"])
    seen["lib/.env.local"] = READ_ACCESS
    assert mine(landlock_rules(named, "/scratch"), tmp_path) == seen


def test_the_home_folders_credentials_are_hidden_where_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (".config/gh/hosts.yml", ".netrc", ".bash_history", "work/a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    seen = mine(landlock_rules(file_view(read=[tmp_path]), "/scratch"), tmp_path)
    assert seen == {".": LIST_ACCESS, "work": READ_ACCESS}
    asked = file_view(read=[tmp_path, tmp_path / ".config" / "gh"])
    assert mine(landlock_rules(asked, "/scratch"), tmp_path) == {**seen, ".config": READ_ACCESS}


def test_hiding_wins_over_reading_and_writing(tmp_path: Path) -> None:
    (tmp_path / "secret" / "inner").mkdir(parents=True)
    inner = tmp_path / "secret" / "inner"
    view = file_view(read=[inner, tmp_path], write=[inner], hide=[tmp_path / "secret"])
    assert mine(landlock_rules(view, "/scratch"), tmp_path) == {".": LIST_ACCESS}


def test_a_writable_folder_is_shown_whole(tmp_path: Path) -> None:
    view = file_view(read=[tmp_path], write=[tmp_path])
    assert (str(tmp_path.resolve()), WRITE_ACCESS) in landlock_rules(view, "/scratch")


def test_links_are_followed_and_do_not_lead_to_what_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "hidden").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    view = file_view(read=[tmp_path / "link"], hide=[tmp_path / "link" / "hidden"])
    assert mine(landlock_rules(view, "/scratch"), tmp_path.resolve()) == {"real": LIST_ACCESS}
    assert (str(tmp_path / "link"), str(tmp_path / "real")) in view.links


def test_what_is_absent_is_left_out(tmp_path: Path) -> None:
    assert str(tmp_path / "absent") not in file_view(read=[tmp_path / "absent"]).read


def test_the_whole_file_system_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(
        SandboxFailed, match="cannot make '/' visible: that is the whole file system"
    ):
        file_view(read=["/"])
    (tmp_path / "top").symlink_to("/")
    with pytest.raises(SandboxFailed, match="whole file system"):
        file_view(root=tmp_path / "top")


def test_a_file_hidden_among_too_many_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ratchet.sandbox import view

    monkeypatch.setattr(view, "_MOST_RULES", 100)
    for number in range(100):
        (tmp_path / str(number)).touch()
    with pytest.raises(SandboxFailed, match="Hide their folder instead"):
        landlock_rules(file_view(read=[tmp_path], hide=[tmp_path / "7"]), "/scratch")
