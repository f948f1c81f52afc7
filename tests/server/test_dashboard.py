"""The dashboard's page and its session: what is served to whom, and what other sites cannot do."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ratchet.server.dashboard import Dashboard
from ratchet.server.serve import ServeSettings
from ratchet.server.session import cookie_key, set_cookie
from ratchet.store import Store
from tests.serving import RunningServer

HTML = [(b"accept", b"text/html,*/*")]


@pytest.fixture
def built(tmp_path: Path) -> Dashboard:
    """A page of three files."""
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text('<html><meta nonce="RATCHET_NONCE">page</html>')
    (folder / "assets" / "index-1.js").write_text("let x = 1;\n" * 400)
    (folder / "theme.js").write_text("1")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    return Dashboard(folder)


def asked(path: str, headers: Any = HTML, method: str = "GET") -> dict[str, Any]:
    return {"method": method, "path": path, "headers": headers}


@pytest.mark.parametrize("path", ["/", "/runs/abc", "/traces?x", "/index.html"])
def test_an_address_of_the_page_gets_the_page_with_a_nonce_of_its_own(
    built: Dashboard, path: str
) -> None:
    first, second = built.find(asked(path)), built.find(asked(path))
    assert first is not None
    assert second is not None
    assert first.content != second.content
    nonce = re.search(rb'nonce="(.+?)"', first.content)
    policy = dict(first.headers)[b"content-security-policy"]
    assert nonce is not None
    assert nonce[1] in policy
    assert b"unsafe" not in policy
    assert dict(first.headers)[b"cache-control"] == b"no-store"


def test_an_asset_is_kept_for_ever_and_sent_packed_to_those_who_take_it(built: Dashboard) -> None:
    plain = built.find(asked("/assets/index-1.js", []))
    packed = built.find(asked("/assets/index-1.js", [(b"accept-encoding", b"br, gzip")]))
    assert plain is not None
    assert packed is not None
    assert b"immutable" in dict(plain.headers)[b"cache-control"]
    assert dict(packed.headers)[b"content-encoding"] == b"gzip"
    assert len(packed.content) < len(plain.content)
    assert dict(plain.headers)[b"content-type"].startswith((b"text/javascript", b"application/ja"))


@pytest.mark.parametrize(
    "path",
    ["/../secret.txt", "/assets/../../secret.txt", "/link.txt", "//etc/passwd", "/assets/none.js"],
)
def test_nothing_outside_of_the_folder_is_served(built: Dashboard, path: str) -> None:
    assert built.find(asked(path, [])) is None
    shown = built.find(asked(path))
    assert shown is None or b"secret" not in shown.content


def test_the_api_keeps_its_own_answers(built: Dashboard) -> None:
    assert built.find(asked("/v1/nothing")) is None
    assert built.find(asked("/", HTML, "POST")) is None
    assert built.find(asked("/runs/abc", [(b"accept", b"application/json")])) is None


def test_a_checkout_without_the_page_says_how_to_build_it(tmp_path: Path) -> None:
    shown = Dashboard(tmp_path / "static").find(asked("/"))
    assert shown is not None
    assert b"make dashboard" in shown.content


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[RunningServer, str, str]]:
    """A server that wants a key, a key that may read, and one that may do all."""
    url = f"sqlite:///{tmp_path_factory.mktemp('session')}/ratchet.db"
    with Store.open(url) as store:
        reader = store.keys.create("reader", ("read",), time.time())[1]
        admin = store.keys.create("boss", ("admin",), time.time())[1]
    server = RunningServer(url, ServeSettings(port=0, require_key=True))
    yield server, reader, admin
    server.stop()


def ask(
    server: RunningServer, method: str, path: str, body: str = "", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a request; headers are written with underscores."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if body:
        sent["content-type"] = "application/json"
    with closing(http.client.HTTPConnection("127.0.0.1", urlsplit(server.url).port)) as connection:
        connection.request(method, path, body or None, sent)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()


def own(server: RunningServer, **more: str) -> dict[str, str]:
    """Headers of a request of the dashboard's own page."""
    return {"origin": server.url, "x_ratchet_dashboard": "1", **more}


def logged_in(server: RunningServer, key: str) -> str:
    status, headers, _ = ask(server, "POST", "/v1/session", f'{{"key": "{key}"}}', **own(server))
    assert status == 200
    return headers["set-cookie"]


def test_a_key_becomes_a_cookie_that_no_script_reads(
    guarded: tuple[RunningServer, str, str],
) -> None:
    server, reader, _ = guarded
    assert ask(server, "GET", "/v1/runs")[0] == 401
    assert b'"scopes":[]' in ask(server, "GET", "/v1/session")[2]
    cookie = logged_in(server, reader)
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(cookie.split("; "))
    shown = cookie.split(";")[0]
    assert ask(server, "GET", "/v1/runs", cookie=shown)[0] == 200
    assert b'"key_name":"reader"' in ask(server, "GET", "/v1/session", cookie=shown)[2]


def test_scopes_of_the_key_hold_for_its_session(guarded: tuple[RunningServer, str, str]) -> None:
    server, reader, admin = guarded
    path, body = "/v1/agents/support/active", '{"candidate_id": ""}'
    for key, status in ((reader, 403), (admin, 200)):
        cookie = logged_in(server, key).split(";")[0]
        assert ask(server, "PUT", path, body, **own(server, cookie=cookie))[0] == status


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x_ratchet_dashboard": "1"},
        {"x_ratchet_dashboard": "1", "origin": "https://evil.example"},
        {"x_ratchet_dashboard": "1", "origin": "null"},
        {"origin": "own"},
    ],
)
def test_no_other_site_changes_anything_with_the_cookie(
    guarded: tuple[RunningServer, str, str], headers: dict[str, str]
) -> None:
    server, _, admin = guarded
    cookie = logged_in(server, admin).split(";")[0]
    sent = {name: server.url if value == "own" else value for name, value in headers.items()}
    body = '{"candidate_id": ""}'
    assert ask(server, "PUT", "/v1/agents/a/active", body, cookie=cookie, **sent)[0] == 403
    assert ask(server, "POST", "/v1/session", f'{{"key": "{admin}"}}', **sent)[0] == 403
    assert ask(server, "DELETE", "/v1/session", **sent)[0] == 403


def test_a_wrong_key_gives_no_cookie(guarded: tuple[RunningServer, str, str]) -> None:
    server, _, _ = guarded
    body = '{"key": "rk_' + "x" * 40 + '"}'
    status, headers, content = ask(server, "POST", "/v1/session", body, **own(server))
    assert status == 401
    assert "set-cookie" not in headers
    assert b"x" * 40 not in content


def test_logging_out_deletes_the_cookie(guarded: tuple[RunningServer, str, str]) -> None:
    server, _, _ = guarded
    status, headers, _ = ask(server, "DELETE", "/v1/session", **own(server))
    assert status == 204
    assert "Max-Age=0" in headers["set-cookie"]


def test_a_revoked_key_ends_its_session(guarded: tuple[RunningServer, str, str]) -> None:
    server, _, _ = guarded
    with Store.open(server.store_url) as store:
        gone, secret = store.keys.create("gone", ("read",), time.time())
        store.keys.revoke(gone.id, time.time())
    cookie = f"ratchet_session={secret}"
    assert ask(server, "GET", "/v1/runs", cookie=cookie)[0] == 401
    assert b'"scopes":[]' in ask(server, "GET", "/v1/session", cookie=cookie)[2]


def test_over_https_the_cookie_is_bound_to_this_host() -> None:
    https = {"scheme": "https", "headers": []}
    proxied = {"scheme": "http", "headers": [(b"x-forwarded-proto", b"https")]}
    for scope in (https, proxied):
        cookie = set_cookie(scope, "rk_1")
        assert cookie.startswith("__Host-ratchet=rk_1; Path=/")
        assert "Secure" in cookie.split("; ")
    assert "Secure" not in set_cookie({"scheme": "http", "headers": []}, "rk_1")


@pytest.mark.parametrize(
    "value", [b"", b"a=1; ratchet_session", b"\xff=\xfe", b"=;=;", b"other=rk_1"]
)
def test_cookies_of_others_are_no_key(value: bytes) -> None:
    assert cookie_key([(b"cookie", value)]) == b""


def test_the_page_and_the_session_need_no_key_but_nothing_else_is_open(
    guarded: tuple[RunningServer, str, str],
) -> None:
    server, _, _ = guarded
    status, headers, _ = ask(server, "GET", "/runs", accept="text/html")
    assert status == 200
    assert headers["x-content-type-options"] == "nosniff"
    assert ask(server, "GET", "/runs", accept="application/json")[0] == 404
    assert ask(server, "GET", "/v1/overview")[0] == 401


def test_under_a_path_of_a_proxy_the_page_says_so_and_the_api_answers_with_and_without_it(
    serving: Callable[..., RunningServer], sqlite_url: str
) -> None:
    server = serving(sqlite_url, ServeSettings(port=0, root_path="/tools/ratchet"))
    with server.client() as http:
        for path in ("/tools/ratchet/healthz", "/healthz"):  # some proxies cut it off
            assert http.get(path).status_code == 200
        assert http.get("/tools/ratchetx/healthz").status_code == 404
        assert http.get("/tools/ratchet", headers={"accept": "text/html"}).status_code == 200
