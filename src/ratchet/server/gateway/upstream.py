"""Upstreams: the configured providers, and the routing of calls to them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

import msgspec

from ratchet.observe.model_apis import DialectName


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that calls are relayed to."""

    name: str
    dialect: DialectName
    base_url: str
    """Including the version, such as https://api.openai.com/v1."""
    key_env: str = ""
    """Environment variable of the server that holds the provider's key."""
    models: dict[str, str] = {}
    """Maps requested model names to the names to send. A trailing `*` in the requested name matches
    any suffix, and a trailing `*` in the name to send stands for that suffix.
    """
    timeout_s: float = 600.0
    """Seconds without data after which a call fails."""
    concurrency: int = 256
    """Most concurrent calls; further ones wait."""
    retries: int = 0
    """Most retries of a call that failed before its response began."""
    adapters: str = ""
    """Folder in which the upstream finds the project's adapters; empty for the project's own, which
    an upstream on this machine can read.
    """


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
"""Upstreams of a server without configured ones."""

# Values of OpenTelemetry's `gen_ai.provider.name`, by suffix of the host.
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
    """Provider name in spans; for an unknown host the name of the dialect."""
    host = host_of(upstream)
    for ending, name in _PROVIDERS.items():
        if host == ending or host.endswith(f".{ending}"):
            return name
    return upstream.dialect


def host_of(upstream: Upstream) -> str:
    """Host of an upstream's URL, without the port."""
    return urlsplit(upstream.base_url).hostname or ""


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def choose_upstream(
    upstreams: Sequence[Upstream], dialect: str, requested: str | None
) -> tuple[Upstream, str | None] | None:
    """Select the upstream of a call, and the model name to send.

    An upstream whose `models` matches the requested model is preferred, the longest match first;
    otherwise the first of the dialect, with the name unchanged.

    Args:
        upstreams: In the order of the configuration.
        dialect: API dialect of the client.
        requested: The requested model, None when there is none.

    Returns:
        None when no upstream has the dialect.
    """
    compatible = [each for each in upstreams if each.dialect == dialect]
    if not compatible:
        return None
    if requested is not None:
        best: tuple[int, Upstream, str] | None = None
        for each in compatible:
            found = _mapped(each.models.items(), requested)
            if found and (best is None or found[0] > best[0]):
                best = (found[0], each, found[1])
        if best is not None:
            return best[1], best[2]
    return compatible[0], requested


def _mapped(models: Iterable[tuple[str, str]], requested: str) -> tuple[int, str] | None:
    """Length of the best match of a model map (longer is better), and the name to send."""
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
