"""Trained weights of a candidate, at a model server in vLLM's shape that does not know them yet."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict

from ratchet._http import httpx2
from ratchet.autopilot.adapters import AdapterFolder, served_name
from ratchet.server.gateway.adapter_loading import RETRY_S, AdapterLoader
from ratchet.server.gateway.pool import UpstreamEndpoint, UpstreamPool
from ratchet.server.gateway.substitution import PromptSubstituter
from ratchet.server.gateway.upstream import Upstream
from ratchet.server.metrics import Metrics
from ratchet.types import Adapter, Model
from tests.clocks import Clock
from tests.server.gateway.conftest import Site
from tests.server.gateway.test_substitution import World
from tests.server.gateway.upstreams import Seen, StubUpstream, Wire, reply

LOAD, CHAT = "/v1/load_lora_adapter", "/v1/chat/completions"


def keep_adapter(kept: AdapterFolder, work: Path, content: bytes = b"\0\0\0\0") -> Adapter:
    """An adapter of one number in a project's folder."""
    work.parent.mkdir(exist_ok=True)
    header = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    work.mkdir()
    weights = len(header).to_bytes(8, "little") + header + content
    (work / "adapter_model.safetensors").write_bytes(weights)
    about = {"peft_type": "LORA", "base_model_name_or_path": "base"}
    (work / "adapter_config.json").write_text(json.dumps(about))
    return Adapter(kept.keep(work), "base")


class ModelServer:
    """Answers as vLLM does: 404 for a model that it has not loaded."""

    def __init__(self, stub: StubUpstream) -> None:
        self.stub = stub
        self.models = {"m"}
        self.load: Callable[[dict[str, Any]], bytes] = self.loads
        stub.script = self._answer

    def loads(self, asked: dict[str, Any]) -> bytes:
        self.models.add(asked["lora_name"])
        return reply(b"Success: LoRA adapter added successfully.")

    def asked(self, path: str) -> list[Any]:
        return [one.json for one in self.stub.seen if one.target == path]

    def _answer(self, seen: Seen, wire: Wire) -> None:
        if seen.target == LOAD:
            wire.send(self.load(seen.json))
        elif seen.json["model"] in self.models:
            wire.send(reply({"id": "x", "model": seen.json["model"], "choices": []}))
        else:
            wire.send(reply({"error": {"message": "The model does not exist."}}, 404))


class Setting:
    """A gateway before a model server, and an agent whose active candidate has trained weights."""

    def __init__(self, world: World, stub: StubUpstream, folder: Path, **upstream: Any) -> None:
        self.world, self.server = world, ModelServer(stub)
        self.clock, self.metrics = Clock(), Metrics()
        self.kept = AdapterFolder(folder / "adapters")
        self.adapter = keep_adapter(self.kept, folder / "trained")
        self.name = served_name(self.adapter.hash)
        self.candidate = world.candidate(model=Model(self.name, adapter=self.adapter))
        self.upstream = Upstream(name="one", dialect="openai", base_url=stub.url, **upstream)
        self.loader = AdapterLoader(
            folder / "adapters", metrics=self.metrics, clock=self.clock, timeout_s=30.0
        )
        self.site: Site

    def call(self, scope: str = "bot") -> httpx2.Response:
        messages = [{"role": "user", "content": "Hello"}]
        return httpx2.post(
            f"{self.site.url(scope)}/chat/completions",
            json={"model": "m", "messages": messages},
            headers={"authorization": "Bearer k"},
            timeout=30,
        )

    def counted(self, outcome: str) -> float:
        name = "ratchet_gateway_adapters_total"
        return self.metrics.registry.get_sample_value(name, {"outcome": outcome}) or 0.0


@pytest.fixture
def setting(
    world: World, open_site: Callable[..., Site], upstream: StubUpstream, tmp_path: Path
) -> Setting:
    made = Setting(world, upstream, tmp_path)
    world.switch()
    world.activate(made.candidate)
    substitute = PromptSubstituter(world.store)
    made.site = open_site(
        made.upstream, substitute=substitute, adapters=made.loader, metrics=made.metrics
    )
    return made


@pytest.fixture
def world(disk: Any) -> World:
    return World(disk)


def test_weights_that_the_server_does_not_know_are_loaded_and_answer_the_same_call(
    setting: Setting,
) -> None:
    assert setting.call().json()["model"] == setting.name
    path = str(setting.kept.path(setting.adapter.hash))
    assert setting.server.asked(LOAD) == [{"lora_name": setting.name, "lora_path": path}]
    assert setting.server.stub.seen[1].header("authorization") == "Bearer k"
    assert setting.counted("loaded") == 1
    # The client saw one call, so one is recorded.
    attributes = setting.site.span().attributes
    assert attributes["gen_ai.request.model"] == setting.name
    assert attributes["http.response.status_code"] == 200


def test_a_server_that_was_restarted_is_given_the_weights_again(setting: Setting) -> None:
    setting.call()
    setting.server.models = {"m"}
    assert setting.call().json()["model"] == setting.name
    assert len(setting.server.asked(LOAD)) == 2


def test_calls_that_come_while_weights_are_loaded_wait_for_them(setting: Setting) -> None:
    count = 8
    refused = threading.Semaphore(0)
    loads, answer = setting.server.loads, setting.server._answer

    def late(asked: dict[str, Any]) -> bytes:
        for _ in range(count):
            assert refused.acquire(timeout=30)
        return loads(asked)

    def script(seen: Seen, wire: Wire) -> None:
        answer(seen, wire)
        if seen.target == CHAT:
            refused.release()

    setting.server.load = late
    setting.server.stub.script = script
    with ThreadPoolExecutor(count) as threads:
        found = [each.result() for each in [threads.submit(setting.call) for _ in range(count)]]
    assert [one.json()["model"] for one in found] == [setting.name] * count
    assert len(setting.server.asked(LOAD)) == 1


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (reply({"detail": "Not Found"}, 404), "--enable-lora"),
        (reply({"message": "rank 64 is too large"}, 400), "rank 64 is too large"),
        (reply(b"Success"), "still does not know"),
    ],
)
def test_an_agent_goes_on_with_its_own_model_when_its_server_refuses_the_weights(
    setting: Setting, answer: bytes, reason: str
) -> None:
    setting.server.load = lambda asked: answer
    assert setting.call().json()["model"] == "m"
    attributes = setting.site.span().attributes
    assert reason in attributes["ratchet.substitution.error"]
    assert "ratchet.candidate_id" not in attributes
    # The next calls lose no time.
    before = len(setting.server.stub.seen)
    assert setting.call().json()["model"] == "m"
    assert len(setting.server.stub.seen) == before + 1
    assert (setting.counted("failed"), setting.counted("replaced")) == (1, 2)
    # Later it is tried again.
    setting.server.load = setting.server.loads
    setting.clock.now += RETRY_S
    assert setting.call().json()["model"] == setting.name


def test_weights_whose_content_is_not_what_their_name_says_are_not_loaded(setting: Setting) -> None:
    file = setting.kept.path(setting.adapter.hash) / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\1")
    assert setting.call().json()["model"] == "m"
    assert setting.server.asked(LOAD) == []
    assert (
        "does not match the hash in its name"
        in setting.site.span().attributes["ratchet.substitution.error"]
    )


def test_a_path_in_place_of_a_content_hash_is_not_loaded(setting: Setting) -> None:
    outside = Adapter("../trained", "base")
    setting.world.activate(setting.world.candidate(model=Model("local/x", adapter=outside)))
    assert setting.call().json()["model"] == "m"
    assert setting.server.asked(LOAD) == []


def test_an_attempt_is_refused_rather_than_run_with_other_weights(setting: Setting) -> None:
    setting.server.load = lambda asked: reply({"message": "no memory"}, 500)
    target = setting.world.rollout(setting.candidate.id)
    answer = setting.call(f"{target.rollout_id}@{target.fence}")
    assert answer.status_code == 503
    assert "no memory" in answer.text


def test_an_upstream_on_another_machine_is_told_where_it_finds_the_adapters(
    world: World, upstream: StubUpstream, tmp_path: Path
) -> None:
    setting = Setting(world, upstream, tmp_path)
    away = Upstream(name="gpu", dialect="openai", base_url="http://gpu.example/v1")
    shared = Upstream(
        name="near", dialect="openai", base_url=upstream.url, adapters="/mnt/adapters/"
    )

    async def load() -> None:
        pool = UpstreamPool((away, shared), {})
        await pool.start()
        for one in (away, shared):
            named = setting.loader.named(one, setting.adapter, setting.name)
            endpoint: UpstreamEndpoint = pool.endpoint(one)
            await setting.loader.load(pool, endpoint, CIMultiDict(), named)
        await pool.close()

    asyncio.run(load())
    assert "another machine" in setting.loader.fault(away, setting.name)
    assert "[upstreams.gpu]" in setting.loader.fault(away, setting.name)
    path = f"/mnt/adapters/{setting.adapter.hash}"
    assert setting.server.asked(LOAD) == [{"lora_name": setting.name, "lora_path": path}]
