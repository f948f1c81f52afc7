"""Keys: the numbers by which the database knows rollouts."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, select

from ratchet.store.columns import clean
from ratchet.store.engine import chunks
from ratchet.store.tables import rollouts
from ratchet.types import InputError

NO_ROLLOUT = 0
"""The key of spans that belong to no rollout. Not NULL, since NULLs are all different to a unique
key."""


def keys_of(connection: Connection, ids: Iterable[str]) -> dict[str, int]:
    """The key of each rollout by its id as it was asked for; one look-up for the whole batch.

    Raises:
        InputError: The store has no rollout of one of the ids.
    """
    stored = {id: clean(id) for id in ids}
    found: dict[str, int] = {}
    for chunk in chunks(list(dict.fromkeys(stored.values()))):
        query = select(rollouts.c.id, rollouts.c.seq).where(rollouts.c.id.in_(chunk))
        found.update((row[0], row[1]) for row in connection.execute(query))
    for id, as_stored in stored.items():
        if as_stored not in found:
            raise InputError(
                f"The store has no rollout {id!r}.",
                hint="Create the rollout before its spans and scores are added.",
            )
    return {id: found[as_stored] for id, as_stored in stored.items()}
