"""Upstreams: the providers behind the gateway, and which of them a call goes to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

DialectName: TypeAlias = Literal["openai", "anthropic"]


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that calls are relayed to."""

    name: str
    dialect: DialectName
    base_url: str
    """With its version, such as https://api.openai.com/v1."""
    key_env: str = ""
    """Environment variable of the server that holds the provider's key."""
    models: dict[str, str] = {}
    """Asked-for name to the name that is sent. A trailing `*` in the asked-for name matches the
    rest, and a trailing `*` in the name that is sent stands for what it matched."""
    timeout_s: float = 600.0
    """How long it may send nothing, in seconds."""
    concurrency: int = 256
    """Calls at once; more of them wait."""
    retries: int = 0
    """How often a call is tried again that failed before its answer began."""


STANDARD = (
    Upstream(
        name="openai",
        dialect="openai",
        base_url="https://api.openai.com/v1",
        key_env="OPENAI_API_KEY",
    ),
    Upstream(
        name="anthropic",
        dialect="anthropic",
        base_url="https://api.anthropic.com/v1",
        key_env="ANTHROPIC_API_KEY",
    ),
)
"""The upstreams of a server that is told of none."""

# Names that OpenTelemetry's `gen_ai.provider.name` gives to providers, by the end of their host.
_PROVIDERS = {
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "amazonaws.com": "aws.bedrock",
    "api.cohere.com": "cohere",
    "api.deepseek.com": "deepseek",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
}


def provider_of(upstream: Upstream) -> str:
    """The provider's name in spans; a host that nobody knows is called after its dialect."""
    host = host_of(upstream)
    for ending, name in _PROVIDERS.items():
        if host == ending or host.endswith(f".{ending}"):
            return name
    return upstream.dialect


def host_of(upstream: Upstream) -> str:
    """The host of an upstream's address, without the port."""
    return urlsplit(upstream.base_url).hostname or ""


def choose_upstream(
    upstreams: Sequence[Upstream], dialect: str, requested: str | None
) -> tuple[Upstream, str | None] | None:
    """The upstream of a call, and the model's name to send.

    One whose `models` names the asked-for model wins, a longer name over a shorter one; else the
    first of the dialect, with the name unchanged.

    Args:
        upstreams: In the order of the configuration.
        dialect: What the client speaks.
        requested: The model that it asks for, None when it names none.

    Returns:
        None when nobody speaks the dialect.
    """
    speaking = [each for each in upstreams if each.dialect == dialect]
    if not speaking:
        return None
    if requested is not None:
        best: tuple[int, Upstream, str] | None = None
        for each in speaking:
            found = _mapped(each.models.items(), requested)
            if found and (best is None or found[0] > best[0]):
                best = (found[0], each, found[1])
        if best is not None:
            return best[1], best[2]
    return speaking[0], requested


def _mapped(models: Iterable[tuple[str, str]], requested: str) -> tuple[int, str] | None:
    """How well a model map knows a name (more is better), and the name to send."""
    best: tuple[int, str] | None = None
    for pattern, sent in models:
        if pattern == requested:
            return len(requested) + 1, sent
        if pattern.endswith("*") and requested.startswith(pattern[:-1]):
            fit = len(pattern) - 1
            if best is None or fit > best[0]:
                rest = requested[fit:]
                best = (fit, f"{sent[:-1]}{rest}" if sent.endswith("*") else sent)
    return best
