"""Server address and API key: from arguments or the environment, validated."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import SplitResult, urlsplit

import msgspec

from ratchet.types import ConfigError

URL_VARIABLE = "RATCHET_URL"
KEY_VARIABLE = "RATCHET_KEY"


class ServerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Address of a server."""

    url: str
    """Without a trailing slash."""
    loopback: bool


class ClientKey(msgspec.Struct, frozen=True):
    """An API key and its origin. The key is not printed."""

    secret: str
    origin: str
    """Where the key comes from, for error messages: for example RATCHET_KEY."""

    def __repr__(self) -> str:
        return f"<key of {self.origin}>"


def is_server(url: str) -> bool:
    """Whether a URL belongs to a server rather than a database."""
    return url.lower().startswith(("http://", "https://"))


def address_of(url: str | None) -> ServerAddress:
    """Validate the address of a server; by default the one in RATCHET_URL.

    Raises:
        ConfigError: It is missing, or not of the form http://HOST:PORT.
    """
    origin = "The server's address" if url else URL_VARIABLE
    address = (url or os.environ.get(URL_VARIABLE, "")).strip()
    form = "Write it as http://HOST:PORT or https://HOST."
    if not address:
        raise ConfigError(
            "No server is configured.",
            hint=f"Set {URL_VARIABLE}, for example to http://127.0.0.1:8765.",
        )
    try:
        parts: SplitResult = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigError(f"{origin} is not a URL: {address!r}.", hint=form) from None
    if parts.username or parts.password:
        # The address is not shown, since it has a secret.
        raise ConfigError(
            f"{origin} contains a user or password.",
            hint=f"Remove them; set {KEY_VARIABLE} to a key instead.",
        )
    printable = address.isprintable() and " " not in address
    if parts.scheme not in ("http", "https") or not host or not printable or port == 0:
        raise ConfigError(f"{origin} is not usable: {address!r}.", hint=form)
    if parts.query or parts.fragment:
        raise ConfigError(f"{origin} must not contain a query: {address!r}.", hint=form)
    return ServerAddress(url=address.rstrip("/"), loopback=_is_loopback(host))


def key_of(key: str | ClientKey | None) -> ClientKey | None:
    """Validate a key; by default the one in RATCHET_KEY.

    Raises:
        ConfigError: It contains characters that a header cannot.
    """
    if isinstance(key, ClientKey):
        secret, origin = key.secret.strip(), key.origin
    elif key is not None:
        secret, origin = key.strip(), "the call"
    else:
        secret, origin = os.environ.get(KEY_VARIABLE, "").strip(), KEY_VARIABLE
    if not secret:
        return None
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ConfigError(
            f"The key from {origin} contains spaces, line breaks or characters not allowed "
            "in keys.",
            hint="Copy it again from the output of `ratchet keys create`.",
        )
    return ClientKey(secret, origin)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
