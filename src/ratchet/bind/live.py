"""Chooses the versions of a live call: of the release, or of a canary's candidate."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from ratchet._live_calls import CallVersions
from ratchet.bind import context, registry
from ratchet.types import LiveVersions, Resource, arm_of, short_version, unit_digest
from ratchet.types.trace import ARM, CANDIDATE, EXPERIMENT, RELEASE, RESOURCES, UNIT

CONVERSATION_TTL_S = 24 * 3600.0
"""How long a conversation keeps the version that it began with, in seconds."""

CONVERSATIONS = 10_000
"""Maximum number of conversations whose version is remembered; the least recent are forgotten."""


MAX_TOLD = 200
"""Maximum number of resources whose versions a call records."""

RELEASE_VARIABLE = "RATCHET_RELEASE"
"""Environment variable that names the deployed version, such as a commit."""


class _Kept(NamedTuple):
    """The versions that a conversation began with."""

    candidate_id: str
    versions: CallVersions
    until: float


class _Told(NamedTuple):
    """What calls record that run these resources; both are kept so that they can be compared."""

    resources: Mapping[str, Resource]
    declared: Mapping[str, str]
    attributes: dict[str, Any]


class LiveChooser:
    """Chooses the versions of this process's live calls. Thread-safe.

    Args:
        clock: Monotonic clock in seconds.
        conversations: Maximum number of conversations whose version is remembered.
        serve: Called with the release's resources when they change.
        declared: Versions of the source's resources, the same object until they change.
        deployed: Name of the deployed version; empty if there is none.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        conversations: int = CONVERSATIONS,
        serve: Callable[[Mapping[str, Resource]], None] = context.serve,
        declared: Callable[[], Mapping[str, str]] = registry.source_versions,
        deployed: str = "",
    ) -> None:
        self._clock = clock
        self._limit = conversations
        self._serve = serve
        self._declared = declared
        self._deployed = deployed
        self._told: dict[int, _Told] = {}
        self._served: LiveVersions | None = None
        self._release = CallVersions({})
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.RLock()  # a signal handler may interrupt its own thread

    def forked(self) -> None:
        """Continue in a forked child, whose parent may have held the lock in another thread."""
        self._lock = threading.RLock()

    def serve(self, versions: LiveVersions | None, /) -> None:
        """Choose among these from now on; None for the agent's own source."""
        with self._lock:
            if versions is None:
                if self._served is not None:
                    self._serve({})
                self._served = None
                self._kept.clear()
                return
            released = {CANDIDATE: versions.release_id} if versions.release_id else {}
            self._release = CallVersions(versions.release, released)
            self._served = versions
            self._told.clear()
            self._serve(versions.release)

    def choose(self, unit: str, /, *, conversation: bool) -> CallVersions | None:
        """The versions of a call that begins now; None while there is no choice."""
        served = self._served
        if served is None:
            return None
        chosen = self._chosen(unit, served, conversation)
        run_attributes = self._run_by(chosen.resources)
        if not run_attributes:
            return chosen
        return CallVersions(chosen.resources, {**chosen.attributes, **run_attributes})

    def _run_by(self, resources: Mapping[str, Resource]) -> dict[str, Any]:
        """Records which resources a call runs, and which version is deployed."""
        declared = self._declared()
        cached = self._told.get(id(resources))
        if cached is None or cached.resources is not resources or cached.declared is not declared:
            attributes: dict[str, Any] = {}
            if declared:
                versions = {
                    name: short_version(resources[name]) if name in resources else version
                    for name, version in sorted(declared.items())[:MAX_TOLD]
                }
                attributes[RESOURCES] = [f"{name}@{version}" for name, version in versions.items()]
            if self._deployed:
                attributes[RELEASE] = self._deployed
            cached = self._told[id(resources)] = _Told(resources, declared, attributes)
        return cached.attributes

    def _chosen(self, unit: str, served: LiveVersions, conversation: bool) -> CallVersions:
        if served.split is None and not conversation:
            return self._release
        with self._lock:
            served = self._served or served
            remembered = self._kept_of(unit, served) if conversation else None
            if remembered is not None:
                return remembered
            candidate_id, chosen = self._assigned(unit, served)
            if conversation:
                self._kept[unit] = _Kept(candidate_id, chosen, self._clock() + CONVERSATION_TTL_S)
                if len(self._kept) > self._limit:
                    self._kept.popitem(last=False)
            return chosen

    def _assigned(self, unit: str, served: LiveVersions) -> tuple[str, CallVersions]:
        split = served.split
        arm = None if split is None else arm_of(split, unit)
        if split is None or arm is None:
            return served.release_id, self._release
        treated = arm == "candidate"
        candidate_id = split.candidate_id if treated else served.release_id
        attributes = {EXPERIMENT: split.experiment_id, ARM: arm, UNIT: unit_digest(unit)}
        if candidate_id:
            attributes[CANDIDATE] = candidate_id
        return candidate_id, CallVersions(
            served.candidate if treated else served.release, attributes
        )

    def _kept_of(self, unit: str, served: LiveVersions) -> CallVersions | None:
        """The versions that the conversation began with, unless they were withdrawn."""
        remembered = self._kept.get(unit)
        if remembered is None:
            return None
        self._kept.move_to_end(unit)
        split = served.split
        experiment_id = remembered.versions.attributes.get(EXPERIMENT)
        ended = experiment_id is not None and (
            split is None or split.experiment_id != experiment_id
        )
        withdrawn = remembered.candidate_id not in served.standing
        if self._clock() >= remembered.until or (
            withdrawn and (ended or split is None or remembered.candidate_id != split.candidate_id)
        ):
            del self._kept[unit]
            return None
        if ended:  # the version stands, as the release that it became or was
            attributes = {CANDIDATE: remembered.candidate_id} if remembered.candidate_id else {}
            versions = msgspec.structs.replace(remembered.versions, attributes=attributes)
            self._kept[unit] = remembered._replace(versions=versions)
            return versions
        return remembered.versions
