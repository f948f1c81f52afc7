"""API keys and the audit log, for administrators."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
from msgspec import Meta

from ratchet.server.api.fields import Name, Page, Request
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import ADMIN, Response, RouteGroup
from ratchet.server.services import Services
from ratchet.store.audit import AuditRow
from ratchet.types import Key, KeyScope

group = RouteGroup("keys")


class KeyList(msgspec.Struct, frozen=True):
    """Keys, without their secrets."""

    keys: list[Key]


@group.route("GET", "/v1/keys", ADMIN)
async def list_keys(server: Services) -> KeyList:
    """List the keys."""
    return KeyList(await server.in_thread(server.store.keys.list))


class NewKey(Request, frozen=True, kw_only=True):
    """A key to create."""

    name: Name
    scopes: Annotated[list[KeyScope], Meta(min_length=1, max_length=6)]
    expires_in_s: Annotated[float, Meta(gt=0, le=3.2e9)] | None = None
    agent: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{0,100}$")] = ""
    """The only agent that it may be used for; empty for any."""


class MadeKey(msgspec.Struct, frozen=True):
    """A new key."""

    key: Key
    secret: str
    """The secret that clients send. It is returned only here."""


@group.route("POST", "/v1/keys", ADMIN, audited=True, status=201, answers=MadeKey)
async def create_key(server: Services, body: NewKey) -> Response:
    """Create a key."""
    now = time.time()
    until = None if body.expires_in_s is None else now + body.expires_in_s
    scopes = tuple(dict.fromkeys(body.scopes))
    create = server.store.keys.create
    created = await server.in_thread(create, body.name, scopes, now, until, body.agent)
    return Response(MadeKey(*created), 201, {"cache-control": "no-store"})


@group.route("DELETE", "/v1/keys/{id}", ADMIN, audited=True)
async def revoke_key(server: Services, id: str) -> Key:
    """Revoke a key; every server of the store refuses it within two seconds."""
    revoked = await server.in_thread(server.store.keys.revoke, id, time.time())
    if revoked is None:
        raise HttpProblem(404, f"There is no key {id!r}.", field="id")
    return revoked


class AuditPage(msgspec.Struct, frozen=True):
    """One page of the audit log, newest first."""

    rows: list[AuditRow]
    next_cursor: str | None


@group.route("GET", "/v1/audit", ADMIN)
async def list_audit(server: Services, query: Page) -> AuditPage:
    """Read the audit log: changes, and refused requests."""
    return AuditPage(*await server.in_thread(server.store.audit.list, query.limit, query.cursor))
