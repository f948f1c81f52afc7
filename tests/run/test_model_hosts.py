"""Which calls are model calls to an agent's model hosts, and what they ask for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ratchet.run.model_hosts import ModelOperation, asked_url, operation_of
from ratchet.run.model_relay import RelayedRequest

HOSTS = ("api.groq.com", "localhost:11434")
CHAT: Any = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def request(path: str, body: Any = CHAT, method: str = "POST") -> RelayedRequest:
    return RelayedRequest(
        number=0,
        call="",
        method=method,
        url="",
        path=path,
        headers={},
        body=body if isinstance(body, bytes) else json.dumps(body).encode(),
    )


@pytest.mark.parametrize(
    ("url", "operation"),
    [
        (
            "https://api.groq.com/openai/v1/chat/completions",
            ("openai", "https://api.groq.com/openai/v1", "chat/completions"),
        ),
        (
            "https://me.openai.azure.com/openai/deployments/a/chat/completions?api-version=1",
            (
                "openai",
                "https://me.openai.azure.com/openai/deployments/a",
                "chat/completions?api-version=1",
            ),
        ),
        (
            "https://openrouter.ai/v1/messages",
            ("anthropic", "https://openrouter.ai/v1", "messages"),
        ),
        ("http://localhost:11434/api/chat", ("ollama", "http://localhost:11434", "api/chat")),
        (
            "http://localhost:11434/v1/embeddings",
            ("openai", "http://localhost:11434/v1", "embeddings"),
        ),
        (
            "https://generativelanguage.googleapis.com/v1beta/models/g:generateContent",
            (
                "gemini",
                "https://generativelanguage.googleapis.com/v1beta",
                "models/g:generateContent",
            ),
        ),
        ("https://generativelanguage.googleapis.com/v1beta/models/g:countTokens", None),
        ("https://api.cohere.com/v2/chat", None),
        ("https://api.example.com/notmessages", None),
    ],
)
def test_the_end_of_a_path_names_the_protocol(
    url: str, operation: tuple[Any, str, str] | None
) -> None:
    assert operation_of(url) == (None if operation is None else ModelOperation(*operation))


def test_a_model_call_to_a_model_host_is_passed_on() -> None:
    path = "/https/api.groq.com/openai/v1/chat/completions?a=1"
    assert asked_url(request(path), HOSTS) == "https://" + path.removeprefix("/https/")
    ollama = request("/http/localhost:11434/api/chat")
    assert asked_url(ollama, HOSTS) == "http://localhost:11434/api/chat"


@pytest.mark.parametrize(
    "refused",
    [
        request("/https/api.openai.com/v1/chat/completions"),
        request("/https/api.groq.com:8443/v1/chat/completions"),
        request("/https/api.groq.com.evil.example/v1/chat/completions"),
        request("/https/api.groq.com@evil.example/v1/chat/completions"),
        request("/https/evil.example/https/api.groq.com/v1/chat/completions"),
        request("/https/api.groq.com\\@evil.example/v1/chat/completions"),
        request("/file/api.groq.com/v1/chat/completions"),
        request("/https/api.groq.com/v1/chat/completions", method="GET"),
        request("/https/api.groq.com/v1/files", {"file": "secret"}),
        request("/https/api.groq.com/v1/chat/completions", b"not json"),
        request("/https/api.groq.com/v1/chat/completions", b"[1]"),
        request("/"),
    ],
    ids=lambda asked: f"{asked.method} {asked.path}",
)
def test_nothing_else_is(refused: RelayedRequest) -> None:
    assert asked_url(refused, HOSTS) == ""
