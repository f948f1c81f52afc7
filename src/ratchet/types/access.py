"""Access keys and the scopes that they grant at a server."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

Scope: TypeAlias = Literal["feedback", "ingest", "run", "read", "admin"]
"""feedback: submit feedback, nothing else; such a key may be public. ingest: send spans and live
traffic. run: create, claim and finish rollouts. read: read everything. admin: all of these, and
manage keys, agents and releases."""

SCOPES: tuple[Scope, ...] = get_args(Scope)


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of an access key. The secret itself is never stored."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    created_at: float
    """Unix seconds, as are the other times here."""
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None
