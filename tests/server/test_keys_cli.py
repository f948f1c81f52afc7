"""`ratchet keys`, as a person and as a script use it."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from ratchet.cli.app import run
from ratchet.cli.keys import duration
from ratchet.store import Store
from ratchet.types import InputError

DAY_S = 86_400


@pytest.fixture
def ratchet(sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `ratchet keys` on a store; gives the exit code and both outputs."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["keys", *arguments, "--store", sqlite_url])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_the_key_stands_alone_on_standard_output_and_works(
    ratchet: Any, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")  # a narrow terminal breaks no key
    code, key, said = ratchet("create", "runners", "--scope", "runner", "--scope", "read")
    assert code == 0
    with Store.open(sqlite_url) as store:
        found = store.keys.by_secret(key.removesuffix("\n"))
    assert found is not None
    assert (found.name, found.scopes, found.expires_at) == ("runners", ("runner", "read"), None)
    assert "only once" in said
    assert "Authorization: Bearer" in said


def test_machines_get_the_key_and_its_secret_as_json(ratchet: Any) -> None:
    code, out, said = ratchet("create", "ci", "--scope", "admin", "--expires", "90d", "--json")
    made = json.loads(out)
    assert (code, said) == (0, "")
    assert made["secret"].startswith("rk_")
    assert made["key"]["scopes"] == ["admin"]
    assert made["key"]["expires_at"] - time.time() == pytest.approx(90 * DAY_S, abs=60)


def test_the_list_tells_what_each_key_allows_and_whether_it_works(
    ratchet: Any, sqlite_url: str
) -> None:
    assert "ratchet keys create" in ratchet("list")[1]
    with Store.open(sqlite_url) as store:
        used, secret = store.keys.create("used", ["runner", "read"], now=1e9)
        store.keys.used({used.id: 1.5e9})
        store.keys.create("old", ["read"], now=1e9, expires_at=1.1e9)
        gone, _ = store.keys.create("[red]gone", ["read"], now=1e9)
        store.keys.revoke(gone.id, now=1.2e9)
    code, out, _ = ratchet("list")
    assert code == 0
    rows = {row.split()[1]: row for row in out.splitlines()[1:]}
    assert used.id[:8] in rows["used"]
    assert "runner read" in rows["used"]
    assert day(1.5e9) in rows["used"]
    assert "for ever" in rows["used"]
    assert f"expired {day(1.1e9)}" in rows["old"]
    assert f"revoked {day(1.2e9)}" in rows["[red]gone"]
    assert secret not in out
    listed = json.loads(ratchet("list", "--json")[1])["keys"]
    assert [key["name"] for key in listed] == ["used", "old", "[red]gone"]
    assert "hash" not in listed[0]


def day(at: float) -> str:
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d}"


def test_a_key_is_revoked_by_name_or_by_the_start_of_its_id(ratchet: Any, sqlite_url: str) -> None:
    first = json.loads(ratchet("create", "a", "--scope", "runner", "--json")[1])["key"]
    ratchet("create", "b", "--scope", "runner")
    code, out, _ = ratchet("revoke", first["id"][:8])
    assert (code, "Revoked 'a'" in out) == (0, True)
    revoked = json.loads(ratchet("revoke", "b", "--json")[1])
    assert revoked["name"] == "b"
    assert revoked["revoked_at"] == pytest.approx(time.time(), abs=60)
    with Store.open(sqlite_url) as store:
        assert all(key.revoked_at is not None for key in store.keys.list())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["create", "k", "--scope", "raed"], "Did you mean 'read'"),
        (["create", "", "--scope", "runner"], "1 to 100 characters"),
        (["create", "k", "--scope", "runner", "--expires", "3 months"], "12h, 90d or 8w"),
        (["revoke", "nobody"], "ratchet keys list"),
        (["create", "k"], "--scope"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    ratchet: Any, sqlite_url: str, arguments: list[str], said: str
) -> None:
    code, out, err = ratchet(*arguments)
    assert code == 2
    assert out == ""
    assert said in err
    assert "Traceback" not in err
    with Store.open(sqlite_url) as store:
        assert store.keys.list() == []


def test_a_folder_with_a_servers_configuration_is_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RATCHET_STORE", raising=False)
    (tmp_path / "ratchet.toml").write_text('[store]\nurl = "sqlite:///here/my.db"\n')
    inside = tmp_path / "inside"
    inside.mkdir()
    assert run(["keys", "create", "k", "--scope", "runner", "-C", str(inside)]) == 0
    with Store.open(f"sqlite:///{tmp_path}/here/my.db") as store:
        assert [key.name for key in store.keys.list()] == ["k"]


def test_a_store_that_cannot_be_opened_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["keys", "list", "--store", "mysql://x"]) == 4
    assert "not supported" in capsys.readouterr().err


def test_durations_are_hours_days_or_weeks() -> None:
    assert [duration(d) for d in ("12h", "90d", " 2W ")] == [43_200, 90 * DAY_S, 14 * DAY_S]
    for odd in ("", "0d", "d", "-1d", "1.5d", "3m", "1e3h", "999999999w", "٣d"):
        with pytest.raises(InputError, match="not a duration"):
            duration(odd)
