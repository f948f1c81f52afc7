"""Integer keys of rollouts in the database, and locks on them."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, select

from ratchet.store.columns import clean
from ratchet.store.engine import chunks
from ratchet.store.lifecycle import LockedRollout
from ratchet.store.statements import LOCK
from ratchet.store.tables import rollouts
from ratchet.types import InputError

NO_ROLLOUT = 0
"""Key of spans without a rollout. Not NULL, since a unique key treats NULLs as different."""


def keys_of(connection: Connection, ids: Iterable[str]) -> dict[str, int]:
    """Look up the keys of a batch of rollouts, by the ids as passed, in a single query.

    Raises:
        InputError: An id is unknown.
    """
    stored = {id: clean(id) for id in ids}
    seqs: dict[str, int] = {}
    for chunk in chunks(list(dict.fromkeys(stored.values()))):
        query = select(rollouts.c.id, rollouts.c.seq).where(rollouts.c.id.in_(chunk))
        seqs.update((row[0], row[1]) for row in connection.execute(query))
    for id, as_stored in stored.items():
        if as_stored not in seqs:
            raise InputError(
                f"The store has no rollout {id!r}.",
                hint="Create the rollout before its spans and scores are added.",
            )
    return {id: seqs[as_stored] for id, as_stored in stored.items()}


def hold(connection: Connection, ids: Iterable[str]) -> dict[str, LockedRollout]:
    """Lock rollouts until the transaction ends, and read their state, by the ids as passed.

    Locks are taken in order of id, so that two transactions on the same rollouts wait for each
    other instead of deadlocking. Ids that are unknown are left out.
    """
    stored = {id: clean(id) for id in ids}
    locked: dict[str, LockedRollout] = {}
    for chunk in chunks(sorted(set(stored.values()))):
        rows = connection.execute(LOCK, {"ids": chunk})
        locked.update((id, LockedRollout(*state)) for id, *state in rows)
    return {id: locked[as_stored] for id, as_stored in stored.items() if as_stored in locked}
