"""The address of a server and the key for it: where they come from, and how they may look."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import SplitResult, urlsplit

import msgspec

from ratchet.types import ConfigError

URL_VARIABLE = "RATCHET_URL"
KEY_VARIABLE = "RATCHET_KEY"


class ServerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server is. The key stays out of what is printed of it."""

    url: str
    """Without a slash at its end."""
    loopback: bool


class ClientKey(msgspec.Struct, frozen=True):
    """A key and where it came from."""

    secret: str
    origin: str
    """For errors, such as RATCHET_KEY."""

    def __repr__(self) -> str:
        return f"<key of {self.origin}>"


def is_server(url: str) -> bool:
    """Whether a URL names a server, not a database."""
    return url.lower().startswith(("http://", "https://"))


def address_of(url: str | None) -> ServerAddress:
    """Check the address of a server, RATCHET_URL when none is given.

    Raises:
        ConfigError: There is none, or it is not of the form http://HOST:PORT.
    """
    origin = "The address" if url else URL_VARIABLE
    given = (url or os.environ.get(URL_VARIABLE, "")).strip()
    form = "Write it as http://HOST:PORT or https://HOST."
    if not given:
        raise ConfigError(
            "No server is named.", hint=f"Set {URL_VARIABLE}, such as http://127.0.0.1:8765."
        )
    try:
        parts: SplitResult = urlsplit(given)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigError(f"{origin} of the server is not a URL: {given!r}.", hint=form) from None
    if parts.username or parts.password:
        # Not repeated: it holds a secret.
        raise ConfigError(
            f"{origin} of the server holds a user or password.",
            hint=f"Leave them out; keys go into {KEY_VARIABLE}.",
        )
    printable = given.isprintable() and " " not in given
    if parts.scheme not in ("http", "https") or not host or not printable or port == 0:
        raise ConfigError(f"{origin} of the server is not usable: {given!r}.", hint=form)
    if parts.query or parts.fragment:
        raise ConfigError(f"{origin} of the server ends in a query: {given!r}.", hint=form)
    return ServerAddress(url=given.rstrip("/"), loopback=_is_loopback(host))


def key_of(key: str | ClientKey | None) -> ClientKey | None:
    """Check a key, that of RATCHET_KEY when none is given.

    Raises:
        ConfigError: It holds what no header can.
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
            f"The key of {origin} holds spaces, line breaks or letters that no key has.",
            hint="Copy it anew, as `ratchet keys create` printed it.",
        )
    return ClientKey(secret, origin)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
