"""Experiments: comparisons of a candidate with the baseline, and their decisions."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from ratchet.store import tables
from ratchet.store.shelf import Shelf
from ratchet.types import Conflict, Experiment


class Experiments(Shelf[Experiment]):
    """Experiments by id. A decision, once made, stays."""

    table = tables.experiments
    kind = Experiment

    def history(self, *, agent: str | None = None) -> list[Experiment]:
        """All of them, or those of one agent's runs, in order of creation.

        Args:
            agent: The agent's entry, MODULE:FUNCTION.
        """
        query = select(self.table.c.body).order_by(self.table.c.seq)
        if agent is not None:
            runs = select(tables.runs.c.id).where(tables.runs.c.agent == agent)
            query = query.where(self.table.c.run_id.in_(runs))
        return self._select(query)

    def _columns(self, noun: Experiment) -> dict[str, Any]:
        return {
            "id": noun.id,
            "run_id": noun.run_id,
            "dataset_version": noun.dataset_version,
            "verdict": noun.decision.verdict if noun.decision else "",
        }

    def _check(self, before: Experiment, after: Experiment) -> None:
        if before.decision is not None and after.decision != before.decision:
            raise Conflict(
                f"Experiment {before.id} is decided ({before.decision.verdict}),"
                " and a decision does not change.",
                hint="Make a new experiment.",
            )
