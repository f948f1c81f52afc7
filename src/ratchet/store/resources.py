"""Repository of resource versions and their names."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from ratchet.store.columns import encode
from ratchet.store.engine import Database, chunks
from ratchet.store.tables import resource_names, resources
from ratchet.types import InputError, Resource, kind_of, version_of

_decode = msgspec.json.Decoder(Resource).decode


class Resources:
    """Resources by version; each version is stored once, even under several names."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = database.insert_new(resources, "version")
        self._insert_name = database.insert_new(resource_names, "name", "version")

    def put(self, name: str, resource: Resource, now: float | None = None) -> str:
        """Store a resource under a name; storing it again changes nothing.

        Args:
            name: Its name in the agent's source.
            resource: The resource.
            now: Unix seconds; the current time by default.

        Returns:
            Its version.
        """
        moment = time.time() if now is None else now
        self._database.write(lambda c: self.put_all(c, {name: resource}, moment))
        return version_of(resource)

    def get(self, version: str) -> Resource:
        """Return the resource of a version.

        Raises:
            InputError: There is none.
        """
        by_version = self._database.read(lambda c: self.get_all(c, [version]))
        if version not in by_version:
            raise InputError(
                f"The store has no resource of version {version!r}.",
                hint="List versions with `versions(name)`.",
            )
        return by_version[version]

    def versions(self, name: str) -> list[tuple[str, float]]:
        """List a name's versions with the Unix time each was first stored, oldest first."""
        query = (
            select(resource_names.c.version, resource_names.c.created_at)
            .where(resource_names.c.name == name)
            .order_by(resource_names.c.seq)
        )
        return self._database.read(lambda c: [(version, at) for version, at in c.execute(query)])

    def names(self, kind: str | None = None) -> list[str]:
        """List the names of resources, sorted; optionally of one kind."""
        query = select(resource_names.c.name).distinct().order_by(resource_names.c.name)
        if kind is not None:
            query = query.join(resources, resources.c.version == resource_names.c.version)
            query = query.where(resources.c.kind == kind)
        return self._database.read(lambda c: list(c.scalars(query)))

    def put_all(
        self, connection: Connection, resources_by_name: Mapping[str, Resource], now: float
    ) -> dict[str, str]:
        """Store resources in an open transaction; return the version by name."""
        versions = {name: version_of(resource) for name, resource in resources_by_name.items()}
        rows: list[dict[str, Any]] = [
            {
                "version": versions[name],
                "kind": kind_of(resource),
                "body": encode(resource),
                "created_at": now,
            }
            for name, resource in resources_by_name.items()
        ]
        names = [{"name": n, "version": v, "created_at": now} for n, v in versions.items()]
        if rows:
            connection.execute(self._insert, rows)
            connection.execute(self._insert_name, names)
        return versions

    def get_all(self, connection: Connection, versions: Collection[str]) -> dict[str, Resource]:
        """Return those of the versions that are stored, in an open transaction."""
        by_version: dict[str, Resource] = {}
        for chunk in chunks(list(versions)):
            query = select(resources.c.version, resources.c.body).where(
                resources.c.version.in_(chunk)
            )
            by_version.update(
                (version, _decode(body)) for version, body in connection.execute(query)
            )
        return by_version
