"""Every route with every scope, and with none: what the table says holds, and nothing else does."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from ratchet.server.api import GROUPS
from ratchet.server.gateway import Upstream
from ratchet.server.limits import ServerLimits
from ratchet.server.routes import INGEST, ApiRoute
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from ratchet.types import SCOPES, KeyScope
from tests.serving import RunningServer

ROUTES = [route for group in GROUPS for route in group.routes]
RAW: list[tuple[str, str, frozenset[KeyScope]]] = [
    ("POST", "/v1/traces", INGEST),
    ("POST", "/gateway/agent/openai/v1/chat/completions", INGEST),
    ("POST", "/gateway/agent/openai/v1/responses", INGEST),
    ("POST", "/gateway/agent/openai/v1/completions", INGEST),
    ("POST", "/gateway/agent/openai/v1/embeddings", INGEST),
    ("POST", "/gateway/agent/anthropic/v1/messages", INGEST),
]
ALL = [(route.method, route.path, route.scopes) for route in ROUTES] + RAW

EXPECTED: dict[str, set[KeyScope]] = {
    "POST /v1/rollouts": {"develop"},
    "GET /v1/rollouts": {"read", "develop"},
    "POST /v1/rollouts/lookup": {"read", "develop", "runner"},
    "GET /v1/rollouts/counts": {"read", "develop", "runner"},
    "POST /v1/rollouts/claim": {"runner"},
    "POST /v1/rollouts/heartbeat": {"runner"},
    "POST /v1/rollouts/finish": {"runner"},
    "POST /v1/rollouts/release": {"runner"},
    "POST /v1/rollouts/cancel": {"develop"},
    "POST /v1/rollouts/wait": {"read", "develop"},
    "GET /v1/runners": {"read", "develop"},
    "GET /v1/queues": {"read", "develop", "runner"},
    "GET /v1/rollouts/{id}": {"read", "develop", "runner"},
    "GET /v1/rollouts/{id}/attempts": {"read", "develop"},
    "GET /v1/rollouts/{id}/spans": {"read", "develop"},
    "GET /v1/rollouts/{id}/scores": {"read", "develop"},
    "POST /v1/resources": {"develop"},
    "GET /v1/resources": {"read", "develop"},
    "GET /v1/resources/{version}": {"read", "develop", "runner"},
    "POST /v1/candidates": {"develop"},
    "GET /v1/candidates/{id}": {"read", "develop", "runner"},
    "GET /v1/problems": {"read", "develop"},
    "GET /v1/problems/{id}": {"read", "develop"},
    "POST /v1/problems/{id}/state": {"admin"},
    "GET /v1/labelling": {"read", "develop"},
    "GET /v1/models": {"read", "develop"},
    "GET /v1/agents": {"read", "develop"},
    "GET /v1/agents/{name}": {"read", "develop"},
    "PUT /v1/agents/{name}": {"admin"},
    "GET /v1/agents/{name}/active": {"read", "develop"},
    "PUT /v1/agents/{name}/active": {"admin"},
    "GET /v1/agents/{name}/history": {"read", "develop"},
    "GET /v1/agents/{name}/traffic": {"ingest", "read", "develop"},
    "PUT /v1/agents/{name}/traffic": {"admin"},
    "GET /v1/agents/{name}/traffic/history": {"read", "develop"},
    "GET /v1/cycles": {"read", "develop"},
    "GET /v1/cycles/{id}": {"read", "develop"},
    "GET /v1/cycles/{id}/calls": {"read", "develop"},
    "POST /v1/agents/{name}/autopilot": {"admin"},
    "POST /v1/datasets": {"develop"},
    "GET /v1/datasets": {"read", "develop"},
    "POST /v1/datasets/{name}/traces": {"develop"},
    "GET /v1/datasets/{version}": {"read", "develop"},
    "GET /v1/dataset-versions": {"read", "develop"},
    "POST /v1/spans": {"ingest", "runner"},
    "GET /v1/spans": {"read", "develop"},
    "POST /v1/transitions/lookup": {"read", "develop"},
    "POST /v1/transitions/kept": {"read", "develop"},
    "POST /v1/transitions/rewards": {"read", "develop"},
    "GET /v1/traces": {"read", "develop"},
    "GET /v1/trace-facets": {"read", "develop"},
    "GET /v1/recordings": {"read", "develop"},
    "GET /v1/traces/{id}": {"read", "develop"},
    "GET /v1/conversations": {"read", "develop"},
    "GET /v1/conversations/{id}": {"read", "develop"},
    "GET /v1/conversations/{id}/operations": {"read", "develop"},
    "POST /v1/scores": {"develop"},
    "POST /v1/feedback": {"feedback", "ingest", "develop"},
    "GET /v1/feedback": {"read", "develop"},
    "POST /v1/labels": {"develop"},
    "GET /v1/labels": {"read", "develop"},
    "DELETE /v1/labels/{id}": {"develop"},
    "GET /v1/overview": {"read", "develop"},
    "GET /v1/find": {"read", "develop"},
    "GET /v1/session": set(),
    "POST /v1/session": set(),
    "DELETE /v1/session": set(),
    "GET /v1/login/oidc": set(),
    "GET /v1/login/oidc/callback": set(),
    "GET /v1/datasets/{name}/refinement": {"read", "develop"},
    "POST /v1/datasets/{name}/changes": {"develop"},
    "GET /v1/project-settings": {"read"},
    "GET /v1/synthesis-methods": {"read", "develop"},
    "POST /v1/datasets/{name}/synthesis": {"develop"},
    "GET /v1/reruns/place": {"read", "develop"},
    "POST /v1/reruns": {"develop"},
    "GET /v1/reruns/{id}": {"read", "develop"},
    "GET /v1/evaluators": {"develop"},
    "POST /v1/evaluators/{name}/trial": {"develop"},
    "GET /v1/traces/{id}/skeleton": {"read", "develop"},
    "GET /v1/traces/{id}/spans/{span_id}": {"read", "develop"},
    "GET /v1/candidates/{id}/changes": {"read", "develop"},
    "GET /v1/report-cards": {"read", "develop"},
    "GET /v1/report-cards/{id}": {"read", "develop"},
    "GET /v1/training-runs": {"read", "develop"},
    "GET /v1/training-runs/{name}": {"read", "develop"},
    "GET /v1/runs": {"read", "develop"},
    "GET /v1/runs/{id}": {"read", "develop"},
    "GET /v1/runs/{id}/front": {"read", "develop"},
    "GET /v1/runs/{id}/tasks": {"read", "develop"},
    "GET /v1/experiments/{id}/explanation": {"read", "develop"},
    "GET /v1/experiments/{id}/evidence": {"read", "develop"},
    "POST /v1/releases/{id}/rollback": {"admin"},
    "GET /v1/experiments": {"read", "develop"},
    "GET /v1/experiments/{id}": {"read", "develop"},
    "GET /v1/releases": {"read", "develop"},
    "GET /v1/releases/{id}": {"read", "develop"},
    "GET /v1/events": {"read"},
    "GET /v1/keys": {"admin"},
    "POST /v1/keys": {"admin"},
    "DELETE /v1/keys/{id}": {"admin"},
    "GET /v1/audit": {"admin"},
    "GET /healthz": set(),
    "GET /readyz": set(),
    "GET /metrics": {"read"},
    "GET /openapi.json": set(),
}
"""Written out, so that a scope that is loosened by mistake is seen."""

OPEN = {
    "GET /v1/login/oidc": 404,  # without a provider
    "GET /v1/login/oidc/callback": 404,
    "POST /v1/session": 400,
    "DELETE /v1/session": 403,
}
"""Status of malformed requests without a key: only the dashboard's own page may log in or out."""


def test_the_table_grants_what_is_meant_to_be_granted() -> None:
    def granted(route: ApiRoute) -> set[KeyScope]:
        return set(route.scopes)

    assert {f"{r.method} {r.path}": granted(r) for r in ROUTES} == EXPECTED


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[RunningServer, dict[str, str]]]:
    """A server on every address of the machine, and a key for each scope."""
    url = f"sqlite:///{tmp_path_factory.mktemp('guarded')}/ratchet.db"
    with Store.open(url) as store:
        keys = {scope: store.keys.create(scope, (scope,), 1.0)[1] for scope in SCOPES}
        token = store.keys.create("gone", ("admin",), 1.0)
        store.keys.revoke(token[0].id, 2.0)
    nobody = [
        Upstream(name=name, dialect=name, base_url="http://127.0.0.1:9/v1", key_env="PROVIDER")
        for name in ("openai", "anthropic")
    ]
    limits = ServerLimits(public_burst=10_000)
    settings = ServeSettings(host="0.0.0.0", port=0, limits=limits, upstreams=tuple(nobody))
    server = RunningServer(url, settings, {"PROVIDER": "sk-test"})
    keys["revoked"] = token[1]
    keys["unknown"] = "rk_" + "x" * 40
    yield server, keys
    server.stop()


def ask(server: RunningServer, method: str, path: str, key: str) -> int:
    """The status of a request that is malformed beyond its key: nothing changes."""
    filled = path.replace("{", "").replace("}", "")
    headers = {"content-type": "application/json"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    content = b"{" if method in ("POST", "PUT") else b""
    query = "?after=none" if path == "/v1/events" else ""
    port = urlsplit(server.url).port
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method, f"{filled}{query}", content, headers)
        return connection.getresponse().status


@pytest.mark.parametrize(("method", "path", "scopes"), ALL, ids=[f"{m} {p}" for m, p, _ in ALL])
def test_a_route_opens_to_its_scopes_alone(
    guarded: tuple[RunningServer, dict[str, str]],
    method: str,
    path: str,
    scopes: frozenset[KeyScope],
) -> None:
    server, keys = guarded
    if not scopes:
        assert ask(server, method, path, "") == OPEN.get(f"{method} {path}", 200)
        return
    for scope in SCOPES:
        status = ask(server, method, path, keys[scope])
        if scope in scopes or scope == "admin":
            assert status not in (401, 403), f"{scope} is refused"
            assert status < 500 or (path.startswith("/gateway/") and status == 502)
        else:
            assert status == 403, f"{scope} is admitted"
    for name in ("revoked", "unknown"):
        assert ask(server, method, path, keys[name]) == 401
    assert ask(server, method, path, "") == 401
    assert ask(server, method, path, "sk-somebody-elses") == 401


def test_an_attempts_token_opens_its_gateway_and_traces_and_nothing_else(
    guarded: tuple[RunningServer, dict[str, str]],
) -> None:
    server, keys = guarded
    url = server.url.replace("0.0.0.0", "127.0.0.1")
    with server.client(keys["develop"]) as http:
        http.post(f"{url}/v1/rollouts", json={"rollouts": [{"id": "mine", "input": 1}]})
    with server.client(keys["runner"]) as http:
        claim = http.post(f"{url}/v1/rollouts/claim", json={"worker": "w"}).json()["claims"][0]
    token = claim["token"]
    for method, path, scopes in ALL:
        if (method, path) == ("POST", "/v1/traces") or path.startswith("/gateway/"):
            continue
        expected = {403} if scopes else {OPEN.get(f"{method} {path}", 200)}
        assert ask(server, method, path, token) in expected, f"{method} {path}"
    assert ask(server, "POST", "/v1/traces", token) == 400
    own = "/gateway/mine@1/openai/v1/chat/completions"
    assert ask(server, "POST", own, token) not in (401, 403, 404)
    for other in ("other@1", "mine@2", "agent"):
        path = f"/gateway/{other}/openai/v1/chat/completions"
        assert ask(server, "POST", path, token) == 403


def test_refusals_are_in_the_audit_log(guarded: tuple[RunningServer, dict[str, str]]) -> None:
    server, keys = guarded
    url = server.url.replace("0.0.0.0", "127.0.0.1")
    ask(server, "GET", "/v1/keys", keys["read"])
    with server.client(keys["admin"]) as http:
        for _ in range(10_000):
            rows = http.get(f"{url}/v1/audit").json()["rows"]
            if any(r["target"] == "/v1/keys" and r["status"] == 403 for r in rows):
                return
    pytest.fail("the refusal was not written")
