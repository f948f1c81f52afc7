"""Keys: who may do what at a server."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

Scope: TypeAlias = Literal["feedback", "ingest", "run", "read", "admin"]
"""feedback: give feedback, nothing else (publishable). ingest: send spans and live traffic. run:
create, claim and finish rollouts. read: look at everything. admin: all of it, and keys, agents and
releases."""

SCOPES: tuple[Scope, ...] = get_args(Scope)


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a key; the key itself is known only to its holder."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    created_at: float
    """Unix seconds, as all times here."""
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None
