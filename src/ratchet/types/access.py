"""Access keys and the scopes that they grant at a server."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

KeyScope: TypeAlias = Literal["feedback", "ingest", "runner", "develop", "read", "admin"]
"""feedback: submit feedback, nothing else; such a key may be public. ingest: send spans and live
traffic. runner: claim rollouts, renew and report them, and read what they need. develop: create
rollouts, publish candidates and datasets, ask models at the project's cost, and read. read: read
everything. admin: all of these, and manage keys, agents and releases."""

SCOPES: tuple[KeyScope, ...] = get_args(KeyScope)


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of an access key. The secret itself is never stored."""

    id: str
    name: str
    scopes: tuple[KeyScope, ...]
    created_at: float
    """Unix seconds, as are the other times here."""
    agent: str = ""
    """The only agent that it may be used for; empty for any."""
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None
