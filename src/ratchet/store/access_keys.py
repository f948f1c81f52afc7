"""Access keys: who may use a server, known by the hashes of their secrets."""

from __future__ import annotations

import builtins
import difflib
import hashlib
import secrets
import string
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, or_, select, update

from ratchet.store.columns import clean
from ratchet.store.engine import PATIENCE_S, Database
from ratchet.store.tables import keys
from ratchet.types import SCOPES, InputError, Key, Scope

PREFIX = "rk_"
"""What every key begins with, so that scanners of leaked secrets and people know it."""

_ALPHABET = string.ascii_letters + string.digits
_LENGTH = 40
_LONGEST_NAME = 100


class AccessKeys:
    """Keys by id, name and secret. They are revoked and never deleted: the audit log names them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = database.insert_new(keys, "id")

    def create(
        self, name: str, scopes: Sequence[str], now: float, expires_at: float | None = None
    ) -> tuple[Key, str]:
        """Make a key.

        Args:
            name: What people call it; two keys may have one name, such as while one replaces
                the other.
            scopes: What it allows.
            now: Unix seconds.
            expires_at: Unix seconds from which on it is refused; None for never.

        Returns:
            The key, and its secret, which is stored nowhere and cannot be had again.

        Raises:
            InputError: The name is empty or too long, a scope is unknown or none is given, or it
                would have expired already.
        """
        key = Key(
            id=secrets.token_hex(8),
            name=_name(name),
            scopes=_scopes(scopes),
            created_at=now,
            expires_at=expires_at,
        )
        if expires_at is not None and expires_at <= now:
            raise InputError(
                f"The key {key.name!r} would have expired already.",
                hint="Give it a later end, or none.",
            )
        secret = PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
        row = {
            "id": key.id,
            "hash": _hash(secret),
            "name": key.name,
            "scopes": key.scopes,
            "created_at": now,
            "expires_at": expires_at,
        }
        self._database.write(lambda c: c.execute(self._insert, row))
        return key, secret

    def list(self) -> builtins.list[Key]:
        """Every key, oldest first; revoked and expired ones too."""
        query = select(keys).order_by(keys.c.seq)
        return self._database.read(lambda c: [_key(row) for row in c.execute(query)])

    def by_secret(self, secret: str, *, patience_s: float = PATIENCE_S) -> Key | None:
        """The key with that secret, whether it still holds or not; None when there is none.

        Args:
            secret: What its holder shows.
            patience_s: Seconds to try again while the database cannot be reached.
        """
        query = select(keys).where(keys.c.hash == _hash(secret))
        row = self._database.read(lambda c: c.execute(query).first(), patience_s=patience_s)
        return None if row is None else _key(row)

    def find(self, which: str) -> Key:
        """The one key that a person means.

        Args:
            which: Its id, its name, or the beginning of its id. One that is revoked is meant by
                its whole id alone.

        Raises:
            InputError: There is no such key, or several.
        """
        return self._database.read(lambda c: _found(c, which))

    def revoke(self, id: str, now: float) -> Key | None:
        """Revoke a key; it stays in the list. One that is revoked already stays as it is.

        Args:
            id: Its whole id.
            now: Unix seconds.

        Returns:
            The key, or None when there is none of that id.
        """
        mine = keys.c.id == id
        change = update(keys).where(mine, keys.c.revoked_at.is_(None)).values(revoked_at=now)

        def work(connection: Connection) -> Key | None:
            connection.execute(change)
            row = connection.execute(select(keys).where(mine)).first()
            return None if row is None else _key(row)

        return self._database.write(work)

    def used(self, when: Mapping[str, float]) -> None:
        """Note when keys were last used: unix seconds by id. An earlier time changes nothing."""
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
    # A fast hash is right here: slow ones protect what people think up. This secret is drawn at
    # random out of 62^40 (238 bits), which nobody can try out, and it is checked on each request.
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _found(connection: Connection, which: str) -> Key:
    wanted = clean(which)
    exact = connection.execute(select(keys).where(keys.c.id == wanted)).first()
    if exact is not None:
        return _key(exact)
    alive = [
        _key(row) for row in connection.execute(select(keys).where(keys.c.revoked_at.is_(None)))
    ]
    found = [key for key in alive if key.name == wanted]
    found = found or [key for key in alive if wanted and key.id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(key.id for key in found)
        raise InputError(f"{which!r} names {len(found)} keys: {ids}.", hint="Name one by its id.")
    if wanted.startswith(PREFIX):
        raise InputError(
            "That is a key itself, not its id.", hint="List the ids: ratchet keys list."
        )
    near = difflib.get_close_matches(wanted, [key.name for key in alive], n=1)
    raise InputError(
        f"No key that is in use is called {which!r}.",
        hint=f"Did you mean {near[0]!r}?" if near else "List them: ratchet keys list.",
    )


def _name(name: str) -> str:
    tidy = " ".join(clean(name).split())
    if not tidy or len(tidy) > _LONGEST_NAME:
        raise InputError(
            f"A key's name has 1 to {_LONGEST_NAME} characters; this one has {len(tidy)}.",
            hint="Say who uses it, such as runners-eu.",
        )
    return tidy


def _scopes(wanted: Sequence[str]) -> tuple[Scope, ...]:
    if not wanted:
        raise InputError(
            "A key needs a scope, else it allows nothing.",
            hint=f"The scopes are {', '.join(SCOPES)}.",
        )
    for scope in wanted:
        if scope not in SCOPES:
            near = difflib.get_close_matches(scope, SCOPES, n=1, cutoff=0.4)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise InputError(
                f"There is no scope {scope!r}.{meant}",
                hint=f"The scopes are {', '.join(SCOPES)}.",
            )
    return tuple(scope for scope in SCOPES if scope in wanted)


def _key(row: Any) -> Key:
    return Key(
        id=row.id,
        name=row.name,
        scopes=tuple(scope for scope in SCOPES if scope in row.scopes),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )
