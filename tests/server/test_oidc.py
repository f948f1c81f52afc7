"""Logging in at a provider: who gets what, and everything that is no proof."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from joserfc.jwk import RSAKey

from ratchet._http import httpx2
from ratchet.server.oidc import OidcLogin, OidcSettings
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from ratchet.types import ConfigError, KeyScope
from tests.server.oidc_provider import CLIENT, SECRET, Provider
from tests.serving import RunningServer

ALLOW: dict[KeyScope, tuple[str, ...]] = {
    "admin": ("group:ops",),
    "read": ("@example.com", "sub:99"),
    "develop": ("ann@example.com",),
}
MARK = {"x-ratchet-dashboard": "1"}
VERIFIED = {"sub": "17", "email": "bob@example.com", "email_verified": True}
NOT_CLAIMS = {"alg", "key", "profile"}
"""What else of a provider may lie."""


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.close()


@pytest.fixture
def server(
    provider: Provider, serving: Callable[..., RunningServer], sqlite_url: str
) -> RunningServer:
    """A server that asks for a login. Its own address is known only once it runs."""
    settings = OidcSettings(
        issuer=provider.url,
        client_id=CLIENT,
        url="http://127.0.0.1:1",
        secret_env="OIDC_SECRET",
        name="Example",
        allow=ALLOW,
    )
    made = serving(
        sqlite_url,
        ServeSettings(port=0, require_key=True, oidc=settings),
        environ={"OIDC_SECRET": SECRET},
    )
    made.app.services.oidc = OidcLogin(
        msgspec.structs.replace(settings, url=made.url),
        {"OIDC_SECRET": SECRET},
        signing_key=b"k" * 32,
        clock=time.time,
    )
    return made


def log_in(http: httpx2.Client, target: str = "/runs") -> httpx2.Response:
    """What the browser gets at the end: after the provider, at the callback."""
    begun = http.get("/v1/login/oidc", params={"target": target})
    assert begun.status_code == 303, begun.text
    at_provider = httpx2.get(begun.headers["location"])
    assert at_provider.status_code == 302
    return http.get(at_provider.headers["location"])


def session(http: httpx2.Client) -> dict[str, Any]:
    found: dict[str, Any] = http.get("/v1/session").json()
    return found


def test_a_person_gets_a_session_with_the_scopes_that_are_theirs(server: RunningServer) -> None:
    with server.client() as http:
        assert session(http)["provider"] == "Example"
        assert http.get("/v1/runs").status_code == 401
        back = log_in(http)
        assert (back.status_code, back.headers["location"]) == (303, "/runs")
        cookie = back.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
        assert "Max-Age=43200" in cookie
        now = session(http)
        assert (now["key_name"], now["scopes"]) == ("login:ann@example.com", ["develop", "read"])
        assert now["expires_at"] is not None
        assert http.get("/v1/runs").status_code == 200
        assert http.get("/v1/keys").status_code == 403
    server.stop()
    with Store.open(server.store_url) as store:
        (row,) = (row for row in store.audit.list()[0] if row.action == "GET log in")
        (key,) = store.keys.list()
    assert (row.target, row.key_id, row.status) == ("ann@example.com", key.id, 303)


def test_logging_out_ends_the_session_for_everybody_who_has_the_cookie(
    server: RunningServer,
) -> None:
    with server.client() as http:
        log_in(http)
        kept = dict(http.cookies)
        done = http.delete("/v1/session", headers={**MARK, "origin": server.url})
        assert done.status_code == 204
    with Store.open(server.store_url) as store:
        (key,) = store.keys.list()
    assert key.revoked_at is not None
    assert kept


def test_groups_decide_too(server: RunningServer, provider: Provider) -> None:
    provider.claims = {"groups": ["staff", "ops"]}
    with server.client() as http:
        log_in(http)
        assert "admin" in session(http)["scopes"]


def test_the_profile_is_asked_where_the_token_has_no_address(
    server: RunningServer, provider: Provider
) -> None:
    provider.claims = {"email": None, "email_verified": None}
    provider.profile = VERIFIED
    with server.client() as http:
        log_in(http)
        assert session(http)["key_name"] == "login:bob@example.com"


def test_a_key_that_the_provider_has_changed_is_read_again(
    server: RunningServer, provider: Provider
) -> None:
    with server.client() as http:
        log_in(http)
    provider.key = RSAKey.generate_key(2048, {"kid": "second", "use": "sig"})
    provider.shown = [provider.key]
    login = server.app.services.oidc
    login._keys = (login._keys[0] - 61, login._keys[1])  # a minute later
    with server.client() as http:
        assert log_in(http).headers["location"] == "/runs"


@pytest.mark.parametrize(
    "lie",
    [
        {"iss": "https://other.example"},
        {"aud": "another client"},
        {"aud": [CLIENT, "b"], "azp": "b"},
        {"nonce": "of another login"},
        {"nonce": None},
        {"exp": 1},
        {"exp": None},
        {"exp": "soon"},
        {"iat": 10**11},
        {"sub": None},
        {"alg": "none"},
        {"key": RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})},
        {"email": None, "profile": {**VERIFIED, "sub": "18"}},
    ],
    ids=lambda lie: "another's key" if "key" in lie else str(lie),
)
def test_a_token_that_is_not_for_this_login_is_no_proof(
    server: RunningServer, provider: Provider, lie: dict[str, Any]
) -> None:
    provider.claims = {name: value for name, value in lie.items() if name not in NOT_CLAIMS}
    for name in NOT_CLAIMS & {*lie}:
        setattr(provider, name, lie[name])
    with server.client() as http:
        assert log_in(http).headers["location"] == "/?login=provider"
        assert session(http)["scopes"] == []


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "eve@elsewhere.com"},
        {"email": "eve@example.com.evil.com"},
        {"email": "eve@notexample.com"},
        {"email_verified": False},
        {"email_verified": None},
    ],
)
def test_who_is_not_named_may_nothing(
    server: RunningServer, provider: Provider, claims: dict[str, Any]
) -> None:
    provider.claims = claims
    with server.client() as http:
        assert log_in(http).headers["location"] == "/?login=unknown"
        assert session(http)["scopes"] == []
    server.stop()
    with Store.open(server.store_url) as store:
        assert store.keys.list() == []
        (row,) = (row for row in store.audit.list()[0] if row.action == "GET log in")
    assert row.status == 403
    assert row.target == claims.get("email", "17")


def test_a_login_that_another_browser_began_is_refused(server: RunningServer) -> None:
    with server.client() as mine, server.client() as theirs:
        begun = mine.get("/v1/login/oidc")
        back = httpx2.get(begun.headers["location"]).headers["location"]
        assert theirs.get(back).headers["location"] == "/?login=expired"
        theirs.get("/v1/login/oidc")  # even if it has begun one itself
        assert theirs.get(back).headers["location"] == "/?login=expired"
        assert mine.get(back).headers["location"] == "/"
        assert mine.get(back).headers["location"] == "/?login=expired"  # the code is used up


@pytest.mark.parametrize("cookie", ["", "x", "x.y", "e30.AAAA", "ä.b"])
def test_a_cookie_that_was_not_made_here_is_refused(server: RunningServer, cookie: str) -> None:
    headers = {"cookie": f"ratchet_login={cookie}".encode()}
    with server.client() as http:
        answer = http.get("/v1/login/oidc/callback?state=a&code=b", headers=headers)
    assert answer.headers["location"] == "/?login=expired"


@pytest.mark.parametrize(
    "target", ["//evil.example/a", "/\\evil.example", "https://evil.example", "evil", "/a\r\nb: c"]
)
def test_nobody_is_sent_to_another_site(server: RunningServer, target: str) -> None:
    with server.client() as http:
        assert log_in(http, target).headers["location"] == "/"


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/keys"])
def test_a_provider_that_fails_is_a_page_and_no_traceback(
    server: RunningServer, provider: Provider, path: str
) -> None:
    provider.fails = {path}
    with server.client() as http:
        begun = http.get("/v1/login/oidc")
        if urlsplit(begun.headers["location"]).path != "/authorize":
            assert begun.headers["location"] == "/?login=provider"
            return
        back = httpx2.get(begun.headers["location"]).headers["location"]
        assert http.get(back).headers["location"] == "/?login=provider"


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "http://127.0.0.1:9"},
        {"token_endpoint": "http://elsewhere.example/"},
        {"userinfo_endpoint": "http://elsewhere.example/"},
        {"jwks_uri": "http://["},
    ],
)
def test_a_provider_that_names_another_is_refused(
    server: RunningServer, provider: Provider, metadata: dict[str, str]
) -> None:
    provider.metadata = metadata
    with server.client() as http:
        assert http.get("/v1/login/oidc").headers["location"] == "/?login=provider"


def test_a_person_who_says_no_at_the_provider_comes_back(server: RunningServer) -> None:
    with server.client() as http:
        begun = http.get("/v1/login/oidc")
        state = dict(
            part.split("=") for part in urlsplit(begun.headers["location"]).query.split("&")
        )["state"]
        answer = http.get(f"/v1/login/oidc/callback?error=access_denied&state={state}")
        assert answer.headers["location"] == "/?login=denied"


@pytest.mark.parametrize(
    ("change", "environ", "said"),
    [
        ({"issuer": "http://sso.example"}, {"S": "x"}, "issuer"),
        ({"url": "ratchet.example"}, {"S": "x"}, "url"),
        ({}, {}, "secret_env names S"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_at_the_start(
    change: dict[str, Any], environ: dict[str, str], said: str
) -> None:
    fields = {
        "issuer": "https://sso.example",
        "client_id": "c",
        "url": "https://ratchet.example",
        "secret_env": "S",
        **change,
    }
    with pytest.raises(ConfigError, match=said):
        OidcLogin(OidcSettings(**fields), environ, signing_key=b"k", clock=lambda: 0.0)


def test_a_login_that_takes_too_long_is_begun_again(
    server: RunningServer, provider: Provider
) -> None:
    with server.client() as http:
        begun = http.get("/v1/login/oidc")
        back = httpx2.get(begun.headers["location"]).headers["location"]
        server.app.services.oidc._clock = lambda: time.time() + 601
        assert http.get(back).headers["location"] == "/?login=expired"


def test_a_provider_that_trickles_is_given_up(
    server: RunningServer, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def trickle(request: Any, _: str) -> None:
        request.send_response(200)
        request.end_headers()
        while not ended.wait(0.01):
            request.wfile.write(b" ")

    monkeypatch.setattr("ratchet.server.oidc.TIMEOUT_S", 0.1)
    monkeypatch.setattr(provider, "_answer", trickle)
    with server.client() as http:
        assert http.get("/v1/login/oidc").headers["location"] == "/?login=provider"
    ended.set()


def test_a_server_with_a_provider_lets_nobody_in_without_a_login(
    provider: Provider, serving: Callable[..., RunningServer], sqlite_url: str
) -> None:
    settings = OidcSettings(issuer=provider.url, client_id=CLIENT, url="http://127.0.0.1:1")
    made = serving(sqlite_url, ServeSettings(port=0, oidc=settings))
    with made.client() as http:
        assert http.get("/v1/runs").status_code == 401
