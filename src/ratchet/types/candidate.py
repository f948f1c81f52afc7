"""Candidates: immutable, content-hashed sets of resource versions."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ratchet.types.errors import InputError
from ratchet.types.hashing import content_hash
from ratchet.types.notebook import table_html
from ratchet.types.resource import Resource, kind_of, resource_text, version_of


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """An immutable set of resource versions. Create one with `Candidate.of`."""

    id: str
    """Content hash of the resource versions by name. Parents, algorithm and reason are not part of
    it."""
    resources: dict[str, Resource]
    parents: tuple[str, ...] = ()
    """Ids of the candidates that this one was derived from."""
    algorithm: str = "source"
    """Algorithm that proposed it; `source` is the user's own code, unchanged."""
    reason: str = ""
    """Why it was proposed, in one sentence."""

    @classmethod
    def of(
        cls,
        resources: Mapping[str, Resource],
        *,
        parents: tuple[str, ...] = (),
        algorithm: str = "source",
        reason: str = "",
    ) -> Candidate:
        """Create a candidate; its id is the content hash of the resource versions."""
        versions = {name: version_of(resource) for name, resource in resources.items()}
        return cls(
            id=content_hash(versions),
            resources=dict(resources),
            parents=parents,
            algorithm=algorithm,
            reason=reason,
        )

    def _repr_html_(self) -> str:
        texts = {name: resource_text(resource) for name, resource in self.resources.items()}
        about = {"algorithm": self.algorithm, "reason": self.reason, "parents": self.parents}
        return table_html(f"Candidate {self.id[:8]}", {**about, **texts})

    def versions(self) -> dict[str, str]:
        """Version hash by resource name."""
        return {name: version_of(resource) for name, resource in self.resources.items()}

    def derive(
        self, resources: Mapping[str, Resource], *, algorithm: str, reason: str = ""
    ) -> Candidate:
        """Create a child in which some resources are replaced by others of the same name and kind.

        Raises:
            InputError: A name is unknown to this candidate, or the kind differs.
        """
        for name, resource in resources.items():
            mine = self.resources.get(name)
            if mine is None:
                raise InputError(
                    f"No resource is named {name!r}; there are {sorted(self.resources)}."
                )
            if kind_of(mine) != kind_of(resource):
                raise InputError(f"Resource {name!r} is {kind_of(mine)}, not {kind_of(resource)}.")
        return Candidate.of(
            {**self.resources, **resources}, parents=(self.id,), algorithm=algorithm, reason=reason
        )

    def changed_from(self, other: Candidate) -> tuple[str, ...]:
        """Names of the resources whose versions differ, sorted."""
        mine, theirs = self.versions(), other.versions()
        return tuple(sorted(n for n in mine.keys() | theirs.keys() if mine.get(n) != theirs.get(n)))
