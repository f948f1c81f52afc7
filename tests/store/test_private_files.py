"""What Ratchet keeps is its owner's alone, whatever the umask is and was."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet._private_files import make_folder
from ratchet.observe.project_paths import prepare_state
from ratchet.observe.spool import Spool, SpoolFrame
from ratchet.run.locks import FileLock
from ratchet.ship.pull_request import write_text_file
from ratchet.store import Store


def mode(path: Path) -> int:
    """Its permission bits."""
    return stat.S_IMODE(path.stat().st_mode)


def modes(folder: Path) -> dict[str, str]:
    """Permission bits of all below a folder, by relative path."""
    return {str(path.relative_to(folder)): oct(mode(path)) for path in folder.rglob("*")}


@pytest.fixture(params=[0o000, 0o022])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Umasks that let others read, and write."""
    before = os.umask(request.param)
    try:
        yield request.param
    finally:
        os.umask(before)


def test_a_new_state_folder_and_all_in_it_is_its_owners_alone(tmp_path: Path, umask: int) -> None:
    state = prepare_state(tmp_path)
    url = f"sqlite:///{state / 'ratchet.db'}"
    with Store.open(url) as store:
        store.settings.get_or_create("attempt_secret", lambda: "key")
        spool = Spool(state / "spool" / "agent")
        spool.append(SpoolFrame(b"spans", 1))
        write_text_file(state / "releases" / "release.md", "text")
        lock = FileLock(state / "locks" / "improve.lock", "This test")
        lock.acquire()
        found = modes(state)
        lock.release()
        spool.close()
    found.pop(".gitignore")
    assert mode(state) == 0o700
    assert {name for name in found if name.startswith("ratchet.db")} == {
        "ratchet.db",
        "ratchet.db-wal",
        "ratchet.db-shm",
    }
    for name, bits in found.items():
        assert bits == ("0o700" if (state / name).is_dir() else "0o600"), name


def test_one_that_others_could_enter_is_closed_and_that_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = tmp_path / ".ratchet"
    outside = tmp_path / "outside"
    outside.write_text("not ours")
    outside.chmod(0o644)
    (state / "evidence").mkdir(parents=True)
    for name in ("ratchet.db", "evidence/decision.json", "run.sh"):
        (state / name).touch()
        (state / name).chmod(0o755 if name == "run.sh" else 0o664)
    (state / "link").symlink_to(outside)
    for folder in (state, state / "evidence"):
        folder.chmod(0o755)
    with caplog.at_level(logging.WARNING, logger="ratchet"):
        prepare_state(tmp_path)
        prepare_state(tmp_path)
    assert mode(state) == 0o700
    assert modes(state) | {".gitignore": "", "link": ""} == {
        "evidence": "0o700",
        "evidence/decision.json": "0o600",
        "ratchet.db": "0o600",
        "run.sh": "0o700",
        "link": "",
        ".gitignore": "",
    }
    assert mode(outside) == 0o644
    assert [record.getMessage() for record in caplog.records] == [
        f"{state} holds conversations and a signing key, and other users of this machine could"
        " read it until now. From now on only its owner can."
    ]


def test_a_store_elsewhere_is_closed_and_its_folder_left_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o755)
    file = folder / "store.db"
    url = f"sqlite:///{file}"
    Store.open(url).close()
    assert (mode(folder), mode(file)) == (0o755, 0o600)
    assert not caplog.records
    with Store.open(url) as held:
        held.settings.get_or_create("name", lambda: "value")
        for name in ("store.db", "store.db-wal", "store.db-shm"):
            (folder / name).chmod(0o644)
        with caplog.at_level(logging.WARNING, logger="ratchet"), Store.open(url):
            pass
        assert set(modes(folder).values()) == {"0o600"}
    assert mode(folder) == 0o755
    assert len(caplog.records) == 1
    assert f"{file} holds conversations" in caplog.text


def test_a_database_of_another_program_keeps_its_mode(tmp_path: Path) -> None:
    import sqlite3
    from contextlib import closing

    from ratchet.types import StoreError

    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("create table theirs (a)")
    file.chmod(0o644)
    with pytest.raises(StoreError, match="another program"):
        Store.open(f"sqlite:///{file}")
    assert mode(file) == 0o644


def test_folders_above_that_are_missing_are_private_too(tmp_path: Path, umask: int) -> None:
    make_folder(tmp_path / "a" / "b")
    assert modes(tmp_path) == {"a": "0o700", "a/b": "0o700"}
