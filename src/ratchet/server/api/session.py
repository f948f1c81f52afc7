"""The session of a person in a browser: get it, log in, log out."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ratchet.server.access import Caller
from ratchet.server.agent_limits import NO_AGENT
from ratchet.server.api.fields import Request
from ratchet.server.routes import NO_SCOPES, Response, RouteGroup
from ratchet.server.services import Services
from ratchet.server.session import PERSON, check_own_page, set_cookie
from ratchet.types import SCOPES, Key, KeyScope

group = RouteGroup("session")


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Who is logged in, and the granted scopes."""

    login: Literal["open", "key"]
    """`open`: this server asks nobody for a key."""
    scopes: list[KeyScope]
    """Empty when nobody is logged in."""
    key_name: str = ""
    expires_at: float | None = None
    """Unix seconds; None when the key does not expire."""
    provider: str = ""
    """Name of the provider that people can log in with, at /v1/login/oidc; empty for none."""


class Login(Request, frozen=True, kw_only=True):
    """A key."""

    key: Annotated[str, Meta(min_length=1, max_length=200)]


@group.route("GET", "/v1/session", NO_SCOPES, agents=NO_AGENT)
async def get_session(server: Services, caller: Caller) -> Session:
    """Get who is logged in."""
    return await _session(server, caller)


@group.route("POST", "/v1/session", NO_SCOPES, audited=True, answers=Session, agents=NO_AGENT)
async def log_in(server: Services, body: Login, scope: dict[str, Any]) -> Response:
    """Log in with a key: the browser gets it as a cookie that no script can read."""
    check_own_page("POST", scope["headers"])
    caller = await server.gatekeeper.with_key(body.key.encode("utf-8", "replace"), scope)
    session = await _session(server, caller)
    return Response(session, headers={"set-cookie": set_cookie(scope, body.key)})


@group.route("DELETE", "/v1/session", NO_SCOPES, agents=NO_AGENT)
async def log_out(server: Services, caller: Caller, scope: dict[str, Any]) -> Response:
    """Log out: the browser forgets the cookie. A key stays valid; a provider's session ends."""
    check_own_page("DELETE", scope["headers"])
    key = await _key(server, caller)
    if key is not None and key.name.startswith(PERSON):
        await server.in_thread(server.store.keys.revoke, key.id, time.time())
    return Response(None, status=204, headers={"set-cookie": set_cookie(scope, "")})


async def _session(server: Services, caller: Caller) -> Session:
    scopes = [scope for scope in SCOPES if scope in caller.scopes]
    provider = server.oidc.settings.name if server.oidc else ""
    if not caller.key_id:
        return Session(login="open" if scopes else "key", scopes=scopes, provider=provider)
    key = await _key(server, caller)
    return Session(
        login="key",
        scopes=scopes,
        key_name=key.name if key else "",
        expires_at=key.expires_at if key else None,
        provider=provider,
    )


async def _key(server: Services, caller: Caller) -> Key | None:
    if not caller.key_id:
        return None
    keys = await server.in_thread(server.store.keys.list)
    return next((key for key in keys if key.id == caller.key_id), None)
