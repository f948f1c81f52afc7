"""Repository of datasets; tasks are stored once and shared between datasets."""

from __future__ import annotations

import builtins
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, func, select, text

from ratchet.store.engine import Database, chunks, starts_with
from ratchet.store.pruning import PRUNE_LOCK
from ratchet.store.tables import dataset_tasks, datasets, tasks
from ratchet.types import (
    Conflict,
    Dataset,
    DatasetSummary,
    InputError,
    NotFound,
    Origin,
    Split,
    Task,
)

_NAME_LOCK = 7_411
"""Advisory lock on Postgres, with the hash of a dataset's name."""


class Datasets:
    """Datasets by version and by name."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = database.upsert(
            datasets, ("version", "name"), ("provenance", "parent", "reason", "put_at")
        )
        self._insert_member = database.insert_new(dataset_tasks, "version", "position")
        self._insert_task = database.insert_new(tasks, "content")

    def put(
        self, dataset: Dataset, now: float | None = None, *, after: Dataset | None = None
    ) -> str:
        """Store a dataset and make it the latest of its name.

        Args:
            dataset: The dataset.
            now: Unix seconds; the current time by default.
            after: The version that it was made from, if that must still be the latest; one without
                tasks if there must be none yet.

        Returns:
            Its version.

        Raises:
            Conflict: The latest version is not `after`.
        """
        moment = time.time() if now is None else now
        version = dataset.version
        contents = [task.content() for task in dataset.tasks]
        bodies = [
            {"content": c, "input": t.input, "expected": t.expected, "metadata": t.metadata}
            for c, t in zip(contents, dataset.tasks, strict=True)
        ]
        members = [
            {
                "version": version,
                "position": position,
                "task_id": task.id,
                "content": content,
                "split": dataset.splits[task.id],
                "origin": msgspec.to_builtins(task.origin),
            }
            for position, (content, task) in enumerate(zip(contents, dataset.tasks, strict=True))
        ]
        row = {
            "name": dataset.name,
            "version": version,
            "provenance": dataset.provenance,
            "parent": dataset.parent,
            "reason": dataset.reason,
            "created_at": moment,
            "put_at": moment,
        }

        def work(connection: Connection) -> None:
            if not self._database.is_sqlite:
                # Until then, an older dataset's list with the same tasks is not pruned.
                lock = text("SELECT pg_advisory_xact_lock_shared(:lock)")
                connection.execute(lock, {"lock": PRUNE_LOCK})
            if after is not None:
                self._check_latest(connection, dataset.name, after)
            connection.execute(self._insert, row)
            if members:
                connection.execute(self._insert_task, bodies)
                connection.execute(self._insert_member, members)

        self._database.write(work)
        return version

    def _check_latest(self, connection: Connection, name: str, after: Dataset) -> None:
        if not self._database.is_sqlite:
            lock = text("SELECT pg_advisory_xact_lock(:lock, hashtext(:name))")
            connection.execute(lock, {"lock": _NAME_LOCK, "name": name})
        newest = (datasets.c.put_at.desc(), datasets.c.seq.desc())
        query = select(datasets.c.version).where(datasets.c.name == name).order_by(*newest)
        latest = connection.scalar(query.limit(1))
        is_new = latest is None and not after.tasks
        if latest != after.version and not is_new:
            raise Conflict(
                f"The dataset {name!r} was changed by another process in the meantime.",
                hint="Run the command again.",
            )

    def get(self, version: str) -> Dataset:
        """Return the dataset of a version, under the name it was last stored with.

        Raises:
            InputError: There is none.
        """
        dataset = self._database.read(lambda c: _load(c, datasets.c.version == version))
        if dataset is None:
            raise InputError(f"The store has no dataset of version {version!r}.")
        return dataset

    def latest(self, name: str) -> Dataset | None:
        """Return the dataset last stored under a name, or None."""
        return self._database.read(lambda c: _load(c, datasets.c.name == name))

    def named(self, name: str) -> Dataset:
        """Return a dataset by its name, or by NAME@VERSION with the start of a version.

        Raises:
            NotFound: There is none.
            InputError: Several versions of the dataset begin so.
        """
        own, _, prefix = name.partition("@")
        mine = datasets.c.name == own
        if prefix:
            mine &= starts_with(datasets.c.version, prefix)
            query = select(datasets.c.version).where(mine).limit(2)
            versions = self._database.read(lambda c: c.scalars(query).all())
            if len(versions) > 1:
                raise InputError(
                    f"Several versions of the dataset {own!r} begin with {prefix!r}.",
                    hint="Give more digits.",
                )
        dataset = self._database.read(lambda c: _load(c, mine))
        if dataset is None:
            raise NotFound(
                f"The store has no dataset {name!r}.", hint="List them: ratchet datasets list."
            )
        return dataset

    def uses(self, versions: Sequence[str]) -> builtins.list[tuple[Any, set[Split]]]:
        """The inputs of all tasks of some versions, each with the splits that it was in."""

        def work(connection: Connection) -> builtins.list[tuple[Any, set[Split]]]:
            splits: dict[str, set[Split]] = {}
            for chunk in chunks(versions):
                query = select(dataset_tasks.c.content, dataset_tasks.c.split).distinct()
                query = query.where(dataset_tasks.c.version.in_(chunk))
                for content, split in connection.execute(query):
                    splits.setdefault(content, set()).add(split)
            inputs: builtins.list[tuple[Any, set[Split]]] = []
            for chunk in chunks(sorted(splits)):
                own = select(tasks.c.content, tasks.c.input).where(tasks.c.content.in_(chunk))
                inputs += [(value, splits[content]) for content, value in connection.execute(own)]
            return inputs

        return self._database.read(work)

    def list(self) -> builtins.list[DatasetSummary]:
        """Summarise the latest version of each dataset, sorted by name."""
        latest: dict[str, DatasetSummary] = {}
        version_counts: Counter[str] = Counter()
        for summary in self._summaries(None):
            latest.setdefault(summary.name, summary)
            version_counts[summary.name] += 1
        return [
            msgspec.structs.replace(latest[name], versions=version_counts[name])
            for name in sorted(latest)
        ]

    def history(self, name: str) -> builtins.list[DatasetSummary]:
        """Summarise the versions of a dataset, the latest first."""
        summaries = self._summaries(name)
        return [msgspec.structs.replace(summary, versions=len(summaries)) for summary in summaries]

    def _summaries(self, name: str | None) -> builtins.list[DatasetSummary]:
        query = select(datasets).order_by(datasets.c.put_at.desc(), datasets.c.seq.desc())
        if name is not None:
            query = query.where(datasets.c.name == name)
        counts = select(dataset_tasks.c.version, dataset_tasks.c.split, func.count()).group_by(
            dataset_tasks.c.version, dataset_tasks.c.split
        )
        if name is not None:
            mine = select(datasets.c.version).where(datasets.c.name == name)
            counts = counts.where(dataset_tasks.c.version.in_(mine))

        def work(connection: Connection) -> builtins.list[DatasetSummary]:
            splits: dict[str, dict[str, int]] = {}
            for version, split, number in connection.execute(counts):
                splits.setdefault(version, {})[split] = number
            return [
                DatasetSummary(
                    name=row.name,
                    version=row.version,
                    tasks=sum(splits.get(row.version, {}).values()),
                    splits=splits.get(row.version, {}),
                    provenance=row.provenance,
                    parent=row.parent,
                    reason=row.reason,
                    created_at=row.created_at,
                    put_at=row.put_at,
                )
                for row in connection.execute(query)
            ]

        return self._database.read(work)


def _load(connection: Connection, condition: Any) -> Dataset | None:
    newest = (datasets.c.put_at.desc(), datasets.c.seq.desc())
    head = connection.execute(select(datasets).where(condition).order_by(*newest).limit(1)).first()
    if head is None:
        return None
    query = (
        select(
            dataset_tasks.c.task_id,
            dataset_tasks.c.split,
            tasks.c.input,
            tasks.c.expected,
            tasks.c.metadata,
            dataset_tasks.c.origin,
        )
        .join_from(dataset_tasks, tasks, dataset_tasks.c.content == tasks.c.content)
        .where(dataset_tasks.c.version == head.version)
        .order_by(dataset_tasks.c.position)
    )
    rows = connection.execute(query).all()
    return Dataset(
        name=head.name,
        tasks=tuple(
            Task(i, task_input, expected, extra, msgspec.convert(origin, Origin))
            for i, _, task_input, expected, extra, origin in rows
        ),
        splits={row[0]: row[1] for row in rows},
        provenance=head.provenance,
        parent=head.parent,
        reason=head.reason,
    )
