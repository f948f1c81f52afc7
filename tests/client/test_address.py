"""Addresses and keys: where they come from, and which ones are refused."""

from __future__ import annotations

import pytest

import ratchet
from ratchet.client.address import address_of, key_of
from ratchet.types import ConfigError


def test_the_environment_names_server_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_URL", "https://server.example/ratchet/")
    monkeypatch.setenv("RATCHET_KEY", " rk_1 \n")
    assert ratchet.Client().url == "https://server.example/ratchet"
    key = key_of(None)
    assert key is not None
    assert key.secret == "rk_1"
    assert key_of("") is None, "an empty key is none, whatever the environment holds"


def test_without_a_server_it_is_said_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RATCHET_URL", raising=False)
    with pytest.raises(ConfigError, match="Set RATCHET_URL"):
        ratchet.Client()


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000",
        "ftp://server",
        "http://",
        "http://server:port",
        "http://server:99999",
        "http://server:0",
        "http://ser ver",
        "http://server/\x00",
        "http://server?queue=a",
        "http://server#a",
        "http://[::1",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="Write it as"):
        address_of(url)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="contains a user or password") as caught:
        address_of("http://me:hush@server")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("key", ["rk_a b", "rk_a\nb: c", "rk_ä", "rk_\x00"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(ConfigError, match="Copy it again") as caught:
        key_of(key)
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:80", True),
        ("http://127.1.2.3", True),
        ("http://localhost:1", True),
        ("http://[::1]:1", True),
        ("http://10.0.0.1", False),
        ("http://localhost.example", False),
    ],
)
def test_loopback_is_recognised(url: str, loopback: bool) -> None:
    assert address_of(url).loopback is loopback
