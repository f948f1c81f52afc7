"""Hosted services by name."""

from __future__ import annotations

from collections.abc import Mapping

from ratchet._plugins import load_plugin
from ratchet.types import ConfigError
from ratchet.weights.hosted.service import HostedProvider, HostedService, HostedSettings

PROVIDERS = "ratchet.hosted_training"
"""Entry-point group through which packages add providers."""


def provider_of(settings: HostedSettings) -> HostedProvider:
    """The provider that the settings name.

    Raises:
        ConfigError: There is no provider of that name, or it cannot be loaded.
    """
    provider: HostedProvider = load_plugin(
        PROVIDERS,
        settings.provider,
        "train.provider",
        is_usable=lambda plugin: isinstance(plugin, HostedProvider),
    )
    return provider


def address_of(settings: HostedSettings) -> str:
    """The service's address.

    Raises:
        ConfigError: As `provider_of`.
    """
    return (settings.base_url or provider_of(settings).base_url).rstrip("/")


def connect(settings: HostedSettings, environ: Mapping[str, str]) -> HostedService:
    """The service that the settings name, with the key from the environment.

    Raises:
        ConfigError: The variable of the key is not set; or as `provider_of`.
    """
    provider = provider_of(settings)
    variable = settings.key_env or provider.key_env
    key = environ.get(variable, "").strip()
    if not key:
        raise ConfigError(
            f"The key for {settings.provider} is missing: {variable} is not set.",
            hint="Set it, or name another variable: key_env under [train] in ratchet.toml.",
        )
    return provider.connect(settings, address_of(settings), key)
