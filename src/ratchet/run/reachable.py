"""The hosts that a contained agent reaches without being allowed to: those of its model calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}
_OPENAI, _ANTHROPIC = "https://api.openai.com", "https://api.anthropic.com"


def model_hosts(environ: Mapping[str, str]) -> list[tuple[str, int]]:
    """Hosts that the providers' libraries call with these variables."""
    openai = environ.get("OPENAI_BASE_URL") or environ.get("OPENAI_API_BASE") or _OPENAI
    return hosts_of([openai, environ.get("ANTHROPIC_BASE_URL") or _ANTHROPIC])


def hosts_of(urls: Iterable[str]) -> list[tuple[str, int]]:
    """Hosts and ports of URLs; other texts have none."""
    places = set()
    for text in urls:
        try:
            url = urlsplit(text)
            port = url.port or _PORTS.get(url.scheme)
        except ValueError:
            continue
        if url.hostname and port:
            places.add(
                ("localhost" if url.hostname in ("127.0.0.1", "::1") else url.hostname, port)
            )
    return sorted(places)
