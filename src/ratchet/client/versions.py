"""What is named by its content, at the server: resources, candidates, datasets."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import msgspec

from ratchet.client.call import Carrier, RemoteRepository, Steps, endpoint, get, post
from ratchet.types import Candidate, Dataset, Provenance, Resource, Split, Task

CACHED = 512
"""Resources that are remembered; a version never changes."""


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


class _Remembered:
    """Resources by version, the least lately used forgotten first. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Resource] = OrderedDict()

    def get(self, version: str) -> Resource | None:
        with self._lock:
            resource = self._known.get(version)
            if resource is not None:
                self._known.move_to_end(version)
            return resource

    def put(self, version: str, resource: Resource) -> None:
        with self._lock:
            self._known[version] = resource
            self._known.move_to_end(version)
            while len(self._known) > CACHED:
                self._known.popitem(last=False)


class Resources(RemoteRepository[Carrier]):
    """Resources by version; fetched once, remembered as long as there is room."""

    def __init__(self, carrier: Carrier) -> None:
        super().__init__(carrier)
        self._remembered = _Remembered()

    @endpoint
    def put(self, name: str, resource: Resource, now: float | None = None) -> Steps[str]:
        """Publish a resource under a name; the same again changes nothing. Returns its version."""
        answer = yield post("resources", body={"name": name, "resource": resource})
        return answer.read(_Published).version

    @endpoint
    def get(self, version: str) -> Steps[Resource]:
        """The resource of that version.

        Raises:
            InputError: There is none.
        """
        resource = yield from self._fetch(version)
        return resource

    @endpoint
    def versions(self, name: str) -> Steps[list[tuple[str, float]]]:
        """Versions of a name with the unix time each was first stored, oldest first."""
        answer = yield get("resources", name=name)
        return [(one.version, one.created_at) for one in answer.read(_Versions).versions]

    def _fetch(self, version: str) -> Steps[Resource]:
        known = self._remembered.get(version)
        if known is not None:
            return known
        answer = yield get("resources", version)
        kind: Any = Resource
        resource: Resource = answer.read(kind)
        self._remembered.put(version, resource)
        return resource


class Candidates(RemoteRepository[Carrier]):
    """Candidates by id; the resources they share are fetched once."""

    def __init__(self, carrier: Carrier, resources: Resources[Carrier]) -> None:
        super().__init__(carrier)
        self._resources = resources

    @endpoint
    def put(self, candidate: Candidate, now: float | None = None) -> Steps[str]:
        """Publish a candidate with its resources; the same again changes nothing.

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
        """The candidate of that id, with its resources.

        Raises:
            InputError: There is none.
        """
        answer = yield get("candidates", id)
        found = answer.read(_Candidate)
        resources: dict[str, Resource] = {}
        for name, version in found.versions.items():
            resources[name] = yield from self._resources._fetch(version)
        return Candidate(
            id=found.id,
            resources=resources,
            parents=found.parents,
            algorithm=found.algorithm,
            reason=found.reason,
        )


class Datasets(RemoteRepository[Carrier]):
    """Datasets by version and by name."""

    @endpoint
    def put(self, dataset: Dataset, now: float | None = None) -> Steps[str]:
        """Store a dataset and make it the latest of its name. Returns its version."""
        body = {
            "name": dataset.name,
            "tasks": dataset.tasks,
            "splits": dataset.splits,
            "provenance": dataset.provenance,
        }
        answer = yield post("datasets", body=body)
        return answer.read(_Published).version

    @endpoint
    def get(self, version: str) -> Steps[Dataset]:
        """The dataset of that version.

        Raises:
            InputError: There is none.
        """
        answer = yield get("datasets", version)
        return _dataset(answer.read(_Dataset))

    @endpoint
    def latest(self, name: str) -> Steps[Dataset]:
        """The dataset that was put last under that name.

        Raises:
            InputError: There is none.
        """
        answer = yield get("datasets", name=name)
        return _dataset(answer.read(_Dataset))


def _dataset(found: _Dataset) -> Dataset:
    return Dataset(found.name, found.tasks, found.splits, found.provenance)
