"""References from runs, experiments, releases and agents, which protect rows from pruning."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from ratchet.store.engine import chunks
from ratchet.store.tables import (
    activations,
    candidates,
    experiments,
    journal,
    releases,
    runs,
    traffic_splits,
)
from ratchet.store.tables import rollouts as rollouts_table
from ratchet.types import STAGE_TRANSITIONS, Stage

OVER: frozenset[Stage] = frozenset(stage for stage, then in STAGE_TRANSITIONS.items() if not then)
"""Stages of runs that cannot resume."""


class _Named(msgspec.Struct):
    """Ids in a run, an experiment or a release; missing fields are empty."""

    baseline_id: str = ""
    best_id: str = ""
    candidate_id: str = ""
    dataset_version: str = ""
    earlier_versions: tuple[str, ...] = ()


_decode = msgspec.json.Decoder(_Named).decode


def used_candidates(connection: Connection, ids: Collection[str]) -> set[str]:
    """Return those of the candidates that are referenced.

    These are candidates of runs, experiments and releases, all that were ever active for an agent
    or got a share of its traffic, and the ancestors of these; candidates with rollouts; and those
    that were checked or tested in a run that may resume.
    """
    candidate_ids: set[str] = set(connection.scalars(select(activations.c.candidate_id).distinct()))
    candidate_ids.update(connection.scalars(select(traffic_splits.c.candidate_id).distinct()))
    for table in (runs, experiments, releases):
        for body in connection.scalars(select(table.c.body)):
            record = _decode(body)
            candidate_ids |= {record.baseline_id, record.best_id, record.candidate_id}
    used = _with_ancestors(connection, candidate_ids) & set(ids)
    left = sorted(set(ids) - used)
    for chunk in chunks(left):
        query = select(rollouts_table.c.candidate_id).distinct()
        used.update(connection.scalars(query.where(rollouts_table.c.candidate_id.in_(chunk))))
    used.update(_judged(connection, [id for id in left if id not in used]))
    return used


def used_datasets(connection: Connection) -> set[str]:
    """Return the versions of datasets used by experiments, or by runs that may resume."""
    used = set(connection.scalars(select(experiments.c.dataset_version).distinct()))
    bodies = select(runs.c.body).where(runs.c.stage.not_in(OVER))
    for body in connection.scalars(bodies):
        run = _decode(body)
        used |= {run.dataset_version, *run.earlier_versions}
    return used


def _with_ancestors(connection: Connection, ids: set[str]) -> set[str]:
    ancestors: set[str] = set()
    new = ids
    while new:
        ancestors |= new
        parents: set[str] = set()
        for chunk in chunks(sorted(new)):
            rows: Any = connection.scalars(
                select(candidates.c.parents).where(candidates.c.id.in_(chunk))
            )
            parents.update(parent for row in rows for parent in row)
        new = parents - ancestors
    return ancestors


def _judged(connection: Connection, ids: Collection[str]) -> set[str]:
    going_on = connection.scalars(select(runs.c.id).where(runs.c.stage.not_in(OVER))).all()
    judged_ids: set[str] = set()
    for run_id in going_on if ids else ():
        for chunk in chunks([f"{stage}/{id}" for id in ids for stage in ("check", "test")]):
            query = select(journal.c.key).where(journal.c.run_id == run_id)
            keys = connection.scalars(query.where(journal.c.key.in_(chunk)))
            judged_ids.update(key.partition("/")[2] for key in keys)
    return judged_ids
