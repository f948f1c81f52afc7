"""Login with an OpenID Connect provider, for people in a browser."""

from __future__ import annotations

import logging
import time
from http.cookies import CookieError, SimpleCookie
from typing import Annotated, Any
from urllib.parse import parse_qsl

from msgspec import Meta

from ratchet.server.access import Caller
from ratchet.server.api.fields import Request
from ratchet.server.http_problems import HttpProblem
from ratchet.server.oidc import PENDING_S, LoginRefused, OidcLogin, Person
from ratchet.server.routes import NO_SCOPES, Response, RouteGroup
from ratchet.server.services import Services
from ratchet.server.session import PERSON, set_cookie

group = RouteGroup("session")

COOKIE = "ratchet_login"
"""Cookie of a login that has begun."""

_log = logging.getLogger("ratchet")


class LoginQuery(Request, frozen=True, kw_only=True):
    """Where to return to."""

    target: Annotated[str, Meta(max_length=2000)] = "/"
    """Path of a page."""


@group.route("GET", "/v1/login/oidc", NO_SCOPES, status=303)
async def begin_login(server: Services, query: LoginQuery) -> Response:
    """Send the browser to the provider."""
    oidc = _oidc(server)
    try:
        address, cookie = await oidc.begin(query.target)
    except LoginRefused as refused:
        return _back(oidc, refused)
    return _moved(address, _cookie(oidc, cookie))


@group.route("GET", "/v1/login/oidc/callback", NO_SCOPES, status=303)
async def finish_login(server: Services, scope: dict[str, Any]) -> Response:
    """Handle the provider's redirect: the browser gets a session, or a page that says why not.

    Each session has its own key, which expires.
    """
    oidc = _oidc(server)
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    try:
        person, target = await oidc.finish(query, _cookie_of(scope))
    except LoginRefused as refused:
        return _back(oidc, refused)
    scopes = person.scopes(oidc.settings.allow)
    if not scopes:
        _audit(server, scope, person, Caller(), 403)
        _log.warning("%s logged in, but [server.oidc.allow] grants them no scope.", person.name)
        return _moved(f"{oidc.root_path}/?login=unknown")
    now = time.time()
    until = now + 3600 * oidc.settings.hours
    name = f"{PERSON}{person.name}"[:100]
    key, secret = await server.in_thread(server.store.keys.create, name, scopes, now, until)
    _audit(server, scope, person, Caller(key_id=key.id), 303)
    cookie_scope = {"scheme": "https", "headers": ()} if oidc.is_secure else scope
    return _moved(
        f"{oidc.root_path}{target}",
        set_cookie(cookie_scope, secret, round(3600 * oidc.settings.hours)),
    )


def _audit(
    server: Services, scope: dict[str, Any], person: Person, caller: Caller, status: int
) -> None:
    """Record who logged in, or tried to; the provider vouches for the name."""
    server.activity_log.audit(caller, {**scope, "path": person.name}, "log in", status)


def _oidc(server: Services) -> OidcLogin:
    if server.oidc is None:
        raise HttpProblem(404, "This server has no login provider; configure [server.oidc].")
    return server.oidc


def _back(oidc: OidcLogin, refused: LoginRefused) -> Response:
    _log.warning("A login failed: %s", refused.message)
    return _moved(f"{oidc.root_path}/?login={refused.cause}")


def _moved(address: str, cookie: str = "") -> Response:
    headers = {"location": address, "cache-control": "no-store"}
    return Response(None, 303, headers | ({"set-cookie": cookie} if cookie else {}))


def _cookie(oidc: OidcLogin, value: str) -> str:
    parts = [f"{COOKIE}={value}", f"Path={oidc.root_path}/v1/login", "HttpOnly", "SameSite=Lax"]
    return "; ".join([*parts, f"Max-Age={PENDING_S:.0f}", *(["Secure"] if oidc.is_secure else [])])


def _cookie_of(scope: dict[str, Any]) -> str:
    for name, value in scope["headers"]:
        if name == b"cookie":
            try:
                cookies = SimpleCookie(value.decode("latin-1"))
            except CookieError:
                continue
            if COOKIE in cookies:
                return cookies[COOKIE].value
    return ""
