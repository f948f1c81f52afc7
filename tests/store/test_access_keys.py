"""Keys, the audit log and settings, as both databases keep them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from sqlalchemy import text

from ratchet.store import Store
from ratchet.store.audit import AuditRow
from ratchet.types import InputError


def test_a_key_is_found_by_its_secret_alone(store: Store) -> None:
    key, secret = store.keys.create(
        "runners", ["read", "runner", "runner"], now=10.0, expires_at=99.0
    )
    assert key.scopes == ("runner", "read")
    assert (key.name, key.created_at, key.expires_at) == ("runners", 10.0, 99.0)
    assert store.keys.by_secret(secret) == key
    assert store.keys.by_secret(secret[:-1]) is None
    assert store.keys.by_secret(key.id) is None
    assert store.keys.by_secret("") is None
    assert store.keys.by_secret("rk_\ud800\x00") is None


def test_secrets_are_random_and_stored_nowhere(store_url: str) -> None:
    with Store.open(store_url) as store:
        secrets = {store.keys.create(f"k{n}", ["read"], now=1.0)[1] for n in range(20)}
        assert len(secrets) == 20
        assert all(len(secret) == 43 and secret.startswith("rk_") for secret in secrets)
        rows = store._database.read(lambda c: c.execute(text("SELECT * FROM keys")).all())
        stored = " ".join(str(value) for row in rows for value in row)
        assert not any(secret in stored or secret[3:] in stored for secret in secrets)


def test_a_revoked_key_stays_revoked_since_then(store: Store) -> None:
    key, secret = store.keys.create("old", ["runner"], now=1.0)
    first = store.keys.revoke(key.id, now=5.0)
    assert first is not None
    assert first.revoked_at == 5.0
    assert store.keys.revoke(key.id, now=9.0) == first
    assert store.keys.by_secret(secret) == first
    assert store.keys.revoke("nobody", now=9.0) is None


def test_a_key_is_meant_by_id_start_of_id_or_name(store: Store) -> None:
    key, _ = store.keys.create("runners", ["runner"], now=1.0)
    for which in (key.id, key.id[:6], "runners"):
        assert store.keys.find(which) == key
    store.keys.revoke(key.id, now=2.0)
    replaced, _ = store.keys.create("runners", ["runner"], now=3.0)
    assert store.keys.find("runners") == replaced
    assert store.keys.find(key.id).revoked_at == 2.0


def test_a_name_of_no_key_or_of_two_is_refused_with_what_to_do(store: Store) -> None:
    with pytest.raises(InputError, match="ratchet keys list"):
        store.keys.find("nobody")
    first, secret = store.keys.create("runners", ["runner"], now=1.0)
    second, _ = store.keys.create("runners", ["runner"], now=1.0)
    with pytest.raises(InputError, match=f"2 keys: {first.id}, {second.id}"):
        store.keys.find("runners")
    with pytest.raises(InputError, match="Did you mean 'runners'"):
        store.keys.find("runner")
    with pytest.raises(InputError, match="the secret of a key"):
        store.keys.find(secret)
    with pytest.raises(InputError, match="No active key"):
        store.keys.find("")


def test_a_key_that_could_not_work_is_not_made(store: Store) -> None:
    for name, scopes, expires_at, said in (
        ("k", [], None, "needs at least one scope"),
        ("k", ["runers"], None, "Did you mean 'runner'"),
        ("k", ["runner", "\x00"], None, "no scope"),
        (" \n", ["runner"], None, "1 to 100 characters"),
        ("k" * 101, ["runner"], None, "1 to 100 characters"),
        ("k", ["runner"], 10.0, "already be expired"),
    ):
        with pytest.raises(InputError, match=said):
            store.keys.create(name, scopes, now=10.0, expires_at=expires_at)
    assert store.keys.list() == []


def test_the_last_use_only_moves_on(store: Store) -> None:
    a, b = (store.keys.create(name, ["runner"], now=1.0)[0] for name in "ab")
    store.keys.used({a.id: 50.0, b.id: 60.0, "unknown": 1.0})
    store.keys.used({a.id: 40.0, b.id: 70.0})
    store.keys.used({})
    assert [key.last_used_at for key in store.keys.list()] == [50.0, 70.0]


def test_the_audit_log_comes_back_in_pages_newest_first(store: Store) -> None:
    rows = [
        AuditRow(at=float(n), key_id="k", address="::1", action="PUT x", target="t\x00", status=200)
        for n in range(5)
    ]
    store.audit.add(rows[:2])
    store.audit.add([])
    store.audit.add(rows[2:])
    first, cursor = store.audit.list(limit=3)
    store.audit.add([msgspec.structs.replace(rows[0], at=9.0)])
    second, end = store.audit.list(limit=3, cursor=cursor)
    assert [row.at for row in first + second] == [4.0, 3.0, 2.0, 1.0, 0.0]
    assert end is None
    assert first[0] == msgspec.structs.replace(rows[4], target="t\ufffd")
    with pytest.raises(InputError, match="cursor"):
        store.audit.list(cursor="-1")


def test_a_setting_is_made_once_however_many_ask_at_once(store_url: str) -> None:
    together = threading.Barrier(4)

    def ask(number: int) -> str:
        with Store.open(store_url) as store:

            def make() -> str:
                together.wait(60)
                return f"made by {number}"

            return store.settings.get_or_create("secret", make)

    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(ask, range(4)))
    assert len(found) == 1
    with Store.open(store_url) as store:
        assert {store.settings.get_or_create("secret", lambda: "another")} == found
        assert store.settings.get_or_create("other", lambda: "another") == "another"
