"""Repository of access keys, which are stored as hashes."""

from __future__ import annotations

import builtins
import difflib
import hashlib
import re
import secrets
import string
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, or_, select, update

from ratchet.store.columns import clean
from ratchet.store.engine import PATIENCE_S, Database
from ratchet.store.tables import keys
from ratchet.types import SCOPES, InputError, Key, KeyScope
from ratchet.types.wording import counted

PREFIX = "rk_"
"""Prefix of every key, so that secret scanners and users recognise it."""

_ALPHABET = string.ascii_letters + string.digits
_LENGTH = 40
_LONGEST_NAME = 100
_AGENT = re.compile(r"[A-Za-z0-9._:-]{1,100}")


class AccessKeys:
    """Access keys by id, name and secret; revoked ones stay, for the audit log."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = database.insert_new(keys, "id")

    def create(
        self,
        name: str,
        scopes: Sequence[str],
        now: float,
        expires_at: float | None = None,
        agent: str = "",
    ) -> tuple[Key, str]:
        """Create a key.

        Args:
            name: Display name. Names need not be unique, for example during a key's replacement.
            scopes: Scopes that it grants.
            now: Unix seconds.
            expires_at: Expiry in Unix seconds; None for never.
            agent: The only agent that it may be used for; empty for any.

        Returns:
            The key, and its secret, which is not stored and cannot be retrieved later.

        Raises:
            InputError: The name is empty or too long, no scope is given or one is unknown, the
                expiry is in the past, or the agent's name is none.
        """
        key = Key(
            id=secrets.token_hex(8),
            name=_name(name),
            scopes=_scopes(scopes),
            created_at=now,
            expires_at=expires_at,
            agent=_agent(agent),
        )
        if expires_at is not None and expires_at <= now:
            raise InputError(
                f"The key {key.name!r} would already be expired.",
                hint="Give it a later expiry, or none.",
            )
        secret = PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
        row = {
            "id": key.id,
            "hash": _hash(secret),
            "name": key.name,
            "scopes": key.scopes,
            "agent": key.agent,
            "created_at": now,
            "expires_at": expires_at,
        }
        self._database.write(lambda c: c.execute(self._insert, row))
        return key, secret

    def list(self) -> builtins.list[Key]:
        """List all keys, oldest first, including revoked and expired ones."""
        query = select(keys).order_by(keys.c.seq)
        return self._database.read(lambda c: [_key(row) for row in c.execute(query)])

    def by_secret(self, secret: str, *, patience_s: float = PATIENCE_S) -> Key | None:
        """Find the key with a secret, even if revoked or expired; None if there is none.

        Args:
            secret: The secret presented by the client.
            patience_s: Seconds to retry while the database cannot be reached.
        """
        query = select(keys).where(keys.c.hash == _hash(secret))
        row = self._database.read(lambda c: c.execute(query).first(), patience_s=patience_s)
        return None if row is None else _key(row)

    def find(self, which: str) -> Key:
        """Find the key that a user refers to.

        Args:
            which: Its id, its name, or a prefix of its id. A revoked key is found by its full id
                only.

        Raises:
            InputError: No key matches, or several do.
        """
        return self._database.read(lambda c: _found(c, which))

    def revoke(self, id: str, now: float) -> Key | None:
        """Revoke a key; it stays in the list. Revoking it again changes nothing.

        Args:
            id: Its full id.
            now: Unix seconds.

        Returns:
            The key, or None when the id is unknown.
        """
        mine = keys.c.id == id
        change = update(keys).where(mine, keys.c.revoked_at.is_(None)).values(revoked_at=now)

        def work(connection: Connection) -> Key | None:
            connection.execute(change)
            row = connection.execute(select(keys).where(mine)).first()
            return None if row is None else _key(row)

        return self._database.write(work)

    def used(self, when: Mapping[str, float]) -> None:
        """Record when keys were last used: Unix seconds by id. Earlier times are ignored."""
        rows = [{"which": id, "at": at} for id, at in sorted(when.items())]
        if rows:
            self._database.write(lambda c: c.execute(_USED, rows))


_USED = (
    update(keys)
    .where(keys.c.id == bindparam("which"))
    .where(or_(keys.c.last_used_at.is_(None), keys.c.last_used_at < bindparam("at")))
    .values(last_used_at=bindparam("at"))
)


def _hash(secret: str) -> str:
    # A fast hash suffices: slow ones protect guessable passwords. This secret is random, one of
    # 62^40 (238 bits), and it is checked on every request.
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _found(connection: Connection, which: str) -> Key:
    name = clean(which)
    exact = connection.execute(select(keys).where(keys.c.id == name)).first()
    if exact is not None:
        return _key(exact)
    alive = [
        _key(row) for row in connection.execute(select(keys).where(keys.c.revoked_at.is_(None)))
    ]
    matches = [key for key in alive if key.name == name]
    matches = matches or [key for key in alive if name and key.id.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        ids = ", ".join(key.id for key in matches)
        raise InputError(
            f"{which!r} names {counted(len(matches), 'key')}: {ids}.", hint="Name one by its id."
        )
    if name.startswith(PREFIX):
        raise InputError(
            "That is the secret of a key, not its id.", hint="List the ids: ratchet keys list."
        )
    near = difflib.get_close_matches(name, [key.name for key in alive], n=1)
    raise InputError(
        f"No active key is named {which!r}.",
        hint=f"Did you mean {near[0]!r}?" if near else "List them: ratchet keys list.",
    )


def _name(name: str) -> str:
    tidy = " ".join(clean(name).split())
    if not tidy or len(tidy) > _LONGEST_NAME:
        raise InputError(
            f"A key's name has 1 to {_LONGEST_NAME} characters; this one has {len(tidy)}.",
            hint="Name it after its user, such as runners-eu.",
        )
    return tidy


def _agent(name: str) -> str:
    if name and not _AGENT.fullmatch(name):
        raise InputError(
            f"{name[:200]!r} is not a valid agent name.",
            hint="Give the name that is in the agent's traces, or MODULE:FUNCTION: at most 100 "
            "letters, digits, '.', '_', '-' and ':'.",
        )
    return name


def _scopes(requested: Sequence[str]) -> tuple[KeyScope, ...]:
    if not requested:
        raise InputError(
            "A key needs at least one scope.",
            hint=f"The scopes are {', '.join(SCOPES)}.",
        )
    for scope in requested:
        if scope not in SCOPES:
            near = difflib.get_close_matches(scope, SCOPES, n=1, cutoff=0.4)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise InputError(
                f"There is no scope {scope!r}.{meant}",
                hint=f"The scopes are {', '.join(SCOPES)}.",
            )
    return tuple(scope for scope in SCOPES if scope in requested)


def _key(row: Any) -> Key:
    return Key(
        id=row.id,
        name=row.name,
        scopes=tuple(scope for scope in SCOPES if scope in row.scopes),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
        agent=row.agent,
    )
