"""Repository of live traffic: splits between release and candidate, and which traces count."""

from __future__ import annotations

import builtins
import hashlib
import math
from collections.abc import Iterable, Sequence

import msgspec
from sqlalchemy import Connection, func, insert, select

from ratchet.store.agents import Agents
from ratchet.store.candidates import Candidates
from ratchet.store.columns import clean
from ratchet.store.engine import Database, chunks
from ratchet.store.tables import activations, traffic_splits, traffic_units
from ratchet.types import Activation, Candidate, InputError, LiveVersions, Resource, TrafficSplit

STANDING = 20
"""Maximum number of releases that conversations may keep, the newest first."""


class Traffic:
    """Splits of live traffic by agent; an agent's newest split is the one in effect."""

    def __init__(self, database: Database, agents: Agents, candidates: Candidates) -> None:
        self._database = database
        self._agents = agents
        self._candidates = candidates
        self._insert_unit = database.insert_new(traffic_units, "experiment_id", "unit")

    def put(self, split: TrafficSplit) -> None:
        """Split an agent's traffic from now on; putting the split in effect again changes nothing.

        Raises:
            InputError: The share lies outside [0, 1], or the candidate is not stored.
        """
        if not (math.isfinite(split.enrolled) and 0.0 <= split.enrolled <= 1.0):
            raise InputError(
                f"The enrolled share {split.enrolled} of {split.agent!r} is not in [0, 1]."
            )
        if split.experiment_id and not self._candidates.known([split.candidate_id]):
            raise InputError(
                f"The store has no candidate {split.candidate_id!r} for the canary of"
                f" {split.agent!r}.",
                hint="Store the candidate first; an empty experiment_id ends a canary.",
            )
        row = msgspec.structs.asdict(split)

        def work(connection: Connection) -> None:
            newest = self._newest(connection, split.agent, 1)
            if not newest or _effect(newest[0]) != _effect(split):
                connection.execute(insert(traffic_splits), row)

        self._database.write(work)

    def split(self, agent: str) -> TrafficSplit | None:
        """Return the split in effect, or None without a canary."""
        newest = self.history(agent, limit=1)
        return newest[0] if newest and newest[0].experiment_id else None

    def history(self, agent: str, limit: int = 100) -> builtins.list[TrafficSplit]:
        """List an agent's splits, newest first."""
        return self._database.read(lambda connection: self._newest(connection, agent, limit))

    def agents(self) -> builtins.list[str]:
        """List the agents that ever had a release or a canary."""
        activated = select(activations.c.agent)
        query = activated.union(select(traffic_splits.c.agent))
        return self._database.read(lambda c: sorted(c.scalars(query)))

    def mark(self) -> tuple[int, int]:
        """Return a value that differs whenever what an agent runs has changed, in one small
        query."""
        newest = (select(func.max(table.c.seq)) for table in (activations, traffic_splits))
        query = select(*(subquery.scalar_subquery() for subquery in newest))
        first, second = self._database.read(lambda c: c.execute(query).one())
        return first or 0, second or 0

    def versions(self, agent: str, tag: str = "") -> LiveVersions | None:
        """Return what the live agent runs.

        Args:
            agent: Its name.
            tag: Tag of the versions that the caller has.

        Returns:
            The versions; None if they are those of the tag. That answer takes two small queries.
        """
        activations = self._agents.history(agent)
        versions = LiveVersions(
            agent=agent,
            release_id=activations[0].candidate_id if activations else "",
            standing=standing(activations),
            split=self.split(agent),
        )
        if versions.tag == tag:
            return None
        return msgspec.structs.replace(
            versions,
            release=self._replaced(versions.release_id),
            candidate=self._replaced(versions.split.candidate_id if versions.split else ""),
        )

    def count_units(
        self, experiment_id: str, units: Iterable[tuple[str, str]]
    ) -> builtins.list[bool]:
        """Record which traces count: the first of each unit. Recording them again changes
        nothing.

        Args:
            experiment_id: The experiment.
            units: Unit and trace id of each outcome, in order of time.

        Returns:
            For each, whether it is its unit's first.
        """
        hashed_units = [(_digest(unit), trace_id) for unit, trace_id in units]
        rows = [
            {"experiment_id": experiment_id, "unit": unit, "trace_id": trace_id}
            for unit, trace_id in hashed_units
        ]

        def work(connection: Connection) -> dict[str, str]:
            for row in rows:
                connection.execute(self._insert_unit, row)
            first: dict[str, str] = {}
            for chunk in chunks(sorted({unit for unit, _ in hashed_units})):
                query = select(traffic_units.c.unit, traffic_units.c.trace_id).where(
                    traffic_units.c.experiment_id == clean(experiment_id),
                    traffic_units.c.unit.in_(chunk),
                )
                first.update((row.unit, row.trace_id) for row in connection.execute(query))
            return first

        if not rows:
            return []
        first = self._database.write(work)
        return [first[unit] == trace_id for unit, trace_id in hashed_units]

    def _replaced(self, candidate_id: str) -> dict[str, Resource]:
        if not candidate_id:
            return {}
        candidate = self._candidates.get(candidate_id)
        return replaced(candidate, self._candidates.origins(candidate))

    def _newest(
        self, connection: Connection, agent: str, limit: int
    ) -> builtins.list[TrafficSplit]:
        query = (
            select(traffic_splits)
            .where(traffic_splits.c.agent == clean(agent))
            .order_by(traffic_splits.c.seq.desc())
            .limit(limit)
        )
        return [
            TrafficSplit(
                agent=row.agent,
                experiment_id=row.experiment_id,
                candidate_id=row.candidate_id,
                enrolled=row.enrolled,
                started_at=row.started_at,
                reason=row.reason,
            )
            for row in connection.execute(query)
        ]


def standing(activations: Sequence[Activation]) -> tuple[str, ...]:
    """Ids of the releases that were not withdrawn, oldest first, at most `STANDING`.

    A release that goes back to an earlier one withdraws what came after that.

    Args:
        activations: An agent's history, newest first.
    """
    chain = [""]
    for activation in reversed(activations):
        if activation.candidate_id in chain:
            del chain[chain.index(activation.candidate_id) + 1 :]
        else:
            chain.append(activation.candidate_id)
    return tuple(chain[-STANDING:])


def replaced(candidate: Candidate, origins: Sequence[Candidate]) -> dict[str, Resource]:
    """The resources of a candidate that a live agent runs instead of its own.

    Those that are as in an origin are left out: the agent's source may have a newer version.

    Args:
        candidate: The candidate.
        origins: Its first ancestors.
    """
    if not candidate.parents:
        return dict(candidate.resources)
    original_versions = {item for origin in origins for item in origin.versions().items()}
    versions = candidate.versions()
    return {
        name: resource
        for name, resource in candidate.resources.items()
        if (name, versions[name]) not in original_versions
    }


def _effect(split: TrafficSplit) -> tuple[str, str, float]:
    return split.experiment_id, split.candidate_id, split.enrolled


def _digest(unit: str) -> str:
    return hashlib.sha256(unit.encode("utf-8", "surrogatepass")).hexdigest()[:32]
