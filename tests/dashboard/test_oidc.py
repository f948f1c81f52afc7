"""Login with a real OpenID provider, in a browser."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ratchet._http import httpx2
from ratchet.server.oidc import OidcSettings
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from tests.serving import RunningServer

pytestmark = pytest.mark.browser


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A provider in a process of its own, with two people."""
    port = free_port()
    people = [
        {"sub": "p-1", "email": "ada@example.com", "email_verified": True},
        {"sub": "p-2", "email": "eve@example.com", "email_verified": True},
    ]
    command = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port), "--require-nonce"]
    command += ["true", *(f"--user-claims={json.dumps(each)}" for each in people)]
    log = (tmp_path_factory.mktemp("provider") / "log").open("w")
    process = subprocess.Popen(command, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    until = time.monotonic() + 30
    while True:
        try:
            httpx2.get(f"{url}/.well-known/openid-configuration", timeout=5).raise_for_status()
            break
        except httpx2.HTTPError:
            assert process.poll() is None, Path(log.name).read_text()
            assert time.monotonic() < until, "the provider did not start"
            time.sleep(0.05)
    yield url
    process.terminate()
    process.wait(10)
    log.close()


@pytest.fixture
def server(issuer: str, tmp_path: Path) -> Iterator[RunningServer]:
    port = free_port()
    settings = OidcSettings(
        issuer=issuer,
        client_id="ratchet",
        url=f"http://127.0.0.1:{port}",
        secret_env="RATCHET_OIDC_SECRET",
        name="Example",
        allow={"admin": ("ada@example.com",)},
    )
    running = RunningServer(
        f"sqlite:///{tmp_path}/ratchet.db",
        ServeSettings(port=port, oidc=settings),
        {"RATCHET_OIDC_SECRET": "s3cret"},
    )
    yield running
    running.stop()


def test_a_person_logs_in_acts_under_their_name_and_logs_out(
    server: RunningServer, opened: Any, complaints: list[str]
) -> None:
    page = opened(f"{server.url}/settings")
    page.get_by_role("link", name="Example").click()
    page.get_by_role("button", name=re.compile("p-1|ada")).first.click()
    page.wait_for_url(f"{server.url}/settings")
    page.get_by_text("ada@example.com").first.wait_for()
    cookie = next(each for each in page.context.cookies() if "session" in each["name"])
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Lax"
    assert cookie["expires"] < time.time() + 13 * 3600
    sent = {"cookie": f"{cookie['name']}={cookie['value']}"}
    assert httpx2.get(f"{server.url}/v1/keys", headers=sent).status_code == 200
    page.get_by_role("button", name="log out").click()
    page.get_by_role("link", name="Example").wait_for()
    page.close()  # it would ask on
    server.stop()
    with Store.open(server.store_url) as store:
        rows = [row for row in store.audit.list()[0] if row.action == "GET log in"]
        assert [row.target for row in rows] == ["ada@example.com"]
        (key,) = store.keys.list()
    assert (key.id, key.scopes) == (rows[0].key_id, ("admin",))
    assert key.revoked_at is not None
    complaints.clear()  # requests without a session are refused


def test_a_person_whom_nobody_named_is_turned_away_and_noted(
    server: RunningServer, opened: Any, complaints: list[str]
) -> None:
    page = opened(server.url)
    page.get_by_role("link", name="Example").click()
    page.get_by_role("button", name=re.compile("p-2|eve")).first.click()
    page.wait_for_url(f"{server.url}/?login=unknown")
    page.get_by_role("link", name="Example").wait_for()
    page.close()  # it would ask on
    server.stop()
    with Store.open(server.store_url) as store:
        assert store.keys.list() == []
        refused = [row for row in store.audit.list()[0] if row.status == 403]
        assert [row.target for row in refused] == ["eve@example.com"]
    complaints.clear()  # the refusal itself is one
