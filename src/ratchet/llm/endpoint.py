"""Resolves a model's name to an endpoint: address, name at the endpoint, and key."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from ratchet.llm.chat import KeyMissing
from ratchet.llm.ensemble import CoachModel
from ratchet.types import ConfigError

OPENAI_URL, OPENAI_KEY = "https://api.openai.com/v1", "OPENAI_API_KEY"

COMPATIBLE = {
    "anthropic": ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "gemini": ("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "ollama": ("http://localhost:11434/v1", ""),
    "openai": (OPENAI_URL, OPENAI_KEY),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "together": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "xai": ("https://api.x.ai/v1", "XAI_API_KEY"),
}
"""For each provider prefix of a model's name, as in `openrouter/qwen/qwen3-32b`: URL of the
OpenAI-compatible endpoint, and the key variable of the provider's own tools."""

NO_KEY = "none"
"""Placeholder for endpoints without a key, since the `openai` library requires one."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A model at an endpoint."""

    model: str
    """Name of the model at the endpoint."""
    base_url: str
    """URL of the endpoint; empty for litellm, which resolves it itself."""
    key: str
    key_env: str
    """Environment variable of the key, whether set or not."""
    through: str = "openai"
    """Client library: `openai` or `litellm`."""

    def __repr__(self) -> str:
        return f"Endpoint({self.model!r} at {self.shown})"

    @property
    def shown(self) -> str:
        """The endpoint, for display."""
        return self.base_url or "litellm"

    @property
    def host(self) -> str:
        """Host name of the endpoint."""
        return urlsplit(self.base_url).hostname or ""


def endpoint_of(model: CoachModel, environ: Mapping[str, str]) -> Endpoint:
    """Resolve a model's endpoint, with the key from the environment.

    Raises:
        ConfigError: The address is not a URL, or contains a password.
        KeyMissing: The endpoint needs a key, and there is none or none that can be one.
    """
    if model.name.startswith("litellm:"):
        return _by_litellm(model, model.name.removeprefix("litellm:"), environ)
    name, base_url, key_env = model.name, model.base_url, model.key_env
    provider, _, model_name = name.partition("/")
    if base_url is None and model_name:
        if provider not in COMPATIBLE:
            return _by_litellm(model, name, environ)
        name = model_name
        if provider != "openai":
            base_url, own_env = COMPATIBLE[provider]
            key_env = own_env if key_env is None else key_env
    base_url = base_url or environ.get("OPENAI_BASE_URL", "").strip() or OPENAI_URL
    base_url = valid_url(base_url)
    required = key_env is not None or base_url.rstrip("/") == OPENAI_URL
    key_env = OPENAI_KEY if key_env is None else key_env
    key = environ.get(key_env, "").strip() if key_env else ""
    if key_env and not key and required:
        raise _no_key(model, key_env, base_url)
    if not key.isascii() or any(c.isspace() or not c.isprintable() for c in key):
        raise KeyMissing(
            f"The key in {key_env} is not valid: it contains white space or a character outside "
            "ASCII.",
            hint="Set it again, without quotes or line breaks.",
        )
    return Endpoint(model=name, base_url=base_url, key=key or NO_KEY, key_env=key_env)


def valid_url(url: str) -> str:
    """Validate an endpoint's address and remove a trailing slash.

    Raises:
        ConfigError: It is not an http(s) URL, or contains a user, a password or a query.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(
            f"The coach's base_url {url.rpartition('@')[2]!r} is not a valid URL.",
            hint="Write it like http://localhost:8000/v1.",
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigError(
            f"The coach's base_url at {parts.hostname} has more than scheme, host and path.",
            hint="Leave out user, password and query; a key belongs in the variable that key_env "
            "names.",
        )
    return url.rstrip("/")


def _by_litellm(model: CoachModel, name: str, environ: Mapping[str, str]) -> Endpoint:
    key = environ.get(model.key_env, "").strip() if model.key_env else ""
    if model.key_env and not key:
        raise _no_key(model, model.key_env, name)
    base_url = valid_url(model.base_url) if model.base_url else ""
    return Endpoint(
        model=name, base_url=base_url, key=key, key_env=model.key_env or "", through="litellm"
    )


def _no_key(model: CoachModel, key_env: str, where: str) -> KeyMissing:
    return KeyMissing(
        f"There is no key for the coach's model {model.name!r} at {where}: the environment"
        f" variable {key_env} is not set.",
        hint=f"Set it (export {key_env}=…), or name the variable that holds the key under [coach]"
        " key_env in ratchet.toml.",
    )
