"""The gateway as part of a server: attempts, their tokens, their costs; limits of a caller."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import openai
import pytest

from ratchet._http import httpx2
from ratchet.server.gateway import Upstream
from ratchet.server.http_problems import HttpProblem
from ratchet.server.serve import ServeSettings
from tests.server.api.conftest import report
from tests.server.gateway.conftest import Site, both
from tests.server.gateway.other_providers import completion
from tests.server.gateway.upstreams import Seen, StubUpstream, Wire, reply
from tests.serving import RunningServer

USED = {"prompt_tokens": 1_000_000, "completion_tokens": 0, "total_tokens": 1_000_000}
ANSWER = {**completion("Hi"), "id": "x", "model": "gpt-4o-mini", "usage": USED}
ASKED: dict[str, Any] = {
    "model": "gpt-4o-mini",
    "messages": [{"role": "user", "content": "Hello"}],
}


@pytest.fixture
def server(
    serving: Callable[..., RunningServer], sqlite_url: str, upstream: StubUpstream
) -> RunningServer:
    settings = ServeSettings(
        port=0,
        upstreams=(
            Upstream(name="stub", dialect="openai", base_url=upstream.url, key_env="PROVIDER"),
        ),
    )
    return serving(sqlite_url, settings, {"PROVIDER": "sk-provider"})


def ask(server: RunningServer, scope: str, key: str) -> Any:
    client = openai.OpenAI(
        base_url=f"{server.url}/gateway/{scope}/openai/v1", api_key=key, max_retries=0
    )
    return client.chat.completions.create(**ASKED)


def claimed(http: httpx2.Client, **rollout: Any) -> dict[str, Any]:
    """The claim of the first attempt of the rollout `r-1`."""
    made = http.post("/v1/rollouts", json={"rollouts": [{"id": "r-1", "input": "?", **rollout}]})
    assert made.status_code == 200, made.text
    claim: dict[str, Any] = http.post("/v1/rollouts/claim", json={"worker": "w"}).json()["claims"][
        0
    ]
    return claim


def finish(http: httpx2.Client, status: str = "succeeded", **more: Any) -> str:
    """What a rollout is after its first attempt ended so."""
    body = {"outcomes": [report("r-1", status, **more)]}
    done = http.post("/v1/rollouts/finish", json=body).raise_for_status()
    return str(done.json()["results"][0]["status"])


def test_an_attempt_pays_for_its_calls_and_may_make_none_when_it_is_over(
    server: RunningServer, upstream: StubUpstream
) -> None:
    upstream.answers(ANSWER)
    with server.client() as http:
        claim = claimed(http)
        scope, token = f"r-1@{claim['fence']}", claim["token"]
        for _ in range(2):
            assert ask(server, scope, token).choices[0].message.content == "Hi"
        assert upstream.seen[0].header("authorization") == "Bearer sk-provider"
        with pytest.raises(openai.PermissionDeniedError, match="gives no access to"):
            ask(server, "r-1@7", token)
        assert finish(http) == "succeeded"
        # Its calls are stored when it is finished, with what they cost.
        assert http.get("/v1/rollouts/r-1").json()["cost_usd"] == pytest.approx(0.3)
        assert len(http.get("/v1/rollouts/r-1/spans").json()["spans"]) == 2
        with pytest.raises(openai.APIStatusError) as refused:
            ask(server, scope, token)
        assert refused.value.status_code in (401, 409)
        with pytest.raises(openai.NotFoundError, match="There is no rollout 'nothing'"):
            ask(server, "nothing@1", "sk-mine")


def test_streams_of_a_caller_are_held_and_may_be_refused(
    open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    held: list[Any] = []

    @contextmanager
    def hold(caller: Any) -> Iterator[None]:
        if held:
            raise HttpProblem(429, "One is enough.", headers={"retry-after": "1"})
        held.append(caller)
        yield

    site = open_site(*both(upstream), stream=hold)
    upstream.streams([])
    client = openai.OpenAI(base_url=site.url("bot"), api_key="sk-x", max_retries=0)
    list(client.chat.completions.create(**ASKED, stream=True))
    with pytest.raises(openai.RateLimitError, match=r"One is enough\."):
        client.chat.completions.create(**ASKED, stream=True)
    upstream.answers(ANSWER)
    assert client.chat.completions.create(**ASKED).id == "x"  # not streamed, so nothing is held


def test_a_call_that_the_gateway_and_the_worker_both_record_is_billed_once(
    server: RunningServer, upstream: StubUpstream
) -> None:
    upstream.answers(ANSWER)
    with server.client() as http:
        claim = claimed(http)
        ask(server, f"r-1@{claim['fence']}", claim["token"])
        mine = {
            "trace_id": "1" * 32,
            "span_id": "1" * 16,
            "name": "chat",
            "start_ns": 1,
            "end_ns": 2,
            "attributes": {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "gpt-4o-mini",
                "gen_ai.usage.input_tokens": 1_000_000,
                "gen_ai.usage.output_tokens": 0,
            },
        }
        finish(http, spans=[mine])
        assert http.get("/v1/rollouts/r-1").json()["cost_usd"] == pytest.approx(0.15)


@pytest.mark.parametrize("ends", [True, False], ids=["rollout ended", "queued again"])
def test_a_call_that_outlasts_its_attempt_costs_what_it_costs_until_the_rollout_ends(
    server: RunningServer, upstream: StubUpstream, ends: bool
) -> None:
    answer = threading.Event()

    def script(seen: Seen, wire: Wire) -> None:
        answer.wait(60)
        wire.send(reply(ANSWER))

    upstream.script = script
    with server.client() as http, ThreadPoolExecutor() as threads:
        claim = claimed(http, max_attempts=1 if ends else 2)
        call = threads.submit(ask, server, "r-1@1", claim["token"])
        while not upstream.seen:
            time.sleep(0.01)
        finish(http, "failed")
        answer.set()
        assert call.result().choices[0].message.content == "Hi"
        while not (spans := http.get("/v1/rollouts/r-1/spans").json()["spans"]):
            time.sleep(0.01)
        assert spans[0]["attributes"].get("ratchet.late", False) == ends
        cost = http.get("/v1/rollouts/r-1").json()["cost_usd"]
        assert cost == pytest.approx(0.0 if ends else 0.15)
        late = 'ratchet_spans_total{outcome="late"} 1.0' in http.get("/metrics").text
        assert late == ends


def test_a_key_pays_for_no_attempt_unless_it_shows_the_attempts_token(
    server: RunningServer, upstream: StubUpstream
) -> None:
    upstream.answers(ANSWER)
    with server.client() as http:
        token = claimed(http)["token"]
        key = http.post("/v1/keys", json={"name": "k", "scopes": ["ingest"]}).json()["secret"]

    def call(scope: str, named: str = "") -> int:
        headers = {"x-ratchet-rollout": named} if named else {}
        with server.client(key) as mine:
            path = f"/gateway/{scope}/openai/v1/chat/completions"
            return mine.post(path, json=ASKED, headers=headers).status_code

    assert (call("r-1@1"), call("support", "r-1@1")) == (403, 403)
    wrong = token[:-1] + ("x" if token[-1] != "x" else "y")
    assert (call("support", wrong), call(wrong), call("r-2@1", token)) == (401, 401, 400)
    assert upstream.seen == []
    assert (call("support", token), call(token), call("r-1@1", token)) == (200, 200, 200)
    with server.client() as http:
        finish(http)
        assert http.get("/v1/rollouts/r-1").json()["cost_usd"] == pytest.approx(0.45)
    assert call("support", token) == 409


@pytest.mark.parametrize("way", ["header", "query parameter"])
def test_a_services_call_belongs_to_the_attempt_that_it_names(
    server: RunningServer, upstream: StubUpstream, way: str
) -> None:
    upstream.answers(ANSWER)
    with server.client() as http:
        claimed(http)
        named: dict[str, Any] = {"headers": {"x-ratchet-rollout": "r-1@1"}}
        if way == "query parameter":
            named = {"params": {"ratchet_rollout": "r-1@1", "api-version": "2"}}
        path = "/gateway/support/openai/v1/chat/completions"
        http.post(path, json=ASKED, **named).raise_for_status()
        sent = upstream.seen[-1]
        assert sent.header("x-ratchet-rollout") is None
        assert "ratchet_rollout" not in sent.target
        assert ("api-version=2" in sent.target) == (way == "query parameter")
        finish(http, output="Hi")
        spans = http.get("/v1/rollouts/r-1/spans").json()["spans"]
        assert [span["attributes"]["gen_ai.request.model"] for span in spans] == ["gpt-4o-mini"]


@pytest.mark.parametrize(
    ("scope", "named", "status", "sentence"),
    [
        ("support", "r-1", 400, "does not name an attempt"),
        ("support", "r-1@0x", 400, "does not name an attempt"),
        ("support", "r-2@1", 404, "There is no rollout 'r-2'"),
        ("r-1@1", "r-2@1", 400, "path names"),
    ],
)
def test_a_call_that_names_a_wrong_attempt_is_refused(
    server: RunningServer, scope: str, named: str, status: int, sentence: str
) -> None:
    with server.client() as http:
        path = f"/gateway/{scope}/openai/v1/chat/completions"
        body = {"model": "m", "messages": []}
        answer = http.post(path, json=body, headers={"x-ratchet-rollout": named})
        assert answer.status_code == status
        assert sentence in answer.json()["detail"]
