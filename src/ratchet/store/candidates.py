"""Repository of candidates."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, select

from ratchet.store.engine import Database, chunks, starts_with
from ratchet.store.resources import Resources
from ratchet.store.tables import candidates
from ratchet.types import Candidate, InputError


class Candidates:
    """Candidates by id. The first proposal of a candidate determines its parents and reason."""

    def __init__(self, database: Database, resources: Resources) -> None:
        self._database = database
        self._resources = resources
        self._insert = database.upsert(candidates, ("id",), ("put_at",))

    def put(self, candidate: Candidate, now: float | None = None) -> str:
        """Store a candidate with its resources; storing an id again only protects it from pruning.

        Args:
            candidate: The candidate.
            now: Unix seconds; the current time by default.

        Returns:
            Its id.
        """
        moment = time.time() if now is None else now

        def work(connection: Connection) -> None:
            versions = self._resources.put_all(connection, candidate.resources, moment)
            row = {
                "id": candidate.id,
                "algorithm": candidate.algorithm,
                "reason": candidate.reason,
                "parents": candidate.parents,
                "versions": versions,
                "created_at": moment,
                "put_at": moment,
            }
            connection.execute(self._insert, row)

        self._database.write(work)
        return candidate.id

    def get(self, id: str) -> Candidate:
        """Return the candidate with an id.

        Raises:
            InputError: There is none.
        """
        loaded = self._database.read(lambda c: self._load(c, candidates.c.id == id))
        if not loaded:
            raise InputError(
                f"The store has no candidate {id!r}.",
                hint="Look up a shortened id with `find`.",
            )
        return loaded[0]

    def origins(self, candidate: Candidate) -> list[Candidate]:
        """Return the first ancestors of a candidate: itself if it has no parents.

        Ancestors that are not stored are left out.
        """
        ancestors: dict[str, Candidate] = {candidate.id: candidate}
        new = {candidate.id: candidate}
        while new:
            ids = {
                parent for ancestor in new.values() for parent in ancestor.parents
            } - ancestors.keys()
            new = {ancestor.id: ancestor for ancestor in self._of(ids)}
            ancestors |= new
        return [ancestor for ancestor in ancestors.values() if not ancestor.parents]

    def _of(self, ids: Collection[str]) -> list[Candidate]:
        conditions = [candidates.c.id.in_(chunk) for chunk in chunks(sorted(ids), 100)]
        return self._database.read(
            lambda connection: [
                candidate
                for condition in conditions
                for candidate in self._load(connection, condition)
            ]
        )

    def known(self, ids: Collection[str]) -> set[str]:
        """Return the ids that are stored."""

        def work(connection: Connection) -> set[str]:
            stored_ids: set[str] = set()
            for chunk in chunks(sorted(ids)):
                stored_ids.update(
                    connection.scalars(select(candidates.c.id).where(candidates.c.id.in_(chunk)))
                )
            return stored_ids

        return self._database.read(work)

    def find(self, prefix: str) -> list[Candidate]:
        """Find candidates by id prefix, oldest first, at most a hundred."""
        return self._database.read(lambda c: self._load(c, starts_with(candidates.c.id, prefix)))

    def _load(self, connection: Connection, condition: Any) -> list[Candidate]:
        query = select(candidates).where(condition).order_by(candidates.c.seq).limit(100)
        rows: Sequence[Any] = connection.execute(query).all()
        versions = {version for row in rows for version in row.versions.values()}
        bodies = self._resources.get_all(connection, versions)
        return [
            Candidate(
                id=row.id,
                resources={name: bodies[version] for name, version in row.versions.items()},
                parents=tuple(row.parents),
                algorithm=row.algorithm,
                reason=row.reason,
            )
            for row in rows
        ]
