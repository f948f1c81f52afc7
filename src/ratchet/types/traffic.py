"""Live traffic: how it is split between the release and a candidate, and its outcomes."""

from __future__ import annotations

import hashlib
from typing import Literal, TypeAlias

import msgspec

from ratchet.types.hashing import content_hash
from ratchet.types.resource import Resource

Arm: TypeAlias = Literal["baseline", "candidate"]

ARM_SALT = "arm"
ENROL_SALT = "enrol"


class TrafficSplit(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's canary: a share of its units, half of which get the candidate.

    An agent's newest split is the one in effect. A unit is a conversation, or else a user, or else
    a single call. Raising `enrolled` only adds units: none changes its arm.
    """

    agent: str
    experiment_id: str
    """Empty ends the canary: every unit gets the active release."""
    candidate_id: str = ""
    enrolled: float = 0.0
    """Share of the units in the experiment, in [0, 1]; the candidate gets half of them. With 0
    no unit gets it, and the gateway may mirror calls to it."""
    started_at: float = 0.0
    """Unix seconds."""
    reason: str = ""


class LiveVersions(msgspec.Struct, frozen=True, kw_only=True):
    """What a live agent runs: its release and, during a canary, the candidate beside it."""

    agent: str
    release_id: str = ""
    """The active candidate; empty for the agent's own source."""
    release: dict[str, Resource] = {}
    """The resources that it replaces: those that differ from the source it was learned from."""
    standing: tuple[str, ...] = ("",)
    """This release and earlier ones that newer ones replaced, except withdrawn ones. A
    conversation that began with one of them keeps it."""
    split: TrafficSplit | None = None
    """The canary; None without one."""
    candidate: dict[str, Resource] = {}
    """The resources that the canary's candidate replaces."""

    @property
    def tag(self) -> str:
        """Hash of the ids that determine it, not of the resources that follow from them."""
        split = msgspec.to_builtins(self.split)
        return content_hash([self.release_id, list(self.standing), split])


class LiveOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a live trace."""

    trace_id: str
    unit: str
    """The unit of assignment: id of the conversation, the user, or the trace."""
    at: float
    """End of the trace, Unix seconds."""
    candidate_id: str = ""
    """Empty for the agent's own source."""
    experiment_id: str = ""
    """Canary in which the unit was enrolled; empty outside a canary."""
    arm: Arm | None = None
    score: float | None = None
    """Score of the objective, in [0, 1]; None if it could not be scored."""
    reason: str = ""
    """Why there is no score."""
    error: bool = False
    latency_s: float = 0.0
    cost_usd: float | None = None
    """None if a price is unknown."""
    group: str = ""
    """Cluster or tag, for the look at subgroups."""
    predicted: float | None = None
    """Score in [0, 1] that was predicted for the unit before it was assigned, such as its last
    score; None without a prediction. It makes a canary's comparison more precise."""
    release: str = ""
    """The deployed version, as the agent's process names it."""
    versions: dict[str, str] = {}
    """Short version of each resource that the call ran, by name, as far as it is known."""


def position(salt: str, experiment_id: str, unit: str) -> float:
    """Position of a unit in [0, 1): uniform over units, and constant for a salt and experiment.

    First 8 bytes of SHA-256 of the three texts, each preceded by its length in bytes.
    """
    parts = [part.encode("utf-8", "surrogatepass") for part in (salt, experiment_id, unit)]
    encoded = b"".join([len(part).to_bytes(8, "big") + part for part in parts])
    return (int.from_bytes(hashlib.sha256(encoded).digest()[:8], "big") >> 11) / (1 << 53)


def unit_digest(unit: str) -> str:
    """What a recorded call says of its unit: a hash, since a unit may be a user's address, which
    redaction would replace by the same mark for all."""
    return hashlib.sha256(unit.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def arm_of(split: TrafficSplit, unit: str) -> Arm | None:
    """The unit's arm in a canary, or None if it is not enrolled."""
    if not split.experiment_id:
        return None
    if position(ENROL_SALT, split.experiment_id, unit) >= split.enrolled:
        return None
    in_first_half = position(ARM_SALT, split.experiment_id, unit) < 0.5
    return "candidate" if in_first_half else "baseline"
