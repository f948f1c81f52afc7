"""Keys that are limited to one agent: every route, with what is theirs and what is another's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ratchet._http import httpx2
from ratchet.server.agent_limits import agent_of_queue
from ratchet.server.api import GROUPS
from ratchet.server.gateway import Upstream
from ratchet.server.routes import ApiRoute
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from ratchet.types import (
    AgentSettings,
    Candidate,
    KeyScope,
    Problem,
    PromptTemplate,
    Rollout,
    Span,
    SpanRecord,
)
from tests.server.api.conftest import report
from tests.server.otlp.requests import PROTOBUF, encoded, rejected, request, span
from tests.serving import RunningServer
from tests.store.made import release, run
from tests.store.test_cycles import begun, move

ROUTES = [route for group in GROUPS for route in group.routes]
SECRET = "what only the other agent's users know"
PROMPT = PromptTemplate("You answer.")
CANDIDATE = Candidate.of({"system": PROMPT}, algorithm="manual")

SHARED = {
    *("GET /healthz", "GET /readyz", "GET /openapi.json"),
    *("GET /v1/session", "POST /v1/session", "DELETE /v1/session"),
    *("GET /v1/login/oidc", "GET /v1/login/oidc/callback"),
    *("POST /v1/resources", "GET /v1/resources/{version}"),
    *("POST /v1/candidates", "GET /v1/candidates/{id}"),
}
"""Routes that are about no agent: written out, so that a limit that is lifted is seen."""


def seed(store: Store, agent: str, trace_id: str) -> None:
    """What an agent has in a store."""
    store.agents.put(AgentSettings(name=agent, substitute=True), 1.0)
    store.rollouts.create(
        [
            Rollout(
                id=f"{agent}-{name}",
                queue=f"{agent}/{name}",
                candidate_id=CANDIDATE.id,
                task_id="",
                input=f"{agent}: {SECRET}",
                purpose="",
            )
            for name in ("a", "b")
        ],
        1.0,
    )
    fields: dict[str, Any] = {"trace_id": trace_id, "name": f"{agent}: {SECRET}", "end_ns": 2}
    names = {"gen_ai.conversation.id": f"{agent}-talk"}
    root = Span(**fields, span_id="1" * 16, start_ns=1, attributes=names)
    store.spans.put([SpanRecord(span=root, agent=agent)])
    cycle = begun(f"{agent}-a", agent)
    store.cycles.put(cycle, move(cycle, "idle"))
    store.runs.put(run(f"{agent}-a", agent=agent))
    store.releases.put(release(f"{agent}-a", agent=agent))
    problem = Problem(
        id=f"{agent}-a",
        agent=agent,
        kind="error",
        title=f"{agent}: {SECRET}",
        first_seen=1.0,
        last_seen=1.0,
        changed_at=1.0,
    )
    store.problems.assign({}, [problem], {problem.id: "{}"})


class Site:
    """A server with two agents, `shop` and `other`, and keys for `shop` alone."""

    traces = {"shop": "a" * 32, "other": "b" * 32}

    def __init__(self, server: RunningServer, store: Store) -> None:
        self.server, self.store = server, store
        store.candidates.put(CANDIDATE, 1.0)
        self.version = store.resources.put("system", PROMPT, 1.0)
        for agent, trace_id in self.traces.items():
            seed(store, agent, trace_id)

    def key(self, *scopes: KeyScope, agent: str = "shop") -> str:
        return self.store.keys.create("limited", scopes, 1.0, agent=agent)[1]

    def ask(self, route: ApiRoute, agent: str, key: str) -> httpx2.Response:
        """Call a route with what is an agent's, wherever it may be named."""
        path, query = route.path, self._query(route, agent)
        nouns = {"traces": self.traces[agent], "conversations": f"{agent}-talk"}
        nouns |= {"candidates": CANDIDATE.id}
        path = path.replace(
            "{id}", nouns.get(path.partition("/v1/")[2].partition("/")[0], f"{agent}-a")
        )
        path = path.replace("{name}", agent).replace("{span_id}", "1" * 16)
        path = path.replace("{version}", self.version).replace("{key}", "run.repetitions")
        with self.server.client(key) as http:
            body = self._body(route, agent)
            return http.request(route.method, path, params=query, json=body)

    def _query(self, route: ApiRoute, agent: str) -> dict[str, str]:
        fields = getattr(route.query, "__struct_fields__", ())
        if route.path in ("/v1/spans", "/v1/feedback"):
            return {"trace_id": self.traces[agent]}
        if "agent" in fields:
            return {"agent": agent}
        known = {"queue": f"{agent}/a", "prefix": f"{agent}/", "q": f"{agent}-a", "name": "system"}
        known |= {"rollout": f"{agent}-a"}
        return {name: value for name, value in known.items() if name in fields}

    def _body(self, route: ApiRoute, agent: str) -> Any:
        id = f"{agent}-a"
        ids, score = {"ids": [id]}, {"evaluator": "e", "version": "1", "value": 1.0}
        feedback = {"id": "f", "kind": "thumbs", "value": 1.0}
        subjects = ({"trace_id": self.traces[agent]}, {"conversation_id": f"{agent}-talk"})
        live = {"trace_id": "c" * 32, "span_id": "1" * 16, "name": "n", "start_ns": 1, "end_ns": 2}
        bodies: dict[str, Any] = {
            "POST /v1/rollouts": {"rollouts": [{"input": 1, "queue": f"{agent}/a"}]},
            "POST /v1/rollouts/claim": {"worker": "w", "queues": [f"{agent}/*"]},
            "POST /v1/rollouts/heartbeat": {"attempts": [[id, 1]]},
            "POST /v1/rollouts/release": {"attempts": [[id, 1]]},
            "POST /v1/rollouts/finish": {"outcomes": [report(id, "failed")]},
            "POST /v1/scores": {"scores": [{"rollout_id": id, "score": score}]},
            "POST /v1/feedback": {"feedback": [feedback | subject for subject in subjects]},
            "POST /v1/spans": {"records": [{"span": live, "agent": agent}]},
            "POST /v1/resources": {"name": "n", "resource": {"type": "params", "values": {}}},
            "POST /v1/candidates": {"resources": {}, "algorithm": "a"},
            "POST /v1/agents/{name}/autopilot": {"verb": "pause", "by": "me"},
            "PUT /v1/agents/{name}": {"substitute": False},
            "PUT /v1/agents/{name}/active": {"candidate_id": CANDIDATE.id},
            "PUT /v1/agents/{name}/traffic": {
                "experiment_id": "e",
                "candidate_id": CANDIDATE.id,
                "enrolled": 0.1,
            },
        }
        if route.body is None:
            return None
        takes_ids = "ids" in route.body.__struct_fields__
        return bodies.get(f"{route.method} {route.path}", ids if takes_ids else {})


@pytest.fixture
def site(store_url: str, serving: Callable[..., RunningServer]) -> Iterator[Site]:
    nobody = [Upstream(name="o", dialect="openai", base_url="http://127.0.0.1:9/v1")]
    server = serving(store_url, ServeSettings(port=0, upstreams=tuple(nobody)))
    with Store.open(store_url) as store:
        yield Site(server, store)


def test_a_limited_key_reaches_nothing_of_another_agent_by_any_route(site: Site) -> None:
    key = site.key("admin")
    for route in ROUTES:
        answer = site.ask(route, "other", key)
        name = f"{route.method} {route.path}"
        assert SECRET not in answer.text, name
        if name in SHARED:
            assert answer.status_code != 403 or "cookie" in answer.text, name
        else:
            assert answer.status_code == 403, f"{name}: {answer.status_code} {answer.text[:200]}"
            assert "limited to the agent 'shop'" in answer.json()["detail"]


def test_a_limited_key_opens_what_is_about_its_own_agent(site: Site) -> None:
    key = site.key("admin")
    opened = [
        name
        for route in ROUTES
        if (name := f"{route.method} {route.path}") not in SHARED
        and site.ask(route, "shop", key).status_code != 403
    ]
    assert opened == [
        f"{route.method} {route.path}"
        for route in ROUTES
        if route.agents is not None and f"{route.method} {route.path}" not in SHARED
    ]
    assert len(opened) > 40


def test_what_names_no_agent_is_not_opened(site: Site) -> None:
    with site.server.client(site.key("admin")) as http:
        for path in ("traces", "rollouts", "conversations", "recordings", "cycles"):
            answer = http.get(f"/v1/{path}")
            assert answer.status_code == 403
            assert "names no agent" in answer.json()["detail"]
        # The beginning of an id might be that of another's.
        assert http.get(f"/v1/traces/{'a' * 8}").status_code == 403
        assert http.get("/v1/queues").status_code == 403
        # One foreign item refuses the others too.
        both = {"ids": ["shop-a", "other-a"]}
        assert http.post("/v1/rollouts/cancel", json=both).status_code == 403
        assert site.store.rollouts.get(["shop-a"])["shop-a"].status == "queued"


def test_a_limited_runner_runs_its_own_queues(site: Site) -> None:
    with site.server.client(site.key("runner")) as http:
        claims = http.post("/v1/rollouts/claim", json={"worker": "w", "queues": ["shop/*"]}).json()
        (claim,) = claims["claims"]
        candidate = http.get(f"/v1/candidates/{claim['rollout']['candidate_id']}").json()
        assert http.get(f"/v1/resources/{candidate['versions']['system']}").status_code == 200
        pair = [claim["rollout"]["id"], claim["fence"]]
        assert http.post("/v1/rollouts/heartbeat", json={"attempts": [pair]}).json() == {
            "running": [pair]
        }


def test_a_limited_key_sends_live_traffic_of_its_agent_alone(site: Site) -> None:
    key = site.key("ingest", agent="my:shop")  # stored as my-shop, as every name is
    with site.server.client(key) as http:
        headers = {"content-type": PROTOBUF}
        made = request(span(), span(), service__name="other")
        mine = request(span(), service__name="my-shop")
        made.resource_spans.extend(mine.resource_spans)
        answer = http.post("/v1/traces", content=encoded(made, PROTOBUF), headers=headers)
        count, why = rejected(answer.content, PROTOBUF)
        assert (answer.status_code, count) == (200, 2)
        assert "belong to an agent other than the one that the key is limited to" in why
        assert len(site.store.spans.live("my-shop")[0]) == 1
        assert len(site.store.spans.live("other")[0]) == 1
        call = {"model": "m", "messages": []}
        for agent, status in (("other", 403), ("my-shop", 502)):
            path = f"/gateway/{agent}/openai/v1/chat/completions"
            assert http.post(path, json=call).status_code == status


@pytest.mark.parametrize(
    ("queue", "agent"),
    [
        ("shop", "shop"),
        ("shop/*", "shop"),
        ("shop.main:answer@3f2c/py3.11/plain/r1", "shop.main:answer"),
        ("shop%2Fmain@3f2c/py3.11/plain/r1", "shop/main"),
    ],
)
def test_a_queue_belongs_to_the_agent_that_its_name_begins_with(queue: str, agent: str) -> None:
    assert agent_of_queue(queue) == agent
