"""Hosted services by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from ratchet.types import ConfigError
from ratchet.weights.hosted.fireworks_api import FireworksService
from ratchet.weights.hosted.openai_api import OpenAIService
from ratchet.weights.hosted.rest import Rest
from ratchet.weights.hosted.service import HostedService
from ratchet.weights.hosted.together_api import TogetherService


class HostedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where to train; empty fields take what is usual for the provider."""

    provider: str = "openai"
    base_url: str = ""
    key_env: str = ""
    """Environment variable of the key."""
    account: str = ""
    """Fireworks' account id."""
    timeout_s: float = 60.0
    """Seconds for one response."""


class Provider(NamedTuple):
    """A hosted service that is known by name."""

    base_url: str
    key_env: str
    connect: Callable[[HostedSettings, str, str], HostedService]
    """Takes the settings, the address and the key."""


SERVICES: dict[str, Provider] = {
    "openai": Provider(
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        lambda settings, url, key: OpenAIService(url, key, timeout_s=settings.timeout_s),
    ),
    "together": Provider(
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
        lambda settings, url, key: TogetherService(Rest(url, key, timeout_s=settings.timeout_s)),
    ),
    "fireworks": Provider(
        "https://api.fireworks.ai/v1",
        "FIREWORKS_API_KEY",
        lambda settings, url, key: FireworksService(
            Rest(url, key, timeout_s=settings.timeout_s), settings.account
        ),
    ),
}
"""Provider by name."""


def address_of(settings: HostedSettings) -> str:
    """The service's address."""
    return (settings.base_url or SERVICES[settings.provider].base_url).rstrip("/")


def connect(settings: HostedSettings, environ: Mapping[str, str]) -> HostedService:
    """The service that settings name, with the key from the environment.

    Raises:
        ConfigError: The variable of the key is not set.
    """
    provider = SERVICES[settings.provider]
    variable = settings.key_env or provider.key_env
    key = environ.get(variable, "").strip()
    if not key:
        raise ConfigError(
            f"The key of {settings.provider} is missing: {variable} is not set.",
            hint="Set it, or name another variable: key_env under [train] in ratchet.toml.",
        )
    return provider.connect(settings, address_of(settings), key)
