"""Repository of releases."""

from __future__ import annotations

from typing import Any

from ratchet.store import tables
from ratchet.store.repository import NounRepository
from ratchet.types import RELEASE_TRANSITIONS, Conflict, Release


class Releases(NounRepository[Release]):
    """Releases by id, newest first by creation."""

    table = tables.releases
    kind = Release

    def _columns(self, noun: Release) -> dict[str, Any]:
        return {"id": noun.id, "candidate_id": noun.candidate_id, "state": noun.state}

    def _check(self, before: Release, after: Release) -> None:
        if after.state != before.state and after.state not in RELEASE_TRANSITIONS[before.state]:
            allowed = ", ".join(sorted(RELEASE_TRANSITIONS[before.state])) or "nothing"
            raise Conflict(
                f"Release {before.id} is {before.state!r} and cannot become {after.state!r};"
                f" allowed next: {allowed}."
            )
