"""Imports of packages that an extra installs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ratchet.types.errors import ConfigError


@contextmanager
def extra(name: str, purpose: str) -> Iterator[None]:
    """Import packages of an extra in this context.

    Args:
        name: The extra's name.
        purpose: What needs them, as the beginning of a sentence.

    Raises:
        ConfigError: One is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{purpose} needs the package {error.name}, which is not installed.",
            hint=f"Install it: pip install 'agent-ratchet[{name}]'.",
        ) from None
