"""Upstreams: the configured providers, and the routing of calls to them."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from ratchet.llm import provider_by_name
from ratchet.observe.model_apis import DialectName
from ratchet.types import ConfigError
from ratchet.worker.environment import BASE_URLS, dialect_of, operation_path


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
    """Maximum number of concurrent calls; further ones wait."""
    retries: int = 0
    """Maximum number of retries of a call that failed before its response began."""
    adapters: str = ""
    """Folder in which the upstream finds the project's adapters; empty for the project's own, which
    an upstream on this machine can read.
    """


_PROVIDERS_OWN = (
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
    Upstream(name="ollama", dialect="ollama", base_url="http://127.0.0.1:11434"),
    Upstream(
        name="gemini",
        dialect="gemini",
        base_url="https://generativelanguage.googleapis.com",
        key_env="GEMINI_API_KEY",
    ),
)

_KEYS = (
    *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", BEARER_KEY := "ANTHROPIC_AUTH_TOKEN"),
    *("GEMINI_API_KEY", "GOOGLE_API_KEY"),
)
"""Variables that the providers' libraries read. Anthropic's second is sent as a bearer token."""


def standard_upstreams(
    environ: Mapping[str, str] = MappingProxyType({}),
    *,
    own: tuple[str, int] | None = None,
    base_urls: Iterable[str] = (),
    keys: Iterable[str] = (),
) -> tuple[Upstream, ...]:
    """The default upstreams of a server, from the environment.

    Args:
        environ: Environment that an agent would have without the gateway.
        own: Host and port of the server, whose gateway is not an upstream of its own.
        base_urls: Further variables with a base URL, which precede the libraries'.
        keys: Further variables with a key, which precede the libraries'.

    Raises:
        ConfigError: A variable contains no address.
    """
    upstreams = []
    for provider in _PROVIDERS_OWN:
        dialect = provider.dialect
        of_dialect = [name for name in (*base_urls, *BASE_URLS) if dialect_of(name) == dialect]
        for variable in of_dialect:
            base_url = environ.get(variable, "").strip().rstrip("/")
            if base_url and not _is_gateway(base_url, own, variable):
                operation = operation_path(base_url)
                base_url = base_url.removesuffix(f"/{operation}") if operation else base_url
                # Anthropic's libraries add the version themselves.
                version = "/v1" if dialect == "anthropic" and not operation else ""
                # A model server of one's own may need no key.
                provider = replace(provider, base_url=base_url + version, key_env="")
                break
        for variable in (*keys, *_KEYS):
            if dialect_of(variable) == dialect and environ.get(variable, "").strip():
                provider = replace(provider, key_env=variable)
                break
        upstreams.append(provider)
    return tuple(upstreams)


def _is_gateway(url: str, own: tuple[str, int] | None, variable: str) -> bool:
    """Whether a URL is that of the gateway at the address `own`."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or any(map(str.isspace, url)):
        raise ConfigError(
            f"The value of {variable} is not the address of a model provider.",
            hint="Set it to an address such as http://localhost:4000/v1, or unset it.",
        )
    return own is not None and _same_place(host, port, own) and parts.path.startswith("/gateway/")


def check_upstreams(upstreams: Iterable[Upstream], own: tuple[str, int]) -> None:
    """Check that no upstream is the server itself.

    Args:
        upstreams: The upstreams.
        own: Host and port of the server.

    Raises:
        ConfigError: One is.
    """
    for upstream in upstreams:
        parts = urlsplit(upstream.base_url)
        if parts.hostname and _same_place(parts.hostname, parts.port, own):
            raise ConfigError(
                f"The model at {upstream.base_url} has the address of this server itself.",
                hint="Give the server another port: ratchet serve --port, or [server] port in"
                " ratchet.toml. A variable such as OPENAI_BASE_URL names this address for the "
                "model.",
            )


def _same_place(host: str, port: int | None, own: tuple[str, int]) -> bool:
    same_host = host == own[0] or (is_loopback(host) and (is_loopback(own[0]) or own[0] in _ANY))
    return port == own[1] and same_host


_ANY = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


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
    return _host_at(upstream.base_url)


@lru_cache(256)
def _host_at(url: str) -> str:
    return urlsplit(url).hostname or ""


_OWN_HOSTS = frozenset(host for host in map(host_of, _PROVIDERS_OWN) if host.startswith("api."))
"""Hosts of OpenAI and Anthropic."""


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def choose_upstream(
    upstreams: Sequence[Upstream],
    dialect: str,
    requested: str | None,
    others: Collection[str] = (),
) -> tuple[Upstream, str | None] | None:
    """Select the upstream of a call, and the model name to send.

    An upstream whose `models` matches the requested model is preferred: one of the dialect before
    others, then the longest match. Otherwise it is the first of the dialect, with the name
    unchanged, unless that is a provider that cannot have the model.

    Args:
        upstreams: In the order of the configuration.
        dialect: API dialect of the client.
        requested: The requested model, None when there is none.
        others: Dialects that the call can be translated into.

    Returns:
        None when no upstream can take the call.
    """
    compatible = [upstream for upstream in upstreams if upstream.dialect == dialect]
    first = compatible[0] if compatible else None
    if requested is not None:
        mapped = _best_mapped(compatible, requested)
        if mapped is not None:
            return mapped
        translated = [upstream for upstream in upstreams if upstream.dialect in others]
        mapped = _best_mapped(translated, requested)
        if mapped is not None:
            return mapped
        elsewhere = provider_elsewhere(translated, first, requested)
        if elsewhere is not None:
            return elsewhere, requested
    return None if first is None else (first, requested)


def provider_elsewhere(
    translated: Sequence[Upstream], upstream: Upstream | None, requested: str
) -> Upstream | None:
    """Where to send a call for a model of another provider.

    Model servers and routers of people's own may have any model: calls to them stay.

    Args:
        translated: Upstreams that the call can be translated for.
        upstream: Where it would go; None for nowhere.
        requested: The requested model.
    """
    if not translated or (upstream is not None and not is_providers_own(upstream)):
        return None
    provider = provider_by_name(requested)
    return next((other for other in translated if other.dialect == provider), None)


def is_providers_own(upstream: Upstream) -> bool:
    """Whether an upstream is a provider itself, which has only its own models."""
    return _host_at(upstream.base_url) in _OWN_HOSTS


def _best_mapped(upstreams: Sequence[Upstream], requested: str) -> tuple[Upstream, str] | None:
    """The upstream whose `models` matches best, and the name to send."""
    best: tuple[int, Upstream, str] | None = None
    for upstream in upstreams:
        fit = _mapped(upstream.models.items(), requested) if upstream.models else None
        if fit and (best is None or fit[0] > best[0]):
            best = (fit[0], upstream, fit[1])
    return None if best is None else best[1:]


def _mapped(models: Iterable[tuple[str, str]], requested: str) -> tuple[int, str] | None:
    """Length of the best match of a model map (longer is better), and the name to send."""
    best: tuple[int, str] | None = None
    for pattern, sent in models:
        if pattern == requested:
            return len(requested) + 1, sent
        if pattern.endswith("*") and requested.startswith(pattern[:-1]):
            fit = len(pattern) - 1
            if best is None or fit > best[0]:
                suffix = requested[fit:]
                best = (fit, f"{sent[:-1]}{suffix}" if sent.endswith("*") else sent)
    return best
