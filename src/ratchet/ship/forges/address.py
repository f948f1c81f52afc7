"""Addresses of git remotes: which forge they belong to, and where its API is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from ratchet.types import ConfigError

ForgeName: TypeAlias = Literal["github", "gitlab"]

_SCP = re.compile(r"(?:[^@/:\s]+@)?(?P<host>\[[0-9A-Fa-f:]+\]|[^/:@\s]+):(?P<path>[^\s]+)")
_SSH_HOSTS = {"ssh.github.com": "github.com", "altssh.gitlab.com": "gitlab.com"}
"""Hosts that offer ssh on port 443, and the host of their pages."""


@dataclass(frozen=True)
class RemoteAddress:
    """The parts of a remote's URL, without user, password and ssh port."""

    host: str
    """In lower case."""
    repository: str
    """OWNER/NAME, or GROUP/SUBGROUP/NAME."""
    web: str
    """Scheme, host and port of the forge's pages."""


def remote_address(url: str) -> RemoteAddress | None:
    """Read a remote's URL: `https://`, `http://`, `ssh://`, `git://`, or `user@host:path`.

    Returns:
        None for a path or a `file://` URL, which belongs to no forge.
    """
    if "://" in url:
        try:
            parts = urlsplit(url.removeprefix("git+"))
            host, port = parts.hostname or "", parts.port
        except ValueError:
            return None
        if parts.scheme not in ("https", "http", "ssh", "git") or not host:
            return None
        path = parts.path
    else:
        # git takes a colon after a slash for part of a path.
        match = _SCP.fullmatch(url)
        if match is None or len(match["host"]) == 1:
            return None
        parts, host, port, path = None, match["host"].strip("[]").lower(), None, match["path"]
    host = _SSH_HOSTS.get(host, host)
    repository = path.strip("/").removesuffix(".git").rstrip("/")
    if not repository:
        return None
    web_host = f"[{host}]" if ":" in host else host
    if parts is not None and parts.scheme in ("https", "http"):
        web = f"{parts.scheme}://{web_host}" + (f":{port}" if port else "")
    else:
        web = f"https://{web_host}"
    return RemoteAddress(host, repository, web)


def without_credentials(text: str) -> str:
    """Text in which user and password are removed from URLs."""
    return re.sub(r"(\w+://)[^/\s]*@", r"\1", text)


def forge_of(host: str) -> ForgeName | None:
    """The forge that a host name indicates; None if it indicates none."""
    if host == "github.com" or host.endswith(".ghe.com") or "github" in host.split("."):
        return "github"
    return "gitlab" if "gitlab" in host.split(".") else None


def api_url_of(forge: ForgeName, address: RemoteAddress) -> str:
    """Address of the forge's REST API."""
    if forge == "gitlab":
        return f"{address.web}/api/v4"
    if address.host == "github.com":
        return "https://api.github.com"
    if address.host.endswith(".ghe.com"):
        return f"https://api.{address.host}"
    return f"{address.web}/api/v3"


def check_api_url(url: str) -> None:
    """Check that a token may be sent to an address.

    Raises:
        ConfigError: It is plain HTTP to another machine.
    """
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise ConfigError(
            f"The forge's API at {without_credentials(url)} is not encrypted, and would be sent a "
            "token.",
            hint="Set api_url under [ship] to its https:// address.",
        )
