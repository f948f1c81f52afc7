"""Headers that a service wants with each request; $NAME in them stands for a variable."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ratchet.observe.redaction.fields import is_secret_name
from ratchet.types import ConfigError, InputError

MIN_SECRET = 8
"""Minimum length of a variable's value that is looked for in a header."""

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""A field name of RFC 9110."""

_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")

_OWN = re.compile(r"host|content-length|transfer-encoding|connection|traceparent|x-ratchet-.*")
"""Headers that Ratchet or the HTTP client sets."""


def check_header(name: str, value: str) -> None:
    """Check that a header can be sent.

    Raises:
        ConfigError: It cannot.
    """
    if not _NAME.fullmatch(name) or not value.isprintable():
        raise ConfigError(f"{name!r} cannot be a header, or its value has a line break.")
    if _OWN.fullmatch(name.lower()):
        raise ConfigError(f"The header {name} is set by Ratchet.")


def header_of(text: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """The name of a header and its value, as they may be written to a file.

    Of a secret, the variable is written that holds it.

    Args:
        text: `NAME: VALUE`.
        environ: The owner's variables.

    Raises:
        InputError: It is not a header, or it has a secret that no variable holds.
    """
    name, colon, value = (part.strip() for part in text.partition(":"))
    try:
        check_header(name, value)
    except ConfigError as error:
        raise InputError(f"--header: {error.message}") from None
    if not colon or not value:
        raise InputError(f'--header {name}: expected "NAME: VALUE".')
    is_key = is_secret_name(name) or name.lower().endswith("key")
    if _VARIABLE.search(value) or not is_key:
        return name, value
    scheme, space, secret = value.rpartition(" ")  # as in `Bearer KEY`
    for variable, held in environ.items():
        if len(held) >= MIN_SECRET and held in (secret, value):
            return name, f"${variable}" if held == value else f"{scheme}{space}${variable}"
    raise InputError(
        f"The value of the header {name} would be written to ratchet.toml, and may be a secret.",
        hint="Put it into a variable of the environment or of .env, and name that, in single "
        f"quotes: --header '{name}: $SERVICE_KEY'",
    )


def filled_headers(headers: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Headers with the values of their variables, and with names in lower case.

    Raises:
        ConfigError: Some variables are not set.
    """
    named = {m[1] or m[2] for value in headers.values() for m in _VARIABLE.finditer(value)}
    if unset := sorted(name for name in named if not environ.get(name)):
        raise ConfigError(
            f"Headers of the service name variables that are not set: {', '.join(unset)}.",
            hint="Set them in the environment or in .env.",
        )
    return {
        name.lower(): _VARIABLE.sub(lambda match: environ[match[1] or match[2]], value)
        for name, value in headers.items()
    }
