"""Calls that name the address that their client would go to without the gateway."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from ratchet.types import Span
from tests.server.gateway.conftest import Site, both, messages
from tests.server.gateway.upstreams import StubUpstream, reply

ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture
def home() -> StubUpstream:
    """The host that the client calls by itself."""
    return StubUpstream(lambda seen, wire: wire.send(reply({"choices": []})))


def ask(site: Site, base_url: str, **headers: str) -> httpx.Response:
    return httpx.post(
        f"{site.url('bot')}/chat/completions?api-version=1",
        json=ASKED,
        headers={"x-ratchet-upstream": base_url, **headers},
        trust_env=False,
    )


def address(stub: StubUpstream) -> str:
    return f"http://127.0.0.1:{stub.port}/openai/deployments/fast"


def test_it_goes_there_with_the_clients_own_key(
    open_site: Callable[..., Site], upstream: StubUpstream, home: StubUpstream
) -> None:
    site = open_site(
        *both(upstream), hosts=[f"127.0.0.1:{home.port}"], environ={"OPENAI_API_KEY": "sk-owner"}
    )
    assert ask(site, address(home), authorization="Bearer gsk-1").status_code == 200
    assert ask(site, address(home), **{"api-key": "azure-1"}).status_code == 200
    assert ask(site, address(home)).status_code == 200
    assert not upstream.seen
    assert [seen.target for seen in home.seen] == 3 * [
        "/openai/deployments/fast/chat/completions?api-version=1"
    ]
    keys = [(seen.header("authorization"), seen.header("api-key")) for seen in home.seen]
    assert keys == [("Bearer gsk-1", None), (None, "azure-1"), (None, None)]
    assert {seen.header("x-ratchet-upstream") for seen in home.seen} == {None}
    spans = site.spans(3)
    assert {span.attributes["ratchet.upstream"] for span in spans} == {f"127.0.0.1:{home.port}"}


@pytest.mark.parametrize("own", ["ratchet", "ra_abc", "rk_abc"])
def test_the_owners_key_stands_where_the_client_has_the_gateways(
    open_site: Callable[..., Site], upstream: StubUpstream, home: StubUpstream, own: str
) -> None:
    site = open_site(
        *both(upstream), hosts=[f"127.0.0.1:{home.port}"], environ={"OPENAI_API_KEY": "sk-owner"}
    )
    assert ask(site, address(home), **{"api-key": own}).status_code == 200
    assert ask(site, address(home), authorization=f"Bearer {own}").status_code == 200
    keys = [(seen.header("authorization"), seen.header("api-key")) for seen in home.seen]
    assert keys == [(None, "sk-owner"), ("Bearer sk-owner", None)]


def test_another_host_is_refused_however_it_is_written(
    open_site: Callable[..., Site], upstream: StubUpstream, home: StubUpstream
) -> None:
    site = open_site(*both(upstream), hosts=["api.groq.com"])
    for base_url in (
        address(home),
        f"http://api.groq.com@127.0.0.1:{home.port}/v1",
        f"http://127.0.0.1:{home.port}/api.groq.com",
        f"http://127.0.0.1:{home.port}#api.groq.com",
        f"http://api.groq.com\\@127.0.0.1:{home.port}/v1",
        "file:///etc/passwd",
        "api.groq.com",
    ):
        assert ask(site, base_url).status_code == 403, base_url
    assert not home.seen
    assert not upstream.seen


def ask_ollama(
    open_site: Callable[..., Site], home: StubUpstream, path: str, asked: dict[str, object]
) -> tuple[Span, bytes]:
    """What is recorded of a call of Ollama's own API, and its answer."""
    site = open_site(hosts=[f"127.0.0.1:{home.port}"])
    headers = {"x-ratchet-upstream": f"http://127.0.0.1:{home.port}"}
    url = f"{site.url('bot', 'ollama')}{path}"
    answer = httpx.post(url, json={"model": "m", **asked}, headers=headers, trust_env=False)
    assert home.seen[0].target == path
    span = site.span()
    asked_in = messages(span, "gen_ai.input.messages")
    assert [message["role"] for message in asked_in] == ["system", "user"]
    return span, answer.content


def test_ollamas_lines_are_recorded_as_one_answer(
    open_site: Callable[..., Site], home: StubUpstream
) -> None:
    call = {"function": {"name": "find", "arguments": {"order": 4711}}}
    said = [{"content": "I"}, {"content": " look"}, {"content": "", "tool_calls": [call]}]
    lines = [{"message": {"role": "assistant", **each}, "done": False} for each in said]
    lines[-1] |= {"done": True, "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 4}
    text = "".join(json.dumps({"model": "m", **line}) + "\n" for line in lines).encode()
    home.answers(text, content_type="application/x-ndjson")
    span, answer = ask_ollama(
        open_site,
        home,
        "/api/chat",
        {
            "messages": [
                {"role": "system", "content": "You find orders."},
                {"role": "user", "content": "4711?"},
            ],
            "options": {"temperature": 0.5, "num_predict": 9},
        },
    )
    assert answer == text
    attributes = span.attributes
    assert span.status == "ok"
    assert "ratchet.recording.error" not in attributes
    [message] = messages(span, "gen_ai.output.messages")
    assert message["parts"] == [
        {"type": "text", "content": "I look"},
        {"type": "tool_call", "id": "", "name": "find", "arguments": {"order": 4711}},
    ]
    assert attributes["gen_ai.request.temperature"] == 0.5
    assert attributes["gen_ai.request.max_tokens"] == 9
    assert attributes["gen_ai.usage.input_tokens"] == 11
    assert attributes["gen_ai.usage.output_tokens"] == 4
    assert attributes["gen_ai.request.stream"] is True
    assert not attributes.get("ratchet.broken_off")


def test_a_generation_of_ollama_has_its_system_prompt(
    open_site: Callable[..., Site], home: StubUpstream
) -> None:
    home.answers({"model": "m", "response": "Yes.", "done": True, "eval_count": 2})
    asked = {"system": "Say yes.", "prompt": "Well?", "stream": False}
    span, _ = ask_ollama(open_site, home, "/api/generate", asked)
    [said] = messages(span, "gen_ai.output.messages")
    assert said["parts"] == [{"type": "text", "content": "Yes."}]
