"""Behind proxies: whose address it is, and that only trusted proxies are believed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ratchet.server.forwarded import client_address, networks_of
from ratchet.server.limits import ServerLimits
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from ratchet.types import ConfigError
from tests.serving import RunningServer

TRUSTED = networks_of(["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"])
CLIENT = "203.0.113.9"


@pytest.mark.parametrize(
    ("peer", "sent", "address"),
    [
        ("10.0.0.1", [CLIENT], CLIENT),
        ("10.0.0.1", [f"{CLIENT}, 10.0.0.2, 192.0.2.7"], CLIENT),
        ("10.0.0.1", [f"{CLIENT}:4711"], CLIENT),
        ("10.0.0.1", ["2001:db9::1"], "2001:db9::1"),
        ("10.0.0.1", ["[2001:db9::1]:443"], "2001:db9::1"),
        ("2001:db8::5", [CLIENT], CLIENT),
        ("::ffff:10.0.0.1", [CLIENT], CLIENT),
        ("10.0.0.1", [f"::ffff:{CLIENT}"], CLIENT),
        # What a client wrote itself lies to the left of its own address.
        ("10.0.0.1", [f"127.0.0.1, {CLIENT}"], CLIENT),
        ("10.0.0.1", ["127.0.0.1", CLIENT], CLIENT),
        ("10.0.0.1", [f"10.0.0.3, {CLIENT}, 10.0.0.2"], CLIENT),
        # Nobody is believed who is not trusted.
        (CLIENT, ["127.0.0.1"], CLIENT),
        ("192.0.2.8", ["127.0.0.1"], "192.0.2.8"),
        ("testclient", ["127.0.0.1"], "testclient"),
        # What cannot be read ends the list at the proxy that sent it.
        ("10.0.0.1", ["127.0.0.1, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["127.0.0.1, unknown, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", [f"{CLIENT}, "], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.2, 10.0.0.3"], "10.0.0.2"),
    ],
)
def test_the_address_is_the_last_that_no_trusted_proxy_has(
    peer: str, sent: list[str], address: str
) -> None:
    headers = [(b"host", b"x"), *((b"x-forwarded-for", value.encode()) for value in sent)]
    assert client_address(peer, headers, TRUSTED) == address


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        (f"for={CLIENT}", CLIENT),
        (f"for=127.0.0.1, for={CLIENT};proto=https;by=10.0.0.1", CLIENT),
        (f'proto=http;For="{CLIENT}:80"', CLIENT),
        ('for="[2001:db9::1]:80"', "2001:db9::1"),
        ("for=_hidden", "10.0.0.1"),
        ("proto=https", "10.0.0.1"),
        (f'for="{CLIENT}', "10.0.0.1"),
        (f'by="for={CLIENT}"', "10.0.0.1"),
    ],
)
def test_the_standard_header_is_read_too(forwarded: str, address: str) -> None:
    headers = [(b"forwarded", forwarded.encode())]
    assert client_address("10.0.0.1", headers, TRUSTED) == address
    agreeing = [*headers, (b"x-forwarded-for", address.encode())]
    differing = [*headers, (b"x-forwarded-for", b"198.51.100.1")]
    assert client_address("10.0.0.1", agreeing, TRUSTED) == address
    # A proxy may pass on the one that it does not write, so a client can write it.
    assert client_address("10.0.0.1", differing, TRUSTED) == "10.0.0.1"


@pytest.mark.parametrize("text", ["*", "proxy.internal", "10.0.0.0/33", "10.0.0.1/8", ""])
def test_what_is_no_network_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match="not an address or network"):
        networks_of([text])


@pytest.mark.parametrize("trusted", [("127.0.0.1",), ()])
def test_the_audit_log_and_the_limits_see_the_client_behind_a_trusted_proxy(
    serving: Callable[..., RunningServer], sqlite_url: str, trusted: tuple[str, ...]
) -> None:
    settings = ServeSettings(
        port=0,
        require_key=True,
        trusted_proxies=trusted,
        limits=ServerLimits(public_burst=1, public_per_s=0.001),
    )
    with Store.open(sqlite_url) as store:
        public, admin = (
            store.keys.create(scope, [scope], 1.0)[1] for scope in ("feedback", "admin")
        )
    server = serving(sqlite_url, settings)
    statuses = []
    for visitor in ("198.51.100.1", "198.51.100.2"):
        with server.client(public) as http:
            http.headers["x-forwarded-for"] = visitor
            for _ in range(2):
                statuses.append(http.post("/v1/feedback", json={"feedback": []}).status_code)
    # Each has a limit of its own behind a trusted proxy; else all are the proxy.
    assert statuses == ([200, 429, 200, 429] if trusted else [200, 429, 429, 429])
    with server.client("rk_" + "x" * 40) as http:
        http.headers["x-forwarded-for"] = CLIENT
        assert http.get("/v1/rollouts").status_code == 401
    with server.client(admin) as http:
        while not (rows := http.get("/v1/audit").json()["rows"]):
            pass
    assert [row["address"] for row in rows] == [CLIENT if trusted else "127.0.0.1"]
