"""Gemini's calls, whose model is named by their path."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from ratchet.server.gateway import Upstream
from tests.server.gateway.conftest import Site, messages
from tests.server.gateway.upstreams import StubUpstream, reply


@pytest.mark.parametrize("streams", [False, True])
def test_a_call_of_gemini_is_recorded_with_the_model_of_its_path(
    open_site: Callable[..., Site], upstream: StubUpstream, streams: bool
) -> None:
    used = {"promptTokenCount": 9, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}
    call = {"functionCall": {"name": "stock", "args": {"item": "cup"}}}
    parts = [{"text": "Hm.", "thought": True}, {"text": "We have "}, {"text": "cups."}, call]
    chunks: list[dict[str, Any]] = [
        {"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts
    ]
    end = {"finishReason": "STOP"}
    if streams:
        chunks.append({"candidates": [end], "usageMetadata": used, "modelVersion": "g-001"})
        answer = "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks).encode()
        upstream.script = lambda _, wire: wire.send(reply(answer, content_type="text/event-stream"))
    else:
        content = {"role": "model", "parts": parts}
        whole = {"candidates": [{"content": content, **end}], "usageMetadata": used}
        upstream.answers({**whole, "modelVersion": "g-001"})
    gemini = Upstream(
        name="g",
        dialect="gemini",
        base_url=upstream.url,
        key_env="GEMINI_API_KEY",
        models={"g": "gemini-flash"},
    )
    site = open_site(gemini, environ={"GEMINI_API_KEY": "g-key"})
    body = {
        "system_instruction": {"parts": [{"text": "You sell."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "A cup?"}]},
            {"role": "model", "parts": [call]},
            {"role": "user", "parts": [{"functionResponse": {"name": "stock", "response": {}}}]},
        ],
        "generationConfig": {"temperature": 0.5, "maxOutputTokens": 20},
        "tools": [{"functionDeclarations": [{"name": "stock", "parameters": {}}]}],
    }
    method = "streamGenerateContent" if streams else "generateContent"
    url = f"{site.url('bot', 'gemini').removesuffix('/v1')}/v1beta/models/g:{method}"
    assert httpx.post(url, json=body, params={"alt": "sse"}, trust_env=False).status_code == 200
    (seen,) = upstream.seen
    assert seen.json == body
    assert seen.target.endswith(f"/v1beta/models/gemini-flash:{method}?alt=sse")
    assert seen.header("x-goog-api-key") == "g-key"
    (span,) = site.spans(1)
    told = span.attributes
    assert (told["gen_ai.request.model"], told["gen_ai.response.model"]) == (
        "gemini-flash",
        "g-001",
    )
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (9, 5)
    assert (told["gen_ai.request.temperature"], told["gen_ai.request.max_tokens"]) == (0.5, 20)
    asked = messages(span, "gen_ai.input.messages")
    assert [message["role"] for message in asked] == ["system", "user", "assistant", "tool"]
    (said,) = messages(span, "gen_ai.output.messages")
    kinds = [part["type"] for part in said["parts"]]
    assert (kinds[0], kinds[-1]) == ("reasoning", "tool_call")
    assert "".join(part["content"] for part in said["parts"][1:-1]) == "We have cups."
    assert messages(span, "gen_ai.tool.definitions")[0]["name"] == "stock"


@pytest.mark.parametrize("version", ["v1", "v1beta"])
@pytest.mark.parametrize("asked", ["embedContent", "batchEmbedContents", "countTokens"])
def test_embeddings_and_token_counts_of_gemini_pass_through_unrecorded(
    open_site: Callable[..., Site], upstream: StubUpstream, version: str, asked: str
) -> None:
    upstream.answers({"embedding": {"values": [0.5]}})
    gemini = Upstream(name="g", dialect="gemini", base_url=upstream.url, key_env="GEMINI_API_KEY")
    site = open_site(gemini, environ={"GEMINI_API_KEY": "g-key"})
    path = f"/{version}/models/text-embedding-004:{asked}"
    url = f"{site.url('bot', 'gemini').removesuffix('/v1')}{path}"
    answer = httpx.post(url, json={"content": {"parts": [{"text": "A cup?"}]}}, trust_env=False)
    assert answer.json() == {"embedding": {"values": [0.5]}}
    (seen,) = upstream.seen
    assert seen.target.endswith(path)
    assert seen.header("x-goog-api-key") == "g-key"
    site.spans(0)
