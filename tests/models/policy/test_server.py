"""The policy server as a client of OpenAI's API meets it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import psutil
import pytest
from openai import OpenAI
from tests.local_models import GROUP, require_model
from tests.models.policy.tiny_models import save_adapter

from ratchet._http import httpx2
from ratchet.models import LocalModel, ModelUnavailable
from ratchet.models.policy import Base, PolicyServer, adapter_hash, load_base

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group(GROUP)]

HI: list[Any] = [{"role": "user", "content": "hi"}]


@pytest.fixture
def client(server: PolicyServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=server.base_url, api_key=server.key, max_retries=0, timeout=60) as made:
        yield made


def ask(client: OpenAI, messages: list[Any] = HI, **given: Any) -> dict[str, Any]:
    """The answer to a request for messages, with ids and log-probabilities."""
    options = {"model": "tiny", "max_tokens": 12, "seed": 1, "logprobs": True, **given}
    extra = {"return_token_ids": True, **options.pop("extra_body", {})}
    made = client.chat.completions.create(messages=messages, extra_body=extra, **options)
    return dict(made.model_dump())


def test_an_answer_has_the_ids_and_log_probabilities_of_what_was_really_said(
    client: OpenAI, base: Base
) -> None:
    answer = ask(client)
    choice = answer["choices"][0]
    assert answer["prompt_token_ids"] == base.tokenizer.render(HI)
    assert base.tokenizer.decode(choice["token_ids"]) == choice["message"]["content"]
    assert len(choice["token_ids"]) == len(choice["logprobs"]["content"]) == 12
    assert answer["ratchet"] == {
        "version_first": base.fingerprint,
        "version_last": base.fingerprint,
        "tokenizer": base.tokenizer_hash,
        "template": base.template_hash,
    }


def test_new_weights_reach_the_sampler_and_the_old_ones_stay(
    client: OpenAI, base: Base, adapters: list[Path], server: PolicyServer
) -> None:
    def probe(model: str) -> list[float]:
        made = client.completions.create(
            model=model, prompt=list(range(40)), max_tokens=0, echo=True, logprobs=0
        )
        found = made.choices[0].logprobs
        assert found is not None
        assert found.token_logprobs is not None
        assert found.token_logprobs[0] is None
        return list(found.token_logprobs[1:])

    with httpx2.Client(headers={"authorization": f"Bearer {server.key}"}) as http:
        for name, at in (("policy", adapters[0]), ("policy", adapters[2])):
            body = {"lora_name": name, "lora_path": str(at)}
            loaded = http.post(f"{server.base_url}/load_lora_adapter", json=body)
            assert loaded.json() == {"id": "policy", "version": adapter_hash(at)}
            for model, folder in ((name, at), (adapter_hash(adapters[0]), adapters[0])):
                expected = forward(base, folder, list(range(40)))
                assert probe(model) == pytest.approx(expected, abs=1e-4)
        assert max(abs(a - b) for a, b in zip(probe("policy"), probe("tiny"), strict=True)) > 0.01
        gone = http.post(f"{server.base_url}/unload_lora_adapter", json={"lora_name": "policy"})
        assert gone.status_code == 200
    with pytest.raises(openai.NotFoundError, match="no model 'policy'; this server has"):
        probe("policy")


def forward(base: Base, folder: Path, ids: list[int]) -> list[float]:
    """Log-probabilities of a sequence by PEFT's own forward pass."""
    import copy

    import torch
    from peft import PeftModel

    model = PeftModel.from_pretrained(copy.deepcopy(base.model), str(folder)).eval()
    with torch.no_grad():
        found = torch.log_softmax(model(torch.tensor([ids])).logits[0], -1)
    return [float(found[at, token]) for at, token in enumerate(ids[1:])]


def test_different_weights_answer_side_by_side(client: OpenAI) -> None:
    names = ["tiny", "first", "second"] * 3
    with ThreadPoolExecutor(9) as threads:
        together = list(threads.map(lambda name: ask(client, model=name), names))
    for name, answer in zip(names, together, strict=True):
        alone = ask(client, model=name)
        assert answer["choices"][0]["token_ids"] == alone["choices"][0]["token_ids"]
        assert answer["ratchet"]["version_first"] == alone["ratchet"]["version_first"]
    assert len({answer["ratchet"]["version_first"] for answer in together}) == 3


def test_adapters_beyond_memory_come_back_from_their_folders(
    folder: Path, base: Base, tmp_path: Path
) -> None:
    from ratchet.models.policy.adapters import AdapterRegistry
    from ratchet.models.policy.engine import PolicyEngine

    own = load_base(folder)
    registry = AdapterRegistry(own, PolicyEngine(own), in_memory=2)
    for seed in range(4):
        registry.load(f"step-{seed}", save_adapter(tmp_path / str(seed), base, seed=seed))
    assert len(registry._loaded) == 2
    found = registry.find("step-0")
    assert found is not None
    assert found[0] is not None
    assert found[0].version == found[1] == adapter_hash(tmp_path / "0")
    for seed in (2, 3):
        registry.find(f"step-{seed}")
    shutil.rmtree(tmp_path / "0")
    with pytest.raises(ModelUnavailable, match=r"no adapter in .*/0"):
        registry.find("step-0")
    shutil.rmtree(tmp_path / "1")
    save_adapter(tmp_path / "1", base, seed=7)
    with pytest.raises(ModelUnavailable, match="has changed since it was loaded"):
        registry.find("step-1")


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ({"model": "gpt-5"}, 404, "no model 'gpt-5'; this server has 'local/tiny', 'first'"),
        ({"max_tokens": -1}, 400, "max_tokens must not be negative"),
        ({"temperature": -0.5}, 400, "temperature must be between 0 and 100"),
        ({"response_format": {"type": "json_schema"}}, 400, "format 'json_schema' is not"),
        ({"tools": [{"type": "function"}], "tool_choice": "required"}, 400, "cannot be forced"),
        ({"messages": []}, 400, "The request has no messages"),
        ({"messages": [{"role": "king", "content": ""}]}, 400, "no role 'king'"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            400,
            "reads only text, not 'image_url'",
        ),
        ({"messages": "hi"}, 400, r"The request is malformed: Expected `array`.*messages"),
        (
            {"messages": [{"role": "user", "content": "x" * 600}]},
            400,
            r"has 6\d\d tokens; the context",
        ),
        ({"n": 25}, 429, "0 requests are already waiting"),
    ],
)
def test_what_cannot_be_served_is_named(
    server: PolicyServer, given: dict[str, Any], status: int, said: str
) -> None:
    import re

    answer = httpx2.post(
        f"{server.base_url}/chat/completions",
        json={"model": "tiny", "messages": HI, **given},
        headers={"authorization": f"Bearer {server.key}"},
    )
    assert answer.status_code == status
    assert re.search(said, answer.json()["error"]["message"])
    assert ("retry-after" in answer.headers) == (status == 429)


def test_without_the_key_and_from_web_pages_nothing_is_answered(server: PolicyServer) -> None:
    url = f"{server.base_url}/models"
    assert httpx2.get(url).status_code == 401
    page = {"authorization": f"Bearer {server.key}", "origin": "http://evil.example"}
    assert httpx2.get(url, headers=page).status_code == 403


def test_a_client_that_leaves_frees_its_place(server: PolicyServer, client: OpenAI) -> None:
    given: dict[str, Any] = {"max_tokens": 480, "extra_body": {"ignore_eos": True}}
    for _ in range(30):  # more than slots and queue
        with client.chat.completions.create(
            model="tiny", messages=HI, stream=True, **given
        ) as stream:
            next(iter(stream))
    assert ask(client)["choices"][0]["finish_reason"] == "length"


def test_completions_take_texts_and_ids(client: OpenAI) -> None:
    options: dict[str, Any] = {"model": "tiny", "max_tokens": 5, "seed": 3}
    extra = {"return_token_ids": True}
    text = client.completions.create(prompt="ab", extra_body=extra, **options).model_dump()
    ids = text["choices"][0]["prompt_token_ids"]
    same = client.completions.create(prompt=ids, extra_body=extra, **options).model_dump()
    assert same["choices"][0]["token_ids"] == text["choices"][0]["token_ids"]
    both = client.completions.create(prompt=[ids, ids], n=2, **options)
    assert both.usage is not None
    assert (both.usage.prompt_tokens, both.usage.completion_tokens) == (2 * len(ids), 20)
    stream = client.completions.create(prompt=[ids, ids], stream=True, extra_body=extra, **options)
    found: dict[int, list[int]] = {0: [], 1: []}
    for chunk in stream:
        for choice in chunk.model_dump()["choices"]:
            found[choice["index"]] += choice["token_ids"]
    assert found[0] == found[1] == text["choices"][0]["token_ids"]


def test_it_ends_with_a_parent_that_was_killed(folder: Path) -> None:
    program = f"""
import msgspec, time
from ratchet.models.policy import PolicyServer
server = PolicyServer({str(folder)!r})
server.settings = msgspec.structs.replace(server.settings, linger_s=0.0)
with server:
    print(server.pid, flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    psutil.wait_procs([child], timeout=60)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_what_cannot_be_served_ends_the_start_with_its_own_words(
    folder: Path, adapters: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(ModelUnavailable, match="no model 'nowhere'"), PolicyServer("nowhere"):
        pass
    expected = r"(?s)could not be loaded.*There is no adapter in .*/absent"
    missing = {"one": tmp_path / "absent"}
    with pytest.raises(ModelUnavailable, match=expected), PolicyServer(folder, adapters=missing):
        pass


def test_the_command_serves_a_folder_with_adapters(folder: Path, adapters: list[Path]) -> None:
    command = [sys.executable, "-m", "ratchet", "model", str(folder), "--json", "--port", "0"]
    command += ["--adapter", f"policy={adapters[0]}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        ready = json.loads(running.stdout.readline())
        listed = httpx2.get(f"{ready['url']}/models").json()["data"]
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    assert ready["model"] == "local/tiny"
    assert [one["id"] for one in listed] == ["local/tiny", "policy"]
    assert listed[1]["version"] == adapter_hash(adapters[0])


def test_the_small_model_says_what_llama_cpp_says_of_the_same_file(
    local_model: LocalModel,
) -> None:
    require_model()
    questions = ["What is the capital of France?", "Count from 1 to 9.", "Name three colours."]
    given: dict[str, Any] = {"temperature": 0, "max_tokens": 12, "logprobs": True, "n": 1}
    gaps: list[float] = []
    with (
        PolicyServer("smollm2", context=512) as ours,
        OpenAI(base_url=ours.base_url, api_key=ours.key, timeout=300) as here,
        OpenAI(base_url=local_model.base_url, api_key=local_model.key, timeout=300) as there,
    ):
        for question in questions:
            messages: Any = [{"role": "user", "content": question}]
            one, other = (
                client.chat.completions.create(
                    model="local/smollm2", messages=messages, **given
                ).choices[0]
                for client in (here, there)
            )
            assert one.logprobs is not None
            assert other.logprobs is not None
            pairs = zip(one.logprobs.content or [], other.logprobs.content or [], strict=False)
            for mine, theirs in pairs:
                if mine.token != theirs.token:
                    break  # llama.cpp rounds what it multiplies to 8 bits
                gaps.append(abs(mine.logprob - theirs.logprob))
    assert len(gaps) > 18
    assert max(gaps) < 0.5
    assert sum(gaps) / len(gaps) < 0.1
