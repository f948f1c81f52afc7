"""Sessions of the dashboard: a key in a cookie, protected from use by other sites."""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from ratchet._asgi import Headers
from ratchet.server.http_problems import HttpProblem

SECURE_COOKIE, PLAIN_COOKIE = "__Host-ratchet", "ratchet_session"
"""Names of the cookie: over HTTPS, and over plain HTTP, where browsers refuse the first."""

PERSON = "login:"
"""Prefix of the name of a key that is a person's session with a provider."""

SESSION_LIFETIME_S = 30 * 86_400
"""Seconds after which a browser forgets the cookie."""

OWN_PAGE_HEADER = b"x-ratchet-dashboard"
"""A header that other sites' pages can send only after a CORS preflight, which is refused."""

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def cookie_key(headers: Headers) -> bytes:
    """The key in a request's cookie; empty when there is none."""
    for name, value in headers:
        if name == b"cookie":
            try:
                cookies = SimpleCookie(value.decode("latin-1"))
            except CookieError:
                continue
            for wanted in (SECURE_COOKIE, PLAIN_COOKIE):
                if wanted in cookies:
                    return cookies[wanted].value.encode("latin-1", "replace")
    return b""


def check_own_page(method: str, headers: Headers) -> None:
    """Refuse a change that a page of another origin requests in a person's name.

    A browser adds the cookie to whatever a page sends here. So a request with a cookie that may
    change something must carry the header that only our page sends, and come from our own origin.

    Args:
        method: Method of the request.
        headers: Its headers.

    Raises:
        HttpProblem: It does not (403).
    """
    if method in _SAFE_METHODS:
        return
    by_name = dict(headers)
    origin = by_name.get(b"origin", b"").decode("latin-1").lower()
    hosts = {by_name.get(name, b"").decode("latin-1").lower() for name in _HOSTS} - {""}
    own = origin.partition("://")[2] in hosts
    if OWN_PAGE_HEADER not in by_name or not own:
        raise HttpProblem(
            403,
            "A change with the dashboard's cookie must come from the dashboard's own page.",
            hint="Programs send a key: 'Authorization: Bearer rk_…'.",
        )


def set_cookie(scope: Mapping[str, Any], key: str, lasts_s: int = SESSION_LIFETIME_S) -> str:
    """Header that stores a key in the browser, or deletes it if the key is empty."""
    secure = _is_https(scope)
    name = SECURE_COOKIE if secure else PLAIN_COOKIE
    parts = [f"{name}={key}", "Path=/", "HttpOnly", "SameSite=Lax"]
    parts.append(f"Max-Age={lasts_s if key else 0}")
    if secure:
        parts.append("Secure")
    return "; ".join(parts)


_HOSTS = (b"host", b"x-forwarded-host")


def _is_https(scope: Mapping[str, Any]) -> bool:
    """Whether the browser uses HTTPS, with this server or with a proxy in front of it."""
    forwarded = dict(scope["headers"]).get(b"x-forwarded-proto", b"")
    return scope.get("scheme") == "https" or bytes(forwarded).strip().lower() == b"https"
