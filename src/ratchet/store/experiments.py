"""Experiments: comparisons of a candidate with the baseline, and their decisions."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import func, select

from ratchet.store import tables
from ratchet.store.shelf import Shelf
from ratchet.types import Conflict, Experiment


class Tally(NamedTuple):
    """How many experiments there were, and how many of them promoted."""

    promoted: int
    total: int


class Experiments(Shelf[Experiment]):
    """Experiments by id. A decision, once made, stays."""

    table = tables.experiments
    kind = Experiment

    def history(self) -> list[Experiment]:
        """All of them, in order of creation."""
        return self._select(select(self.table.c.body).order_by(self.table.c.seq))

    def count_for(self, *, agent: str | None = None, dataset_version: str | None = None) -> Tally:
        """Experiments of one agent's runs, of one dataset, of both, or all of them.

        Args:
            agent: The agent's entry, MODULE:FUNCTION.
            dataset_version: Content hash of the dataset.
        """
        query = select(self.table.c.verdict, func.count()).group_by(self.table.c.verdict)
        if dataset_version is not None:
            query = query.where(self.table.c.dataset_version == dataset_version)
        if agent is not None:
            runs = select(tables.runs.c.id).where(tables.runs.c.agent == agent)
            query = query.where(self.table.c.run_id.in_(runs))
        counts = dict(self._database.read(lambda c: [(v, n) for v, n in c.execute(query)]))
        return Tally(promoted=counts.get("promote", 0), total=sum(counts.values()))

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
