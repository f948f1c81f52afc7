"""Repository of frozen sets: the tasks that make sure a fixed problem stays fixed."""

from __future__ import annotations

import builtins
from typing import Any

from sqlalchemy import select

from ratchet.store import tables
from ratchet.store.repository import NounRepository
from ratchet.types import Conflict, FrozenSet


class FrozenSets(NounRepository[FrozenSet]):
    """Frozen sets by id. Each version follows the one before; none is deleted."""

    table = tables.frozen_sets
    kind = FrozenSet

    def of_project(self, project: str) -> builtins.list[FrozenSet]:
        """List the sets of a project, worst loss first, then newest first."""
        mine = select(self.table.c.body).where(self.table.c.project == project)
        sets = self._select(mine.order_by(self.table.c.seq))
        return sorted(sets, key=lambda frozen: (-frozen.loss, -frozen.created_at, frozen.id))

    def _columns(self, noun: FrozenSet) -> dict[str, Any]:
        return {
            "id": noun.id,
            "project": noun.project,
            "problem_id": noun.problem_id,
            "version": noun.version,
        }

    def _check(self, before: FrozenSet, after: FrozenSet) -> None:
        if after != before and after.version != before.version + 1:
            raise Conflict(
                f"Frozen set {before.id[:12]} is at version {before.version}, not "
                f"{after.version - 1}: another process has changed it.",
                hint="Read the frozen set again.",
            )
