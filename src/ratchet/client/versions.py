"""Content-addressed repositories of a server: resources, candidates, datasets."""

from __future__ import annotations

import builtins
import threading
from collections import OrderedDict
from typing import Any

import msgspec

from ratchet.client.call import RemoteRepository, Steps, TransportT, endpoint, get, post
from ratchet.types import (
    Candidate,
    Dataset,
    DatasetSummary,
    InputError,
    NotFound,
    Provenance,
    Resource,
    Split,
    Task,
)

CACHED = 512
"""Maximum number of cached resources; a version never changes."""


class _Published(msgspec.Struct, frozen=True):
    version: str


class _Version(msgspec.Struct, frozen=True):
    version: str
    created_at: float


class _Versions(msgspec.Struct, frozen=True):
    versions: list[_Version]


class _Id(msgspec.Struct, frozen=True):
    id: str


class _Candidate(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    versions: dict[str, str]
    parents: tuple[str, ...] = ()
    algorithm: str = ""
    reason: str = ""


class _Dataset(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    tasks: tuple[Task, ...]
    splits: dict[str, Split]
    provenance: Provenance
    parent: str = ""
    reason: str = ""


class _Summaries(msgspec.Struct, frozen=True):
    datasets: list[DatasetSummary]


class _ResourceCache:
    """LRU cache of resources by version. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resources: OrderedDict[str, Resource] = OrderedDict()

    def get(self, version: str) -> Resource | None:
        with self._lock:
            resource = self._resources.get(version)
            if resource is not None:
                self._resources.move_to_end(version)
            return resource

    def put(self, version: str, resource: Resource) -> None:
        with self._lock:
            self._resources[version] = resource
            self._resources.move_to_end(version)
            while len(self._resources) > CACHED:
                self._resources.popitem(last=False)


class Resources(RemoteRepository[TransportT]):
    """Resources by version, with a cache."""

    def __init__(self, transport: TransportT) -> None:
        super().__init__(transport)
        self._cache = _ResourceCache()

    @endpoint
    def put(self, name: str, resource: Resource, now: float | None = None) -> Steps[str]:
        """Publish a resource under a name; return its version. Repeating it changes nothing."""
        answer = yield post("resources", body={"name": name, "resource": resource})
        return answer.read(_Published).version

    @endpoint
    def get(self, version: str) -> Steps[Resource]:
        """The resource of that version.

        Raises:
            InputError: It does not exist.
        """
        resource = yield from self._fetch(version)
        return resource

    @endpoint
    def versions(self, name: str) -> Steps[list[tuple[str, float]]]:
        """Versions of a name with the Unix time at which each was first stored, oldest first."""
        answer = yield get("resources", name=name)
        return [
            (version.version, version.created_at) for version in answer.read(_Versions).versions
        ]

    def _fetch(self, version: str) -> Steps[Resource]:
        cached = self._cache.get(version)
        if cached is not None:
            return cached
        answer = yield get("resources", version)
        kind: Any = Resource
        resource: Resource = answer.read(kind)
        self._cache.put(version, resource)
        return resource


class Candidates(RemoteRepository[TransportT]):
    """Candidates by id; shared resources are fetched once."""

    def __init__(self, transport: TransportT, resources: Resources[TransportT]) -> None:
        super().__init__(transport)
        self._resources = resources

    @endpoint
    def put(self, candidate: Candidate, now: float | None = None) -> Steps[str]:
        """Publish a candidate with its resources. Repeating the call changes nothing.

        Returns:
            Its id.
        """
        body = {
            "resources": candidate.resources,
            "parents": candidate.parents,
            "algorithm": candidate.algorithm,
            "reason": candidate.reason,
        }
        answer = yield post("candidates", body=body)
        return answer.read(_Id).id

    @endpoint
    def get(self, id: str) -> Steps[Candidate]:
        """The candidate with that id, and its resources.

        Raises:
            InputError: It does not exist.
        """
        answer = yield get("candidates", id)
        stored = answer.read(_Candidate)
        resources: dict[str, Resource] = {}
        for name, version in stored.versions.items():
            resources[name] = yield from self._resources._fetch(version)
        return Candidate(
            id=stored.id,
            resources=resources,
            parents=stored.parents,
            algorithm=stored.algorithm,
            reason=stored.reason,
        )


class Datasets(RemoteRepository[TransportT]):
    """Datasets by version and by name."""

    @endpoint
    def put(self, dataset: Dataset, now: float | None = None) -> Steps[str]:
        """Store a dataset and make it the latest of its name. Returns its version."""
        body = {
            "name": dataset.name,
            "tasks": dataset.tasks,
            "splits": dataset.splits,
            "provenance": dataset.provenance,
            "parent": dataset.parent,
            "reason": dataset.reason,
        }
        answer = yield post("datasets", body=body)
        return answer.read(_Published).version

    @endpoint
    def get(self, version: str) -> Steps[Dataset]:
        """The dataset of that version.

        Raises:
            InputError: It does not exist.
        """
        answer = yield get("datasets", version)
        return _dataset(answer.read(_Dataset))

    @endpoint
    def latest(self, name: str) -> Steps[Dataset]:
        """The latest dataset of a name.

        Raises:
            InputError: It does not exist.
        """
        answer = yield get("datasets", name=name)
        return _dataset(answer.read(_Dataset))

    @endpoint
    def named(self, name: str) -> Steps[Dataset]:
        """A dataset by its name, or by NAME@VERSION with the start of a version.

        Raises:
            NotFound: There is none.
            InputError: Several versions of the dataset begin so.
        """
        own, _, prefix = name.partition("@")
        if not prefix:
            answer = yield get("datasets", name=own)
            return _dataset(answer.read(_Dataset))
        answer = yield get("dataset-versions", name=own)
        versions = [dataset.version for dataset in answer.read(_Summaries).datasets]
        matches = [version for version in versions if version.startswith(prefix)]
        if not matches:
            raise NotFound(f"The server has no dataset {name!r}.")
        if len(matches) > 1:
            raise InputError(
                f"Several versions of the dataset {own!r} begin with {prefix!r}.",
                hint="Give more digits.",
            )
        answer = yield get("datasets", matches[0])
        return _dataset(answer.read(_Dataset))

    @endpoint
    def list(self) -> Steps[builtins.list[DatasetSummary]]:
        """The latest version of each dataset without its tasks, sorted by name."""
        answer = yield get("dataset-versions")
        return answer.read(_Summaries).datasets

    @endpoint
    def history(self, name: str) -> Steps[builtins.list[DatasetSummary]]:
        """The versions of a dataset without their tasks, the latest first."""
        answer = yield get("dataset-versions", name=name)
        return answer.read(_Summaries).datasets


def _dataset(stored: _Dataset) -> Dataset:
    return Dataset(
        stored.name, stored.tasks, stored.splits, stored.provenance, stored.parent, stored.reason
    )
