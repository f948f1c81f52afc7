"""Repository of runs and their stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ratchet.store import tables
from ratchet.store.repository import NounRepository
from ratchet.types import STAGE_TRANSITIONS, Conflict, Run


class Runs(NounRepository[Run]):
    """Runs by id, newest first by last update."""

    table = tables.runs
    kind = Run

    def _columns(self, noun: Run) -> dict[str, Any]:
        return {
            "id": noun.id,
            "agent": noun.agent,
            "stage": noun.stage,
            "updated_at": noun.updated_at,
        }

    def _check(self, before: Run, after: Run) -> None:
        if after.stage != before.stage and after.stage not in STAGE_TRANSITIONS[before.stage]:
            allowed = ", ".join(sorted(STAGE_TRANSITIONS[before.stage])) or "nothing"
            raise Conflict(
                f"Run {before.id} is at {before.stage!r} and cannot go to {after.stage!r};"
                f" allowed next: {allowed}.",
                hint="Read the run again: another process may have moved it on.",
            )

    def _newest_first(self) -> Sequence[Any]:
        return (self.table.c.updated_at.desc(), self.table.c.seq.desc())
