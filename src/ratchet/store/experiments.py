"""Repository of experiments and their decisions."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import Connection, select

from ratchet.store import tables
from ratchet.store.columns import encode
from ratchet.store.engine import Database
from ratchet.store.repository import NounRepository
from ratchet.types import Conflict, Experiment

History: TypeAlias = tuple[bool, ...]
"""For each experiment of a stream, in order of their start, whether it has promoted its candidate;
False for an unfinished one."""


class Experiments(NounRepository[Experiment]):
    """Experiments by id. No decision changes but "not proved", when added tasks decide."""

    table = tables.experiments
    kind = Experiment

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._take_place = database.insert_new(self.table, "stream", "place")

    def begin(self, experiment: Experiment, level: Callable[[History], float]) -> Experiment:
        """Store an experiment at the next position of its stream, or return it if it exists.

        The history is read and the experiment is stored in one transaction. A position is assigned
        once: of processes that begin experiments at the same time, one gets the position and the
        others read the history again.

        Args:
            experiment: The new experiment. Its `history` and `alpha` are set here. Its id must
                belong to this stream alone.
            level: Computes the level of the next experiment from a history. When it raises, nothing
                is stored.

        Returns:
            The stored experiment: if it had begun before, with its original history and level, and
                its decision if there is one.
        """
        mine = select(self.table.c.body).where(self.table.c.id == experiment.id)

        def work(connection: Connection) -> Experiment | None:
            earlier = _promoted(connection, experiment.stream)
            if experiment.id in earlier:
                return self._decode(connection.execute(mine).scalar_one())
            history = tuple(earlier.values())
            begun = msgspec.structs.replace(experiment, history=history, alpha=level(history))
            row = {**self._columns(begun), "body": encode(begun)}
            return begun if connection.execute(self._take_place, row).rowcount else None

        while (begun := self._database.write(work)) is None:
            pass  # Another process took the position: the history has one more entry now.
        return begun

    def promotions(self, stream: str) -> History:
        """Return the history that `begin` would give the next experiment of a stream."""
        return tuple(self._database.read(lambda c: _promoted(c, stream)).values())

    def history(self) -> builtins.list[Experiment]:
        """List all experiments, in order of creation."""
        return self._select(select(self.table.c.body).order_by(self.table.c.seq))

    def _columns(self, noun: Experiment) -> dict[str, Any]:
        return {
            "id": noun.id,
            "run_id": noun.run_id,
            "dataset_version": noun.dataset_version,
            "stream": noun.stream,
            "place": len(noun.history),
            "verdict": noun.decision.verdict if noun.decision else "",
        }

    def _check(self, before: Experiment, after: Experiment) -> None:
        if before.decision is None or after.decision == before.decision:
            return
        if before.decision.verdict != "not_proved" or after.decision is None:
            raise Conflict(
                f"Experiment {before.id} is decided ({before.decision.verdict}),"
                " and a decision does not change.",
                hint="Make a new experiment.",
            )


def _promoted(connection: Connection, stream: str) -> dict[str, bool]:
    """Whether each experiment of a stream has promoted its candidate, by id, in order."""
    table = tables.experiments
    query = select(table.c.id, table.c.verdict).where(table.c.stream == stream)
    rows = connection.execute(query.order_by(table.c.place))
    return {id: verdict == "promote" for id, verdict in rows}
